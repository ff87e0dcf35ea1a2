"""The numbers of the leaderboard, of the encoders' pages and of the page of flows."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import papers
from pages import Report, Table, content, markdown
from scores import ENOUGH, LABELS, SEVEN, Inputs, Records, Side, decide, number, side, welch

SPEARMAN = ("spearman", "all")
# The columns beside the seven tasks: a task and the path of a score in its records.
COLUMNS = {
    "lexical": ("lexical", ("edit_distance",)),
    "lexical, near": ("lexical", ("edit_distance_near",)),
    "QNLI (AUC)": ("qnli", ("auc",)),
    "SICK-R, 9,927": ("sick-r.all", SPEARMAN),
    "STS-B dev": ("sts-b.dev", SPEARMAN),
    "alignment": ("sts-b", ("alignment",)),
    "uniformity": ("sts-b", ("uniformity",)),
    "mini-STS": ("mini-sts", SPEARMAN),
    "mini-SICK": ("mini-sick", SPEARMAN),
    "mini-QNLI (AUC)": ("mini-qnli", ("auc",)),
    "mini-lexical": ("mini-lexical", ("edit_distance",)),
    "mini-kind (accuracy)": ("mini-kind", ("accuracy",)),
    "mini-paraphrase (accuracy)": ("mini-paraphrase", ("accuracy",)),
    **{
        heading: (heading.lower(), ("accuracy",))
        for heading in ("MR", "CR", "SUBJ", "MPQA", "SST-2", "TREC", "MRPC")
    },
}
GOLD = re.compile(r"token edit distance on (mini-)?STS.*? gold itself has (\S+) .*? and (\S+) ")
PROTOCOL = re.compile(r"(Spearman|Pearson), `(\w+)`, (SentEval|raw) text")
ANSWER = re.compile(r"\* \*\*(?P<question>.*?)\*\* (?P<said>.*)")


def leaderboard(inputs: Inputs, report: Report) -> None:
    papers.counts(inputs.results / "LEADERBOARD.md", inputs, report)
    board_page(inputs.results / "LEADERBOARD.md", inputs.records, report)


def encoders(inputs: Inputs, report: Report) -> None:
    for name in encoder_pages(inputs.records):
        board_page(inputs.results / "tables" / name, inputs.records, report)


def encoder_pages(records: Records) -> list[str]:
    names = sorted({method.partition(".")[0] for method, _ in records})
    return [f"{name.replace(':', '%3A')}.md" for name in names]


def board_page(path: Path, records: Records, report: Report) -> None:
    """The leaderboard, or an encoder's page."""
    whole = path.name == "LEADERBOARD.md"
    shown: set[str] = set()
    done: set[tuple[str, str]] = set()
    for table in markdown(path):
        where = f"{path.name}: {' / '.join(filter(None, [*table.headings[1:], table.caption]))}"
        if table.head[0] == "paper":
            continue  # papers.py has the counts
        scope = table.headings[-1] if whole else table.headings[0]
        done.add((scope, table.caption))
        if found := PROTOCOL.search(table.caption or table.headings[-1]):
            own = _methods(records, scope, shown if scope == "On some tasks only" else None)
            shown.add(scope)
            _seven(where, table, own, found, records, report, path.parent if whole else None)
        else:
            own = _methods(records, table.headings[0], set() if whole else None)
            _section(where, table, own, records, report)
    _gold(path, records, report)
    if whole:
        _every_board(path, done, records, report)


def _methods(records: Records, encoder: str, but: set[str] | None) -> list[str]:
    """The methods of an encoder; with `but`, those of all encoders but these."""
    every = dict.fromkeys(method for method, _ in records)
    if but is not None:
        return [method for method in every if method.partition(".")[0] not in but]
    return [method for method in every if method.partition(".")[0] == encoder]


def seven_of(records: Records, method: str, found: re.Match[str]) -> list[Side]:
    metric, way, text = found[1].lower(), found[2], found[3]
    suffix = ".senteval" if text == "SentEval" else ""
    return [side(records, method, f"{task}{suffix}", (metric, way)) for task in SEVEN]


