"""The pages of protocol traps and of conformance, and the searches below the claims."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import fmean, stdev

from pages import Column, Report, content, paragraphs, tables
from papers import in_points
from scores import Fields, Inputs, Records, at, number, side

Scores = dict[str, list[dict[str, float]]]
Compared = tuple[
    Fields, str, float, float | None
]  # a cell, a score's name, theirs, ours


def traps(inputs: Inputs, report: Report) -> None:
    """Each score, and its difference from the first of its trap and task."""
    path, records = inputs.results / "tables" / "protocols.md", inputs.records
    data = content(inputs.results / "questions" / "traps.toml")["trap"]
    shown = list(tables(path))
    report.equal(f"{path.name}: tables", len(shown), len(data))
    for table, trap in zip(shown, data, strict=False):
        report.equal(
            f"{path.name}: {trap['title']}", len(table.lines), len(trap["rows"])
        )
        first: dict[tuple[str, tuple[str, ...]], float | None] = {}
        between_scores = {"aggregation", "metric"} & set(trap.get("about", ()))
        for line, row in zip(table.lines, trap["rows"], strict=False):
            where = f"{path.name}: {trap['title']}: {row['method']} on {row['task']}"
            named = re.findall("`(.*?)`", " ".join(line[1:]))
            report.equal(where, named, [row["method"], row["task"]])
            path_of_score = tuple(row.get("score", ("spearman", "all")))
            own = side(records, row["method"], row["task"], path_of_score)
            subject = (
                row["task"].partition(".")[0],
                () if between_scores else path_of_score,
            )
            start = first.get(subject)
            gap = "" if None in (own.mean, start) else f"{own.mean - start:+.9f}"
            first.setdefault(subject, own.mean)
            report.expect(where, " ".join(line[1:]), f"{own.text} {gap}")


def compared(inputs: Inputs) -> Iterator[tuple[Path, Fields, list[Compared]]]:
    """Of each reference: its scores by cell and name, with ours where it was measured."""
    trials: Scores = {}
    for kept in sorted((inputs.results / "records" / "conformance").glob("*.json")):
        trials |= content(kept)
    for file in sorted((inputs.results / "references").glob("*.json")):
        reference = content(file)
        scores = []
        for cell in reference["cells"]:
            for name, theirs in cell["scores"].items():
                scores.append(
                    (cell, name, theirs, _ours(cell, name, trials, inputs.records))
                )
        yield file, reference, scores


def _within(reference: Fields, cell: Fields) -> float:
    return cell.get("tolerance", reference.get("tolerance", 1e-3))


def conformance(inputs: Inputs, report: Report) -> None:
    """Their scores, ours and the difference; then the counts and the largest difference."""
    path = inputs.results / "tables" / "conformance.md"
    shown = list(tables(path))
    by_file = {table.headings[-1]: table for table in shown}
    summaries: dict[str, list[str]] = {}
    counts = {True: 0, False: 0}
    for file, reference, scores in compared(inputs):
        where, lines = f"{path.name}: {file.name}", by_file[file.name].lines
        report.equal(f"{where}: lines", len(lines), len(scores))
        differences = []
        equal = 0
        for line, (cell, name, theirs, ours) in zip(lines, scores, strict=False):
            within, due = _within(reference, cell), [number(theirs)]
            if ours is not None:
                differences.append(abs(round(ours - theirs, 9)))
                equal += differences[-1] <= within
                due += [number(ours), f"{ours - theirs + 0.0:+.9f}"]
            printed = " ".join(line[3:])
            report.expect(
                f"{where}: {name}", printed, " ".join([*due, f"{within:g}"]), 4
            )
        counts["authors_of" in reference] += len(scores)
        numbers = [len(scores), len(differences), equal]
        largest = f"{max(differences):.4f}" if differences else ""
        summaries[file.name] = [*map(str, numbers), largest]
    table = next(table for table in shown if table.headings[-1] not in summaries)
    keys = [line[0].strip("`") for line in table.lines]
    report.equal(f"{path.name}: references", keys, [*summaries])
    columns = [Column([], column) for column in zip(*summaries.values(), strict=True)]
    report.columns(path.name, keys, table, columns)
    report.sentence(f"{path.name}: scores", paragraphs(path), counts.values())


def equal_scores(inputs: Inputs) -> dict[bool, list[int]]:
    """Of programs of authors, and of libraries: how many scores agree, of how many, by encoder."""
    found: dict[bool, list[int]] = {}
    equal: dict[bool, dict[tuple[str, float], int]] = {True: {}, False: {}}
    for by_authors in (True, False):
        count = 0
        for _, reference, scores in compared(inputs):
            if ("authors_of" in reference) != by_authors:
                continue
            for cell, _, theirs, ours in scores:
                if ours is None:
                    continue
                count += 1
                within = _within(reference, cell)
                subject = cell.get("method", "").split(".")[0].split(":")[0], within
                agrees = abs(round(ours - theirs, 9)) <= within
                equal[by_authors][subject] = equal[by_authors].get(subject, 0) + agrees
        found[by_authors] = [
            sum(equal[by_authors].values()),
            count,
            *equal[by_authors].values(),
        ]
    return found


def _ours(cell: Fields, name: str, trials: Scores, records: Records) -> float | None:
    """What was measured here: the mean over the seeds of a training or a cell."""
    if training := cell.get("training"):
        trained = trials.get(training)
        return fmean(trial[name] for trial in trained) if trained else None
    path = (
        name.split(".") if name not in ("all", "mean", "wmean") else ["spearman", name]
    )
    rows = records.get((cell["method"], cell["task"]), ())
    scores = [score for row in rows if (score := at(row["scores"], path)) is not None]
    return fmean(scores) if rows and len(scores) == len(rows) else None


def searches(inputs: Inputs, path: Path, report: Report) -> None:
    """The trials of every search, and the numbers that are published for them."""
    shown = {table.headings[-1]: table for table in tables(path)}
    for file in sorted((inputs.results / "questions" / "searches").glob("*.toml")):
        search = content(file)
        kept = (inputs.results / "records" / "searches" / file.name).with_suffix(
            ".json"
        )
        trials = content(kept) if kept.exists() else {}
        lines = shown[search["title"]].lines
        labels = [row["label"] for row in search["row"]]
        report.equal(
            f"{path.name}: {file.stem}: rows", [line[0] for line in lines], labels
        )
        for line, row in zip(lines, search["row"], strict=False):
            found = trials.get(f"{search['recipe']} {row['options']}".strip(), [])
            due = [_trials(found), _published(search, row, inputs.tables)]
            where = f"{path.name}: {file.stem}: {row['label']}"
            report.expect(where, " ".join(line[2:]), " ".join(due))


def _trials(trials: Sequence[Fields]) -> str:
    """Means over seeds before and after, steps, loss and the number of seeds."""
    if not trials:
        return ""
    said = []
    for name in ("before", "best"):
        values = [trial[name] for trial in trials]
        sd = number(stdev(values)) if len(set(values)) > 1 else ""
        said.append(f"{number(fmean(values))} {sd}")
    said += dict.fromkeys(f"{trial['step']} {trial['steps']}" for trial in trials)
    return " ".join(
        [*said, f"{fmean(t['loss'] for t in trials):.3f}", str(len(trials))]
    )


def _published(search: Fields, row: Fields, published: Fields) -> str:
    if "table" not in search or not row.get("published"):
        return ""
    table = published[search["table"]]
    rows = {one["id"]: one for one in table["row"]}
    column = next(c for c in table["columns"] if c.get("task"))
    return f"{float(in_points(table, rows[row['published']], column)):.1f}"
