"""The numbers of the leaderboard, of the encoders' pages."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean

import papers
from pages import Report, Table, content, markdown
from scores import LABELS, SEVEN, Inputs, Records, Side, number, side

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
    shared = any(row["facts"].get("workers", 1) > 1 for row in rows)
    report.equal(f"{where}: mark of workers", cell.endswith(" ‡"), shared)
    report.expect(where, cell.removesuffix(" ‡"), number(cost), digits)


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