def average_of(sides: Sequence[Side]) -> float | None:
    means = [one.mean for one in sides if one.mean is not None]
    return fmean(means) if len(means) == len(sides) else None


def average_text(mean: float | None) -> str:
    return "–" if mean is None else number(mean)


def _label(method: str) -> str:
    fitted = method.partition("@")[2] in ("target", "target-splits")
    return f"`{method}`" + (" †" if fitted else "")


def _seven(
    where: str,
    table: Table,
    methods: Sequence[str],
    protocol: re.Match[str],
    records: Records,
    report: Report,
    results: Path | None,
) -> None:
    """A table of the seven tasks: each score, average and cost, the rows' order and marks."""
    rows = {method: seven_of(records, method, protocol) for method in methods}
    rows = {m: row for m, row in rows.items() if any(one.mean is not None for one in row)}
    averages = {m: mean for m, row in rows.items() if (mean := average_of(row)) is not None}
    ties = _ties(results, protocol, averages) if results else set()
    ranked = sorted(averages, key=lambda method: -averages[method])
    wanted = [_label(m) + (" ≈" if m in ties else "") for m in ranked]
    printed = [line[0] for line in table.lines]
    report.equal(f"{where}: rows with an average", printed[: len(wanted)], wanted)
    left = [_label(m) for m in rows if m not in averages]
    report.equal(f"{where}: other rows", sorted(printed[len(wanted) :]), sorted(left))
    report.equal(f"{where}: columns", list(table.head[1:9]), [*LABELS, "Avg."])
    for line in table.lines:
        method = line[0].split("`")[1]
        due = [*(one.text for one in rows.get(method, ())), average_text(averages.get(method))]
        report.cells(f"{where}: {method}", table.head[1:9], line[1:9], due)
        for cell in line[9:]:
            _cost(f"{where}: {method}: cost", cell, method, protocol, records, report)


def _ties(results: Path, protocol: re.Match[str], averages: dict[str, float]) -> set[str]:
    """Rows that the stored comparisons of exactly these averages cannot tell from the row above."""
    if not averages:
        return set()
    encoder = next(iter(averages)).partition(".")[0]
    name = f"{encoder}.{protocol[3].lower()}-{protocol[1].lower()}-{protocol[2]}.json"
    path = results / "records" / "comparisons" / name.replace(":", "%3A")
    if not path.exists():
        return set()
    stored = content(path)
    if stored["averages"] != {method: round(mean, 2) for method, mean in averages.items()}:
        return set()
    return {row["below"] for row in stored["rows"] if row["p_holm"] > 0.05}


def _cost(
    where: str, cell: str, method: str, protocol: re.Match[str], records: Records, report: Report
) -> None:
    suffix = ".senteval" if protocol[3] == "SentEval" else ""
    rows = [row for task in SEVEN for row in records.get((method, f"{task}{suffix}"), ())]
    clocks = [row["timings"].get(name) for row in rows for name in ("encode", "apply")]
    sentences = [row["facts"].get("distinct_sentences", 0) for row in rows]
    if not rows or None in clocks or not all(sentences) or not sum(clocks):
        report.equal(where, cell, "not timed" if rows else "not run")
        return
    cost = 1000 * sum(clocks) / sum(sentences)
    digits = max(0, 1 - math.floor(math.log10(cost)))
    report.expect(where, cell, number(cost), digits)


def _section(
    where: str, table: Table, methods: Sequence[str], records: Records, report: Report
) -> None:
    """A table of other tasks; which columns and rows there are, and each score."""
    unknown = [heading for heading in table.head[1:] if heading not in COLUMNS]
    report.equal(f"{where}: columns without a rule", unknown, [])
    if unknown:
        return
    rows = {
        _label(m): [side(records, m, *COLUMNS[heading]) for heading in table.head[1:]]
        for m in methods
    }
    rows = {m: row for m, row in rows.items() if any(one.mean is not None for one in row)}
    report.equal(f"{where}: rows", sorted(line[0] for line in table.lines), sorted(rows))
    for line in table.lines:
        due = [one.text for one in rows.get(line[0], ())]
        report.cells(f"{where}: {line[0]}", table.head[1:], line[1:], due)


