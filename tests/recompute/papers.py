"""The papers' tables: published numbers, ours, verdicts, and the counts over them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
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
    """The page of every table."""
    folder = results.folder / "tables" / "papers"
    for name in results.published:
        page = Page(folder / f"{name}.md")
        yield from compare_table(page, name, page.tables[0], results)


def compare_table(
    page: Page, name: str, printed: Table, results: Results
) -> Iterator[Comparison]:
    """The published numbers, and ours with their verdicts."""
    rows = [*_rows(results.published[name], results)]
    yield from page.rows(printed, [cells for cells, _ in rows])
    for row, (_, verdicts) in zip(printed.rows, rows, strict=False):
        marks = [name_in(cell)[-1] for cell in row[2:] if numbers(cell)]
        due = [MARKS[verdict] for verdict in verdicts]
        yield page.equal(f"{name}: {row[0]}: verdicts", marks[: len(due)], due)


def _rows(
    table: Fields, results: Results
) -> Iterator[tuple[Sequence[Cell], Sequence[str]]]:
    """Headings of rows; published numbers; ours with their spread and verdicts."""
    group = None
    for row in table["row"]:
        cells = [
            Published(table, row, column) if column["id"] in row["values"] else None
            for column in table["columns"]
        ]
        if row.get("group") not in (None, group):
            yield [row["group"]], []
        group = row.get("group")
        published = [cell.numbers if cell else [] for cell in cells]
        yield [row["label"], None, *published, None], []
        ours = [measured(cell, results) for cell in cells]
        if any(ours):
            means = map(_mean, cells, ours)
            verdicts = [one.verdict for one in ours if one]
            yield [None, None, *means, None], verdicts


def _mean(published: Published | None, one: Measured | None) -> Numbers:
    """As many decimals as are published, from two to four; deviation and number of seeds."""
    if not published or not one:
        return []
    mean = Rounded(one.mean, min(max(published.decimals, 2), MOST_DECIMALS))
    known = one.scores.known
    is_spread = one.scores.seeded and len(known) > 1
    return [mean, *([Rounded(stdev(known)), len(known)] if is_spread else [])]


def compare_showcase(page: Page, results: Results) -> Iterator[Comparison]:
    """The first table: published rows, each above ours and its verdicts."""
    shown = page.tables[0]
    due: list[list[Cell]] = []
    for place in range(0, len(shown.rows), 2):
        name = shown.names[place]
        cells = [_shown_number(name, head, results) for head in shown.head[1:]]
        ours = [measured(cell, results) for cell in cells]
        digits = [[Rounded(float(cell.digits))] if cell else [] for cell in cells]
        means = [[Rounded(one.mean)] if one else [] for one in ours]
        due += [[None, *digits], [None, *means]]
        printed = {word for word in MARKS if word in shown.rows[place + 1][0]}
        verdicts = {one.verdict for one in ours if one}
        yield page.equal(f"{name}: verdicts", printed, verdicts)
    yield from page.rows(shown, due)


def _shown_number(name: str, task: str, results: Results) -> Published | None:
    """The measured Spearman correlation of a row on the test split of a task."""
    for one in all_published(results):
        label = f"{one.row['label']}, {one.table['paper']}"
        own_task = str(one.column.get("task"))
        is_task = own_task.partition(".")[0] == task.lower() and ".dev" not in own_task
        is_shown = name == name_in(label) and is_task and one.metric == "spearman"
        if is_shown and measured(one, results):
            return one
    return None


def compare_counts(page: Page, results: Results) -> Iterator[Comparison]:
    """The list of published tables: how many numbers are published, runnable, run."""
    shown = next(table for table in page.tables if "runnable" in table.head)
    due: dict[str, list[Cell]] = {}
    for table in results.published.values():
        counts = _counts(published_numbers(table), results)
        words = ("published", "runnable", "run")
        verdicts = [counts[word] for word in MARKS if counts[word]]
        name = name_in(f"{table['paper']}, {table['table']}")
        cells = [[counts[word]] for word in words]
        due[name] = [name, *cells, verdicts, None]
    yield page.equal("tables", sorted(shown.names), sorted(due))
    yield from page.rows(shown, [due[name] for name in shown.names])


def _counts(numbers: Iterable[Published], results: Results) -> Counter[str]:
    """How many numbers are published, runnable, run and of each verdict."""
    counts: Counter[str] = Counter()
    for published in numbers:
        ours = measured(published, results)
        counts.update(["published", *["runnable"] * published.runnable])
        counts.update(["run", ours.verdict] if ours else [])
    return counts


def compare_tallies_of_numbers(page: Page, results: Results) -> Iterator[Comparison]:
    """How many numbers there are and can run, and how many were measured."""
    every = [*all_published(results)]
    total = _counts(every, results)
    inferred = [
        one.runnable
        and one.row.get("evidence", one.table.get("evidence")) == "inferred"
        for one in every
    ]
    works = {table["cite"] for table in results.published.values()}
    due = [total["published"], len(results.published), len(works)]
    due += [total["runnable"], sum(inferred)]
    yield page.sentence("published numbers", due)
    scored = {one.scored for one in every if measured(one, results)}
    verdicts = [total[word] for word in MARKS if total[word]]
    yield page.sentence("measured", [total["run"], len(scored), *verdicts])
