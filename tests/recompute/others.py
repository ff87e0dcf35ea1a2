"""The pages of protocol traps and of conformance, and the searches below the claims."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, stdev

from pages import Report, Table, content, markdown
from papers import in_points
from scores import Fields, Inputs, Records, at, number, side


def traps(inputs: Inputs, report: Report) -> None:
    """Each score, and its difference from the first of its trap and task."""
    path, records = inputs.results / "tables" / "protocols.md", inputs.records
    data = content(inputs.results / "questions" / "traps.toml")["trap"]
    shown = list(markdown(path))
    report.equal(f"{path.name}: tables", len(shown), len(data))
    for table, trap in zip(shown, data, strict=False):
        report.equal(f"{path.name}: {trap['title']}", len(table.lines), len(trap["rows"]))
        first: dict[tuple[str, tuple[str, ...]], int] = {}
        between_scores = {"aggregation", "metric"} & set(trap.get("about", ()))
        sides = []
        for n, (line, row) in enumerate(zip(table.lines, trap["rows"], strict=False)):
            where = f"{path.name}: {trap['title']}: {row['what']}"
            own = side(records, row["method"], row["task"], row.get("score", ("spearman", "all")))
            sides.append(own)
            report.equal(where, line[1:3], [f"`{row['method']}`", f"`{row['task']}`"])
            report.expect(f"{where}: score", line[3], own.text)
            score = () if between_scores else tuple(row.get("score", ("spearman", "all")))
            base = first.setdefault((row["task"].partition(".")[0], score), n)
            start, gap = sides[base].mean, ""
            if base != n and own.mean is not None and start is not None:
                gap = f"{own.mean - start:+.9f}"
            report.expect(f"{where}: difference", line[4], gap)


def conformance(inputs: Inputs, report: Report) -> None:
    """Their scores, ours and the difference; then the counts and the largest difference."""
    results, records = inputs.results, inputs.records
    path = results / "tables" / "conformance.md"
    summary, *shown = markdown(path)
    files = sorted((results / "references").glob("*.json"))
    by_authors: dict[bool, int] = {True: 0, False: 0}
    report.equal(f"{path.name}: references", len(shown), len(files))
    trials: dict[str, list[dict[str, float]]] = {}
    for kept in sorted((results / "records" / "conformance").glob("*.json")):
        trials |= content(kept)
    for table, file, line in zip(shown, files, summary.lines, strict=False):
        reference = content(file)
        due = [(cell, *score) for cell in reference["cells"] for score in cell["scores"].items()]
        by_authors["authors_of" in reference] += len(due)
        report.equal(f"{path.name}: {file.name}", len(table.lines), len(due))
        differences = []
        for cells, (cell, name, theirs) in zip(table.lines, due, strict=False):
            where = f"{path.name}: {file.name}: {cell.get('method')} {cell.get('task')} {name}"
            report.expect(f"{where}: theirs", cells[3], number(theirs), 4)
            ours = _ours(cell, name, trials, records)
            if ours is None:
                report.equal(f"{where}: ours", any(map(str.isdigit, cells[4])), False)
                continue
            differences.append(round(ours - theirs, 9))
            report.expect(f"{where}: ours", cells[4], number(ours), 4)
            report.expect(f"{where}: difference", cells[5], f"{ours - theirs + 0.0:+.9f}", 4)
        report.expect(f"{path.name}: {file.name}: scores", line[2], str(len(due)))
        report.expect(f"{path.name}: {file.name}: compared", line[3], str(len(differences)))
        allowed = [float(cells[6]) for cells in table.lines if cells[5]]
        equal = sum(abs(a) <= b for a, b in zip(differences, allowed, strict=True))
        report.expect(f"{path.name}: {file.name}: equal", line[4], str(equal))
        largest = number(max(map(abs, differences))) if differences else ""
        report.expect(f"{path.name}: {file.name}: largest", line[5], largest, 4)
    said = f"{by_authors[True]} of the scores are of programs that papers' authors released, "
    said += f"{by_authors[False]} of libraries."
    report.equal(f"{path.name}: counts", said in path.read_text(encoding="utf-8"), True)


def equal_scores(inputs: Inputs) -> dict[bool, str]:
    """Of programs of authors, and of libraries: how many scores agree, of which encoder."""
    trials: dict[str, list[dict[str, float]]] = {}
    for kept in sorted((inputs.results / "records" / "conformance").glob("*.json")):
        trials |= content(kept)
    compared: dict[bool, int] = {True: 0, False: 0}
    equal: dict[bool, dict[str, int]] = {True: {}, False: {}}
    for file in sorted((inputs.results / "references").glob("*.json")):
        reference = content(file)
        by_authors = "authors_of" in reference
        for cell in reference["cells"]:
            encoder = cell.get("method", "").split(".")[0].split(":")[0]
            within = cell.get("tolerance", reference.get("tolerance", 1e-3))
            what = f"{f'of `{encoder}`' if encoder else 'of trainings'} within {within:g} points"
            for name, theirs in cell["scores"].items():
                ours = _ours(cell, name, trials, inputs.records)
                if ours is not None:
                    compared[by_authors] += 1
                    agrees = abs(round(ours - theirs, 9)) <= within
                    equal[by_authors][what] = equal[by_authors].get(what, 0) + agrees
    programs = {True: "programs that papers' authors released", False: "libraries"}
    return {
        kind: f"{sum(counts.values())} of {compared[kind]}: scores of {programs[kind]} are "
        f"reproduced: {', '.join(f'{n} {what}' for what, n in counts.items())}"
        for kind, counts in equal.items()
    }


def _ours(
    cell: dict[str, str], name: str, trials: dict[str, list[dict[str, float]]], records: Records
) -> float | None:
    """What was measured here: a training's score, or the mean over the seeds of a cell."""
    if training := cell.get("training"):
        return trials[training][0][name] if trials.get(training) else None
    path = name.split(".") if name not in ("all", "mean", "wmean") else ["spearman", name]
    rows = records.get((cell["method"], cell["task"]), ())
    scores = [score for row in rows if (score := at(row["scores"], path)) is not None]
    return fmean(scores) if rows and len(scores) == len(rows) else None


