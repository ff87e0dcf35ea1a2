"""The papers' tables, the counts over them, and the verdicts, made anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pages import Report, Table, bare, markdown
from scipy import stats
from scores import ENOUGH, SEEDED, Fields, Inputs, Records, at, number, welch

SCORES = ("spearman", "pearson", "auc", "edit_distance", "gold_similarity", "accuracy")
VERDICTS = {
    "exact": "=",
    "match": "≃",
    "close": "∼",
    "consistent": "±",
    "differs": "≠",
    "inconclusive": "?",
    "too few seeds": "…",
}
EVIDENCE = {"confirmed": "●", "code": "◉", "paper": "○", "inferred": "△"}
MOST_DIGITS = 4
OURS = "↳"
STATE = "why nothing was measured"  # what a cell says in words alone
WIDEST = 10  # columns in one table; more are a table for each metric


Due = tuple[str, int | None]  # an expected cell, and the digits of its numbers


@dataclass(frozen=True)
class Measured:
    """What was measured for a published number: a score a seed, and the verdict."""

    scores: Sequence[float]
    verdict: str
    seeded: bool


def in_points(table: Fields, row: Fields, column: Fields) -> str:
    """The printed digits, with the point moved where the paper prints fractions."""
    digits = row["values"][column["id"]]
    if column.get("metric", table["metric"]) in SCORES and table.get("scale", 100) == 1:
        return f"{Decimal(digits).scaleb(2):f}"
    return str(digits)


def measured(table: Fields, row: Fields, column: Fields, records: Records) -> Measured | None:
    """The scores of the cell's method on its tasks, if all are there."""
    metric = column.get("metric", table["metric"])
    if "why_not" in row or "why_not" in column or metric not in SCORES:
        return None
    method, tasks, path = _asked(table, row, column)
    found = [records.get((method, task), ()) for task in tasks]
    if not all(found):
        return None
    seeded = any(word in rs[0]["identity"] for rs in found for word in SEEDED)
    count = min(map(len, found)) if seeded else 1
    seeds = [[at(rs[n]["scores"], path) for rs in found] for n in range(count)]
    if any(score is None for seed in seeds for score in seed):
        return None
    means = [fmean(score for score in seed if score is not None) for seed in seeds]
    return _judged(table, row, column, means, seeded)


def _asked(
    table: Fields, row: Fields, column: Fields
) -> tuple[str, tuple[str, ...], tuple[str, ...]]:
    """The method of a cell, its tasks, and the path of the score in their records."""
    given, by_id = row.get("tasks", {}), {c["id"]: c.get("task") for c in table["columns"]}
    names = column.get("average_of", [column["id"]])
    tasks = tuple(given.get(name, by_id[name]) for name in names)
    way = column.get("aggregation") or row.get("aggregation") or table.get("aggregation") or "all"
    path = path_of(column.get("metric", table["metric"]), way)
    return row.get("methods", {}).get(column["id"], row.get("method")), tasks, path


def path_of(metric: str, way: str | None) -> tuple[str, ...]:
    """Where a record holds the score of a metric, aggregated in this way."""
    if metric not in ("spearman", "pearson") or way is None:
        return (metric,)
    return metric, {"single set": "all"}.get(way, way)


def _judged(
    table: Fields, row: Fields, column: Fields, scores: Sequence[float], seeded: bool
) -> Measured:
    printed = in_points(table, row, column)
    sd = row.get("sd", {}).get(column["id"])
    if name := row.get("sd_row"):
        sd = next(one for one in table["row"] if one["id"] == name)["values"].get(column["id"])
    spread = (float(sd) * 100 / table.get("scale", 100), row["n"]) if sd is not None else None
    return Measured(scores, verdict(printed, scores, seeded, spread), seeded)