def _gold(path: Path, records: Records, report: Report) -> None:
    """The scores of gold itself, which stand in a sentence."""
    for mini, whole, near in GOLD.findall(path.read_text(encoding="utf-8")):
        task = f"{mini}lexical"
        rows = next(rows for (_, name), rows in records.items() if name == task)
        scores = rows[0]["scores"]
        report.expect(f"{path.name}: gold, {task}", whole, number(scores["gold_edit_distance"]))
        found = number(scores["gold_edit_distance_near"])
        report.expect(f"{path.name}: gold, {task}, near", near, found)


def _every_board(path: Path, done: set[tuple[str, str]], records: Records, report: Report) -> None:
    """An encoder with an average has its table."""
    for caption in {caption for _, caption in done if caption}:
        protocol = PROTOCOL.search(caption)
        assert protocol
        for encoder in {method.partition(".")[0] for method, _ in records}:
            own = _methods(records, encoder, None)
            if any(average_of(seven_of(records, m, protocol)) is not None for m in own):
                report.equal(f"{path.name}: {encoder}: {caption}", (encoder, caption) in done, True)


def flows_page(inputs: Inputs, report: Report) -> None:
    """Every score and every answer of the page of flows."""
    path, records = inputs.results / "tables" / "flows.md", inputs.records
    maps = content(inputs.results / "questions" / "flows.toml")
    kinds = {"none": "", **dict.fromkeys(maps["linear"], "linear")}
    kinds |= dict.fromkeys(maps["flows"], "flow")
    sections = set()
    overview, *tables = markdown(path)
    shown_maps: dict[tuple[str, str, str], dict[str, list[Side]]] = {}
    for table in tables:
        plain, corpus = re.findall(r"`(.*?)`", table.headings[-1])
        sections.add((plain, corpus))
        where = f"{path.name}: {plain}@{corpus}: {table.caption}"
        protocol = PROTOCOL.search(table.caption)
        assert protocol
        rows = {}
        on = f"{plain}@{corpus}" in maps.get("planned_on", ())
        planned = maps["planned"] if on else ()
        for chain, kind in kinds.items():
            method = plain if chain == "none" else f"{plain}+{chain}@{corpus}"
            sides = seven_of(records, method, protocol)
            rows[chain] = [Side(one.scores, one.seeded or kind == "flow") for one in sides]
            measured = any(name == method for name, _ in records)
            line = next((li for li in table.lines if li[0].strip("`") == chain), None)
            shown = measured or chain in planned
            report.equal(f"{where}: {chain} has a row", line is not None, shown)
            if line:
                _map_row(f"{where}: {chain}", line, kind, rows[chain], report)
                cost = "–" if chain == "none" else _fit(records, method)
                report.equal(f"{where}: {chain}: fit", line[10], cost)
        _answers(where, path, table, maps["question"], rows, report)
        shown_maps[plain, corpus, protocol[2]] = rows
    _overview(path.name, overview, maps["question"], shown_maps, report)
    parts = [re.fullmatch(r"([^+]*)\+(.*)@(.*)", method) for method, _ in records]
    wanted = {(m[1], m[3]) for m in parts if m and kinds.get(m[2]) == "flow"}
    report.equal(f"{path.name}: sections", sections, wanted)


def _overview(
    where: str,
    table: Table,
    questions: Sequence[dict[str, str]],
    maps: dict[tuple[str, str, str], dict[str, list[Side]]],
    report: Report,
) -> None:
    """The first table: one map beside every flow, on average and in tasks ahead and behind."""
    first = questions[0]["first"]
    flows = [asked["second"] for asked in questions if asked["first"] == first]
    report.equal(f"{where}: flows", [head.strip("`") for head in table.head[3:]], flows)
    wanted = {}
    for on, rows in maps.items():
        cells = [_tally(rows[first], rows[flow]) for flow in flows]
        if any(cells):
            wanted[on] = [cell or "not run" for cell in cells]
    printed = {tuple(cell.strip("`") for cell in line[:3]): line[3:] for line in table.lines}
    report.equal(f"{where}: encodings", list(printed), list(wanted))
    for on, cells in wanted.items():
        report.cells(f"{where}: {' '.join(on)}: {first} minus", flows, printed.get(on, ()), cells)


