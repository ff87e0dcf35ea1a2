"""The papers' tables, the counts over them, and the verdicts, made anew."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pages import Column, Report, Table, bare, numbers, paragraphs, tables
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
COUNTS = ("published", "runnable", "run", *VERDICTS)
EVIDENCE = {"confirmed": "●", "code": "◉", "paper": "○", "inferred": "△"}
MOST_DIGITS = 4
WIDEST = 10  # columns in one table; more are a table for each metric


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


def measured(
    table: Fields, row: Fields, column: Fields, records: Records
) -> Measured | None:
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
    given, by_id = (
        row.get("tasks", {}),
        {c["id"]: c.get("task") for c in table["columns"]},
    )
    names = column.get("average_of", [column["id"]])
    tasks = tuple(given.get(name, by_id[name]) for name in names)
    way = (
        column.get("aggregation")
        or row.get("aggregation")
        or table.get("aggregation")
        or "all"
    )
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
        sd = next(one for one in table["row"] if one["id"] == name)["values"].get(
            column["id"]
        )
    spread = (
        (float(sd) * 100 / table.get("scale", 100), row["n"])
        if sd is not None
        else None
    )
    return Measured(scores, verdict(printed, scores, seeded, spread), seeded)


def verdict(
    printed: str,
    scores: Sequence[float],
    seeded: bool,
    spread: tuple[float, int] | None,
) -> str:
    """The rules of verdicts, written a second time."""
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


@dataclass(frozen=True)
class Line:
    """What a line of a table holds: its label if that is data, evidence, and a cell a column.

    `digits` are those of its numbers, `verdicts` those of what was measured, by column.
    """

    label: str
    cells: Sequence[str] = ()
    digits: Sequence[int] = ()
    evidence: str = ""
    verdicts: Sequence[str] = ()


def pages(inputs: Inputs, report: Report) -> None:
    """Every table, and the counts of numbers in CONTENTS.txt."""
    folder = inputs.results / "tables" / "papers"
    for name, table in inputs.tables.items():
        sheet(name, table, list(tables(folder / f"{name}.md")), inputs.records, report)
    lines = (folder / "CONTENTS.txt").read_text(encoding="utf-8").splitlines()[1:]
    counts = {
        n: str(sum(len(row["values"]) for row in t["row"]))
        for n, t in inputs.tables.items()
    }
    counts["all"] = str(sum(map(int, counts.values())))
    report.equal("CONTENTS.txt", {li.split()[2]: li.split()[1] for li in lines}, counts)


def sheet(
    page: str, table: Fields, shown: Sequence[Table], records: Records, report: Report
) -> None:
    """A published table as a page shows it: line after line."""
    blocks = list(blocks_of(table))
    report.equal(f"{page}: tables", len(shown), len(blocks))
    for columns, block in zip(blocks, shown, strict=False):
        due = list(lines_of(table, columns, records))
        report.equal(f"{page}: lines", len(block.lines), len(due))
        label = ""
        for cells, line in zip(block.lines, due, strict=False):
            label = line.label or label
            _line(f"{page}: {label}", cells, line, report)


def _line(where: str, printed: Sequence[str], due: Line, report: Report) -> None:
    """A line's label, evidence, numbers, and the verdict beside each or once in its label."""
    if due.label:
        report.equal(f"{where}: label", bare(printed[0]), due.label)
    report.equal(f"{where}: evidence", "".join(printed[1:2]), due.evidence)
    report.equal(f"{where}: cells", len(printed[2:]), len(due.cells))
    for cell, text, digits in zip(printed[2:], due.cells, due.digits, strict=False):
        report.expect(where, cell, text, digits)
    if any(due.verdicts):
        shared = bare(printed[0])[-1]
        own = [bare(cell)[-1] if numbers(cell) else "" for cell in printed[2:]]
        marks = {*VERDICTS.values()}
        shown = [mark and (mark if mark in marks else shared) for mark in own]
        report.equal(
            f"{where}: verdicts", shown, [VERDICTS.get(v, "") for v in due.verdicts]
        )


def blocks_of(table: Fields) -> Iterator[list[Fields]]:
    """The columns beside each other: all, or where they are many those of a metric."""
    metrics = [column.get("metric", table["metric"]) for column in table["columns"]]
    if len(metrics) <= WIDEST:
        yield table["columns"]
        return
    for metric in dict.fromkeys(metrics):
        yield [
            c for c, own in zip(table["columns"], metrics, strict=True) if own == metric
        ]