def verdict(
    printed: str, scores: Sequence[float], seeded: bool, spread: tuple[float, int] | None
) -> str:
    """The rules that stand below every table, written a second time."""
    difference = round(fmean(scores) - float(printed), 9)
    size = abs(difference)
    if not seeded:
        half = 0.5 * 10.0 ** -len(printed.partition(".")[2])
        if size <= max(0.005, half):
            return "exact"
        return "match" if size <= 0.05 else "close" if size <= 0.5 else "differs"
    k = len(scores)
    if k < ENOUGH:
        return "too few seeds"
    if spread is not None:
        h = round(welch((stdev(scores), k), spread), 9)
        if round(size + h, 9) <= 1.0:
            return "consistent"
        return "differs" if size > h else "inconclusive"
    h = round(float(stats.t.ppf(0.975, k - 1)) * stdev(scores) * (1 + 1 / k) ** 0.5, 9)
    if h > 2.0:
        return "inconclusive"
    return "consistent" if size <= max(h, 0.05) else "differs"


def pages(inputs: Inputs, report: Report) -> None:
    """Every table, and the counts of numbers in CONTENTS.txt."""
    folder, tables = inputs.results / "tables" / "papers", inputs.tables
    for name, table in tables.items():
        due, printed = list(blocks(table)), list(markdown(folder / f"{name}.md"))
        report.equal(f"{name}: tables", len(printed), len(due))
        for columns, shown in zip(due, printed, strict=False):
            _block(name, table, columns, shown, inputs.records, report)
    lines = (folder / "CONTENTS.txt").read_text(encoding="utf-8").splitlines()[1:]
    counts = {name: str(sum(len(row["values"]) for row in t["row"])) for name, t in tables.items()}
    counts["all"] = str(sum(map(int, counts.values())))
    report.equal("CONTENTS.txt", {li.split()[2]: li.split()[1] for li in lines}, counts)


def blocks(table: Fields) -> Iterator[list[Fields]]:
    """The columns that stand beside each other: all, or where they are many those of a metric."""
    metrics = [column.get("metric", table["metric"]) for column in table["columns"]]
    if len(metrics) <= WIDEST:
        yield table["columns"]
        return
    for metric in dict.fromkeys(metrics):
        yield [c for c, own in zip(table["columns"], metrics, strict=True) if own == metric]


def _block(
    page: str,
    table: Fields,
    columns: Sequence[Fields],
    shown: Table,
    records: Records,
    report: Report,
) -> None:
    """Line after line: headings of groups, published numbers, ours, their spread."""
    wanted: list[list[Due]] = []
    group = None
    for row in table["row"]:
        if not any(column["id"] in row["values"] for column in columns):
            continue
        if row.get("group") not in (None, group):
            wanted.append([(row["group"], None)])
        group = row.get("group")
        wanted += lines_of(table, row, columns, records)
    report.equal(f"{page}: lines", len(shown.lines), len(wanted))
    label = ""
    for line, due in zip(shown.lines, wanted, strict=False):
        label = bare(line[0]) if len(due) == 1 or due[1][0] else label
        report.equal(f"{page}: {label}: cells", len(line), len(due))
        for head, cell, (text, digits) in zip(("", *shown.head[1:]), line, due, strict=False):
            where = f"{page}: {label}: {head or line[0]}"
            if text == STATE:
                report.equal(f"{where}: a digit", any(map(str.isdigit, bare(cell))), False)
            else:
                report.expect(where, bare(cell), text, digits)