def searches(shown: Sequence[Table], results: Path, tables: Fields, report: Report) -> None:
    paths = sorted((results / "questions" / "searches").glob("*.toml"))
    report.equal("claims: searches", len(shown), len(paths))
    for path, table in zip(paths, shown, strict=False):
        search = content(path)
        kept = (results / "records" / "searches" / path.name).with_suffix(".json")
        trials = content(kept) if kept.exists() else {}
        report.equal(f"claims: {path.stem}: rows", len(table.lines), len(search["row"]))
        for cells, row in zip(table.lines, search["row"], strict=False):
            found = trials.get(f"{search['recipe']} {row['options']}".strip(), [])
            _search_row(f"claims: {path.stem}: {row['label']}", cells, found, report)
            if len(cells) > 7:
                published = tables[search["table"]]
                rows = {one["id"]: one for one in published["row"]}
                column = next(c for c in published["columns"] if c.get("task"))
                own = row.get("published")
                due = in_points(published, rows[own], column) if own else ""
                report.expect(f"claims: {path.stem}: {row['label']}: published", cells[7], due, 1)


def _search_row(where: str, cells: Sequence[str], trials: Sequence[Fields], report: Report) -> None:
    if not trials:
        report.equal(where, cells[2:7], ["not measured"] * 4 + [""])
        return
    for place, name in ((2, "before"), (3, "best")):
        values = [trial[name] for trial in trials]
        sd = f" ± {number(stdev(values))}" if len(set(values)) > 1 else ""
        report.expect(f"{where}: {name}", cells[place], f"{number(fmean(values))}{sd}")
    steps = ", ".join(f"{trial['step']:,} of {trial['steps']:,}" for trial in trials)
    report.expect(f"{where}: step", cells[4], steps)
    report.expect(f"{where}: loss", cells[5], number(fmean(t["loss"] for t in trials)), 3)
    report.expect(f"{where}: seeds", cells[6], str(len(trials)))
