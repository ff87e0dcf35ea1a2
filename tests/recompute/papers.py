"""The papers' tables: published numbers, ours, verdicts, and the counts over them."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from statistics import stdev

from pages import Cell, Comparison, Numbers, Page, Rounded, Table, name_in, numbers
from records import Fields, Results, ScorePath, Scores, mean_over_tasks
from scipy import stats

METRICS = ("spearman", "pearson", "auc", "edit_distance", "gold_similarity", "accuracy")
MARKS = {
    "exact": "=",
    "match": "≃",
    "close": "∼",
    "consistent": "±",
    "differs": "≠",
    "inconclusive": "?",
    "too few seeds": "…",
}
ENOUGH_SEEDS = 5
MOST_DECIMALS = 4
FIRST_TABLE = re.compile(r"(?:#table-|tables/papers/)([a-z0-9.-]+?)(?:\.md)?[\")]")
MOST_COLUMNS = 10  # of one table; more are a table for each metric


@dataclass(frozen=True)
class Published:
    """A published number: its table, row and column."""

    table: Fields
    row: Fields
    column: Fields

    @property
    def metric(self) -> str:
        return self.column.get("metric", self.table["metric"])

    @property
    def digits(self) -> str:
        """As printed, with the point moved where the paper prints fractions."""
        digits = str(self.row["values"][self.column["id"]])
        is_fraction = self.table.get("scale", 100) == 1 and self.metric in METRICS
        return f"{Decimal(digits).scaleb(2):f}" if is_fraction else digits

    @property
    def decimals(self) -> int:
        return len(self.digits.partition(".")[2])

    @property
    def numbers(self) -> Numbers:
        """As a page prints it."""
        if self.decimals > MOST_DECIMALS:
            return [Rounded(float(self.digits), MOST_DECIMALS)]
        return [self.digits]

    @property
    def runnable(self) -> bool:
        """Whether a method and a task are named for it."""
        return "why_not" not in self.row and "why_not" not in self.column

    @property
    def scored(self) -> tuple[str, tuple[str, ...], ScorePath]:
        """The method, its tasks (several for an average), and the score of their records."""
        methods = self.row.get("methods", {})
        of_columns = {c["id"]: c.get("task") for c in self.table["columns"]}
        of_tasks = of_columns | self.row.get("tasks", {})
        names = self.column.get("average_of", [self.column["id"]])
        ways = [one.get("aggregation") for one in (self.column, self.row, self.table)]
        way = next(filter(None, ways), "all")
        return (
            methods.get(self.column["id"], self.row.get("method")),
            tuple(of_tasks[name] for name in names),
            path_of_score(self.metric, way),
        )

    @property
    def spread(self) -> tuple[float, int] | None:
        """The published standard deviation, in points, and the number of seeds."""
        sds = self.row.get("sd", {})
        if name := self.row.get("sd_row"):
            sds = next(r for r in self.table["row"] if r["id"] == name)["values"]
        sd = sds.get(self.column["id"])
        scale = 100 / self.table.get("scale", 100)
        return None if sd is None else (float(sd) * scale, self.row["n"])


@dataclass(frozen=True)
class Measured:
    """What was measured for a published number, and its verdict."""

    scores: Scores
    mean: float
    verdict: str


def path_of_score(metric: str, aggregation: str | None) -> ScorePath:
    if metric not in ("spearman", "pearson") or aggregation is None:
        return (metric,)
    return metric, "all" if aggregation == "single set" else aggregation


def published_numbers(table: Fields) -> Iterator[Published]:
    for row in table["row"]:
        for column in table["columns"]:
            if column["id"] in row["values"]:
                yield Published(table, row, column)


def all_published(results: Results) -> Iterator[Published]:
    for table in results.published.values():
        yield from published_numbers(table)


def measured(published: Published | None, results: Results) -> Measured | None:
    """The scores of its method, if all its tasks were measured, and the verdict."""
    if not published or not published.runnable or published.metric not in METRICS:
        return None
    method, tasks, path = published.scored
    scores = mean_over_tasks([results.scores(method, task, path) for task in tasks])
    if scores.mean is None:
        return None
    return Measured(scores, scores.mean, _verdict(published, scores, scores.mean))


def _verdict(published: Published, scores: Scores, mean: float) -> str:
    """The rules of verdicts, written a second time."""
    difference = abs(round(mean - float(published.digits), 9))
    if not scores.seeded:
        half_digit = 0.5 * 10.0**-published.decimals
        limits = {"exact": max(0.005, half_digit), "match": 0.05, "close": 0.5}
        return next((w for w, most in limits.items() if difference <= most), "differs")
    sd, k = scores.spread
    if k < ENOUGH_SEEDS:
        return "too few seeds"
    if published.spread:
        half = round(welch(0.0, scores.spread, published.spread)[0], 9)
        if round(difference + half, 9) <= 1.0:
            return "consistent"
        return "differs" if difference > half else "inconclusive"
    half = round(stats.t.ppf(0.975, k - 1) * sd * math.sqrt(1 + 1 / k), 9)
    if half > 2.0:
        return "inconclusive"
    return "consistent" if difference <= max(half, 0.05) else "differs"


def welch(difference: float, *samples: tuple[float, int]) -> tuple[float, float]:
    """Half of Welch's 95 % interval of a difference of means, and its p.

    A sample is its standard deviation and its size.
    """
    variances = [(sd**2 / count, count) for sd, count in samples]
    total = sum(variance for variance, _ in variances)
    if total == 0:
        return 0.0, float(difference == 0)
    df = total**2 / sum(variance**2 / (count - 1) for variance, count in variances)
    p = 2 * float(stats.t.sf(abs(difference) / math.sqrt(total), df))
    return float(stats.t.ppf(0.975, df)) * math.sqrt(total), p


def compare_papers(results: Results) -> Iterator[Comparison]:
    """The page of every table, and the counts of numbers in CONTENTS.txt."""
    folder = results.folder / "tables" / "papers"
    for name in results.published:
        page = Page(folder / f"{name}.md")
        yield from compare_table(page, name, page.tables, results)
    contents = Page(folder / "CONTENTS.txt")
    lines = [line.split() for line in contents.paragraphs[1:]]
    printed = {name: count for _, count, name in lines}
    tables_ = results.published.items()
    counts = {name: len([*published_numbers(table)]) for name, table in tables_}
    counts["all"] = sum(counts.values())
    due = {name: str(count) for name, count in counts.items()}
    yield contents.equal("counts", printed, due)


def compare_table(
    page: Page, name: str, printed: Sequence[Table], results: Results
) -> Iterator[Comparison]:
    """A published table, in one table or in one for each metric."""
    table = results.published[name]
    by_metric: dict[str, list[Fields]] = {}
    for column in table["columns"]:
        by_metric.setdefault(column.get("metric", table["metric"]), []).append(column)
    is_wide = len(table["columns"]) > MOST_COLUMNS
    parts = [*by_metric.values()] if is_wide else [table["columns"]]
    yield page.equal(f"{name}: number of tables", len(printed), len(parts))
    for shown, columns in zip(printed, parts, strict=False):
        rows = [*_rows(table, columns, results)]
        yield from page.rows(shown, [cells for cells, _ in rows])
        for row, (_, verdicts) in zip(shown.rows, rows, strict=False):
            where = f"{name}: {row[0]}: verdicts"
            marks = [MARKS[verdict] for verdict in verdicts]
            yield page.equal(where, _marks(row)[: len(marks)], marks)


def _rows(
    table: Fields, columns: Sequence[Fields], results: Results
) -> Iterator[tuple[Sequence[Cell], Sequence[str]]]:
    """Headings of rows; published numbers; ours with verdicts; their spread over seeds."""
    group = None
    for row in table["row"]:
        cells = [
            Published(table, row, column) if column["id"] in row["values"] else None
            for column in columns
        ]
        if not any(cells):
            continue
        if row.get("group") not in (None, group):
            yield [row["group"]], []
        group = row.get("group")
        yield (
            [row["label"], None, *(cell.numbers if cell else [] for cell in cells)],
            [],
        )
        ours = [measured(cell, results) for cell in cells]
        if any(ours):
            means = map(_mean, cells, ours)
            yield [None, None, *means], [one.verdict for one in ours if one]
        if any(one and one.scores.seeded for one in ours):
            yield [None, None, *map(_spread, ours)], []


def _mean(published: Published | None, one: Measured | None) -> Numbers:
    """With as many decimals as are published, from two to four."""
    if not published or not one:
        return []
    return [Rounded(one.mean, min(max(published.decimals, 2), MOST_DECIMALS))]


def _spread(one: Measured | None) -> Numbers:
    """The standard deviation over seeds, and how many they are."""
    if not one or not one.scores.seeded:
        return []
    known = one.scores.known
    return [*([Rounded(stdev(known))] if len(known) > 1 else []), len(known)]


def _marks(row: Sequence[str]) -> list[str]:
    """The mark after each number, or the one after the row's name that they share."""
    texts = [name_in(cell) for cell in row[2:] if numbers(cell)]
    marks = {*MARKS.values()}
    return [text[-1] if text[-1] in marks else row[0][-1] for text in texts]