def lines_of(
    table: Fields, columns: Sequence[Fields], records: Records
) -> Iterator[Line]:
    """Headings of groups, published numbers, ours, their spread over seeds."""
    group = None
    for row in table["row"]:
        if not any(column["id"] in row["values"] for column in columns):
            continue
        if row.get("group") not in (None, group):
            yield Line(row["group"])
        group = row.get("group")
        here = [column if column["id"] in row["values"] else None for column in columns]
        yield _published(table, row, here)
        yield from _measured(table, row, here, records)


def _published(table: Fields, row: Fields, columns: Sequence[Fields | None]) -> Line:
    judged = any(c and "why_not" not in c for c in columns) and "why_not" not in row
    texts = [printed_digits(in_points(table, row, c)) if c else "" for c in columns]
    return Line(
        label=bare(row["label"] + "†" * row.get("transductive", False)),
        cells=texts,
        digits=[MOST_DIGITS] * len(texts),
        evidence=EVIDENCE[row.get("evidence", table.get("evidence"))] if judged else "",
    )


def _measured(
    table: Fields, row: Fields, columns: Sequence[Fields | None], records: Records
) -> Iterator[Line]:
    """The means and verdicts, if any was measured; their spread, if any depends on a seed."""
    found = [measured(table, row, c, records) if c else None for c in columns]
    if not any(found):
        return
    printed = [
        len(in_points(table, row, c).partition(".")[2]) if c else 0 for c in columns
    ]
    yield Line(
        label="",
        cells=[number(fmean(one.scores)) if one else "" for one in found],
        digits=[min(max(digits, 2), MOST_DIGITS) for digits in printed],
        verdicts=[one.verdict if one else "" for one in found],
    )
    if any(one and one.seeded for one in found):
        yield Line(label="", cells=[*map(_spread, found)], digits=[2] * len(found))


def _spread(one: Measured | None) -> str:
    if one is None or not one.seeded:
        return ""
    sd = number(stdev(one.scores)) if len(one.scores) > 1 else ""
    return f"{sd} ({len(one.scores)})"


def printed_digits(digits: str) -> str:
    return (
        f"{float(digits):.9f}"
        if len(digits.partition(".")[2]) > MOST_DIGITS
        else digits
    )


def counts(path: Path, inputs: Inputs, report: Report) -> None:
    """The tables of counts by paper, in which each is that has a measured number."""
    due = counted(inputs.tables, inputs.records)
    seen: list[str] = []
    for table in tables(path):
        keys = [line[0] for line in table.lines]
        if not {*keys} & {*due}:
            continue
        report.equal(
            f"{path.name}: papers without a table", sorted({*keys} - {*due}), []
        )
        seen += keys
        columns = [
            Column([word], [str(due.get(key, {}).get(word, 0)) for key in keys])
            for word in COUNTS
        ]
        cells = [
            [cell if cell != "–" else "0" for cell in line] for line in table.lines
        ]
        report.columns(
            f"{path.name}: counts", keys, Table((), table.head, cells), columns
        )
    wanted = [paper for paper, count in due.items() if count["run"]]
    report.equal(f"{path.name}: papers", sorted({*wanted} - {*seen}), [])
    report.equal(
        f"{path.name}: papers twice", [k for k, n in Counter(seen).items() if n > 1], []
    )


def counted(tables: Fields, records: Records) -> dict[str, Counter[str]]:
    """Of each paper, then of all: numbers published, runnable, run, and by verdict."""
    found: dict[str, Counter[str]] = {}
    for table, row, column in cells(tables):
        one = measured(table, row, column, records)
        words = ["published"]
        words += (
            ["runnable"] if "why_not" not in row and "why_not" not in column else []
        )
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
    """The README's counts, and the numbers of its sentences on what was published and measured."""
    path = inputs.results.parent / "README.md"
    counts(path, inputs, report)
    total = counted(inputs.tables, inputs.records)["all"]
    inferred = sum(
        row.get("evidence", table.get("evidence")) == "inferred"
        for table, row, column in cells(inputs.tables)
        if "why_not" not in row and "why_not" not in column
    )
    works = len({table["cite"] for table in inputs.tables.values()})
    due = [total["published"], len(inputs.tables), works, total["runnable"], inferred]
    due += [total["runnable"] - total["run"], total["published"] - total["runnable"]]
    report.sentence(f"{path.name}: published numbers", paragraphs(path), due)