def _tally(first: Sequence[Side], second: Sequence[Side]) -> str:
    """A cell of it; empty where no task has both maps."""
    every = [decide(a, b) for a, b in zip(first, second, strict=True)]
    found = [decision for decision in every if decision.difference is not None]
    if not found:
        return ""
    outcomes = [decision.outcome for decision in found]
    ahead, behind = outcomes.count("holds"), outcomes.count("does not hold")
    mean = fmean(decision.difference or 0.0 for decision in found)
    return f"{mean:+.9f} ({ahead}, {behind})"


def _map_row(
    where: str, line: Sequence[str], kind: str, sides: Sequence[Side], report: Report
) -> None:
    report.equal(f"{where}: kind", line[1], kind)
    few = [kind == "flow" and 0 < len(one.scores) < ENOUGH for one in sides]
    notes = [f" (k={len(one.scores)})" * note for one, note in zip(sides, few, strict=True)]
    due = [one.text + note for one, note in zip(sides, notes, strict=True)]
    report.cells(where, (*LABELS, "Avg."), line[2:10], [*due, average_text(average_of(sides))])


def _fit(records: Records, method: str) -> str:
    """The mean seconds of its fits on STS-B."""
    clocks = [row["timings"].get("fit") for row in records.get((method, "sts-b"), ())]
    return "not measured" if not clocks or None in clocks else f"{fmean(clocks):.1f} s"


def _answers(
    where: str,
    path: Path,
    table: Table,
    questions: Sequence[dict[str, str]],
    rows: dict[str, list[Side]],
    report: Report,
) -> None:
    """The sentences below a table, each made anew from its question."""
    text = path.read_text(encoding="utf-8")
    text = text[text.index(f"\n## {table.headings[-1]}\n") :]
    text = text[text.index(f"\n**{table.caption}**\n") + 1 :]
    text = re.split(r"\n(?:\*\*|## |Records)", text[3:], maxsplit=1)[0]
    printed = {f["question"]: f["said"] for li in text.splitlines() if (f := ANSWER.match(li))}
    wanted = {}
    for question in questions:
        if said := _answer(question["first"], question["second"], rows):
            wanted[question["text"]] = said
    report.equal(f"{where}: questions", list(printed), list(wanted))
    for asked, said in wanted.items():
        report.expect(f"{where}: {asked}", printed.get(asked, ""), said)


def _answer(first: str, second: str, rows: dict[str, list[Side]]) -> str:
    """The sentence that answers a question; empty where no task has both maps."""
    pairs = zip(LABELS, rows[first], rows[second], strict=True)
    found = [(label, a, b, decide(a, b)) for label, a, b in pairs]
    found = [each for each in found if each[3].difference is not None]
    if not found:
        return ""
    parts = []
    for label, a, b, decision in found:
        part = f"{label} {decision.difference:+.9f}"
        if decision.by == "too few seeds":
            part += " (too few seeds)"
        elif decision.interval and (seeded := [one for one in (a, b) if one.seeded]):
            part += f" ± {number(welch(*(one.spread for one in seeded)))}"
        parts.append(part)
    mean = fmean(decision.difference or 0.0 for *_, decision in found)
    outcomes = [decision.outcome for *_, decision in found]
    ahead, behind = outcomes.count("holds"), outcomes.count("does not hold")
    tasks = "1 task" if len(found) == 1 else f"{len(found)} tasks"
    said = "no task is decided"
    if ahead or behind:
        said = f"`{first}` is ahead on {ahead}, `{second}` on {behind}, of {tasks}"
        if left := [label for label, *_, decision in found if decision.outcome == "undecided"]:
            said += f"; undecided: {', '.join(left)}"
    return f"`{first}` minus `{second}`: {', '.join(parts)}; {mean:+.9f} on average: {said}."