def compare_showcase(page: Page, results: Results) -> Iterator[Comparison]:
    """The first table, of the published table that is linked first: its numbers and ours."""
    found = FIRST_TABLE.search(page.text)
    assert found
    table, shown = results.published[found[1]], page.tables[0]
    by_label = {column["label"]: column for column in reversed(table["columns"])}
    due: list[list[Cell]] = []
    for name in shown.names[::2]:
        [row] = [row for row in table["row"] if name.startswith(name_in(row["label"]))]
        cells = [Published(table, row, by_label[head]) for head in shown.head[1:]]
        ours = [measured(cell, results) for cell in cells]
        due.append([None, *([Rounded(float(cell.digits))] for cell in cells)])
        due.append([None, *([Rounded(one.mean)] if one else [] for one in ours)])
        printed = {word for word in MARKS if word in shown.rows[len(due) - 1][0]}
        verdicts = {one.verdict for one in ours if one}
        yield page.equal(f"{name}: verdicts", printed, verdicts)
    yield from page.rows(shown, due)


def compare_counts(page: Page, results: Results) -> Iterator[Comparison]:
    """The tables of counts by paper: where numbers were measured, and where none was."""
    counts = counts_by_paper(results)
    verdicts = [word for word in MARKS if counts["all"][word]]
    printed: list[str] = []
    for table in page.tables:
        names = [name for name in table.names if name in counts]
        if not names:
            continue
        were_measured = any(counts[name]["run"] for name in names)
        words = ["run", *verdicts] if were_measured else []
        more = [None] * (len(table.head) - len(words) - 3)
        zeros = [["0" if cell == "–" else cell for cell in row] for row in table.rows]
        due = [
            [
                name,
                *([counts[name][word]] for word in [*words, "runnable", "published"]),
            ]
            for name in names
        ]
        shown = Table(table.title, table.head, zeros)
        yield from page.rows(shown, [[*row, *more] for row in due])
        printed += names
    due_names = {paper for paper, count in counts.items() if count["run"]}
    yield page.equal("papers", due_names - {*printed}, set())