def lines_of(
    table: Fields, row: Fields, columns: Sequence[Fields], records: Records
) -> list[list[Due]]:
    """The line of published numbers; where any was measured, ours, and their spread over seeds."""
    here = [column if column["id"] in row["values"] else None for column in columns]
    judged = any(c and "why_not" not in c for c in here) and "why_not" not in row
    mark = EVIDENCE[row.get("evidence", table.get("evidence"))] if judged else ""
    first: list[Due] = [(row["label"] + "†" * row.get("transductive", False), None), (mark, None)]
    lines = [first + [printed_digits(in_points(table, row, c)) if c else ("", None) for c in here]]
    found = [measured(table, row, c, records) if c else None for c in here]
    marks = {VERDICTS[one.verdict] for one in found if one}
    shared = f" {next(iter(marks))}" if len(marks) == 1 else ""
    second: list[Due] = [(f"{OURS} measured{shared}", None), ("", None)]
    third: list[Due] = [(f"{OURS} sd (seeds)", None), ("", None)]
    for column, one in zip(here, found, strict=True):
        if one is None:
            second.append((STATE if column else "", None))
            third.append(("", None))
            continue
        digits = len(in_points(table, row, column or {}).partition(".")[2])
        own = "" if shared else f" {VERDICTS[one.verdict]}"
        second.append((number(fmean(one.scores)) + own, min(max(digits, 2), MOST_DIGITS)))
        sd = f"{number(stdev(one.scores))} " if len(one.scores) > 1 else ""
        third.append((f"{sd}({len(one.scores)})" if one.seeded else "", 2))
    lines += [second] if marks else []
    return lines + ([third] if any(one and one.seeded for one in found) else [])


def printed_digits(digits: str) -> Due:
    decimals = len(digits.partition(".")[2])
    if decimals > MOST_DIGITS:
        return f"{float(digits):.9f}", MOST_DIGITS
    return digits, decimals


def counts(path: Path, inputs: Inputs, report: Report, run: bool = False) -> None:
    """The table of counts over the papers, wherever it stands; with `run` of those measured."""
    every = counted(inputs.tables, inputs.records)
    due = {paper: count for paper, count in every.items() if count["run"] or not run}
    [shown] = (table for table in markdown(path) if table.head[0] == "paper")
    columns = ["run", *(verdict for verdict in VERDICTS if every["all"][verdict])]
    columns += ["runnable", "published"]
    report.equal(f"{path.name}: counts", shown.head[1:], columns)
    wanted = [[paper, *(str(count[column]) for column in columns)] for paper, count in due.items()]
    report.equal(f"{path.name}: papers", shown.lines, wanted)
    report.numbers += sum(map(len, shown.lines))


def counted(tables: Fields, records: Records) -> dict[str, Counter[str]]:
    """Of each paper, then of all: numbers published, runnable, run, and by verdict."""
    found: dict[str, Counter[str]] = {}
    for table, row, column in cells(tables):
        one = measured(table, row, column, records)
        words = ["published"]
        words += ["runnable"] if "why_not" not in row and "why_not" not in column else []
        words += ["run", one.verdict] if one else []
        for paper in (table["paper"], "all"):
            found.setdefault(paper, Counter()).update(words)
    found["all"] = found.pop("all")
    return found


def cells(tables: Fields) -> Iterator[tuple[Any, Any, Any]]:
    """Table, row and column of every published number."""
    for table in tables.values():
        for row, column in ((r, c) for r in table["row"] for c in table["columns"]):
            if column["id"] in row["values"]:
                yield table, row, column


def different_scores(tables: Fields, records: Records) -> int:
    """How many scores stand beside published numbers, each counted once."""
    return len({_asked(*cell) for cell in cells(tables) if measured(*cell, records)})


def readme(inputs: Inputs, report: Report) -> None:
    """The README's counts, and how many numbers there are and what is known of them, in words."""
    path, tables = inputs.results.parent / "README.md", inputs.tables
    counts(path, inputs, report, run=True)
    total = counted(tables, inputs.records)["all"]
    works = len({table["cite"] for table in tables.values()})
    inferred = sum(
        row.get("evidence", table.get("evidence")) == "inferred"
        for table, row, column in cells(tables)
        if "why_not" not in row and "why_not" not in column
    )
    due = (
        f"{total['published']:,} published numbers from {len(tables)} tables of {works} works "
        f"(papers and repositories). {total['runnable']:,} name the method and the protocol that "
        f"should reproduce them, of which {total['runnable'] - total['run']:,} have not been run "
        f"here and {inferred:,} rest on an inferred protocol; "
        f"{total['published'] - total['runnable']:,} name the reason why none can."
    )
    lines = path.read_text(encoding="utf-8").splitlines()
    printed = next(line for line in lines if " published numbers from " in line)
    report.equal(f"{path.name}: counts", printed, due)