@cache
def counts_by_paper(results: Results) -> Mapping[str, Counter[str]]:
    """How many numbers are published, runnable, run and of each verdict; then of `all`."""
    found: dict[str, Counter[str]] = {}
    total: Counter[str] = Counter()
    for published in all_published(results):
        ours = measured(published, results)
        words = ["published", *["runnable"] * published.runnable]
        words += ["run", ours.verdict] if ours else []
        found.setdefault(published.table["paper"], Counter()).update(words)
        total.update(words)
    return {**found, "all": total}


def compare_counts_of_measured(page: Page, results: Results) -> Comparison:
    """How many numbers were measured, by how many scores, with which verdicts."""
    total = counts_by_paper(results)["all"]
    scored = {one.scored for one in all_published(results) if measured(one, results)}
    verdicts = [total[word] for word in MARKS if total[word]]
    due = [total["run"], total["published"], len(scored), *verdicts]
    return page.sentence("measured numbers", due)


def compare_counts_of_published(page: Page, results: Results) -> Comparison:
    """How many numbers, tables and works there are, and how many numbers can run."""
    total = counts_by_paper(results)["all"]
    inferred = [
        one
        for one in all_published(results)
        if one.runnable
        and one.row.get("evidence", one.table.get("evidence")) == "inferred"
    ]
    works = {table["cite"] for table in results.published.values()}
    due = [
        total["published"],
        len(results.published),
        len(works),
        total["runnable"],
        total["runnable"] - total["run"],
        len(inferred),
        total["published"] - total["runnable"],
    ]
    return page.sentence("published numbers", due)
