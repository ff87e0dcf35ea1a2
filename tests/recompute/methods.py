"""The tables of methods: on the leaderboard, on the encoders' pages, on the page of results."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from pages import Cell, Comparison, Page, Rounded, Table, are_printed_as, name_in
from papers import compare_counts, compare_showcase
from records import SEVEN, Fields, Results, Scores

GOLD = ("gold_edit_distance", "gold_edit_distance_near")


@dataclass(frozen=True)
class Protocol:
    """How the seven STS tasks are scored: the title of their table names it."""

    metric: str
    aggregation: str
    text_form: str  # the ending of a task's name

    def tasks(self) -> list[str]:
        return [task + self.text_form for task in SEVEN]

    def scores(self, results: Results, method: str) -> list[Scores]:
        path = self.metric, self.aggregation
        return [results.scores(method, task, path) for task in self.tasks()]

    def average(self, results: Results, method: str) -> list[Rounded]:
        """The mean over the seven tasks, if all of them have a score."""
        means = [scores.mean for scores in self.scores(results, method)]
        known = [mean for mean in means if mean is not None]
        return [Rounded(fmean(known))] if len(known) == len(SEVEN) else []


def compare_leaderboard(results: Results) -> Iterator[Comparison]:
    """The tables, and the sentence on the scores of gold itself."""
    page = Page(results.folder / "LEADERBOARD.md")
    yield from compare_methods(page, results.methods, results)
    yield from compare_showcase(page, results)
    yield from compare_counts(page, results)
    heads = {name_in(head) for table in page.tables for head in table.head}
    by_task = {task: records[0] for (_, task), records in results.records.items()}
    for task in by_task.keys() & heads:
        gold = [by_task[task]["scores"].get(name) for name in GOLD]
        if None not in gold:
            yield page.sentence(f"gold of {task}", [f"{score:.2f}" for score in gold])


def compare_encoders(results: Results) -> Iterator[Comparison]:
    """The page of each encoder, on all its methods."""
    for encoder in dict.fromkeys(map(encoder_of, results.methods)):
        page = Page(results.folder / "tables" / f"{encoder.replace(':', '%3A')}.md")
        methods = [m for m in results.methods if encoder_of(m) == encoder]
        yield from compare_methods(page, methods, results)


def compare_methods(
    page: Page, methods: Sequence[str], results: Results
) -> Iterator[Comparison]:
    """Every table of methods on a page that is about these methods."""
    printed: dict[Protocol, list[str]] = {}
    for table in page.tables:
        rows = [row for row in table.rows if len(row) > 1]  # no headings of rows
        table = Table(table.title, table.head, rows)
        if len({*table.names} & {*methods}) * 2 <= len(rows):
            continue
        if not {*SEVEN} <= {head.lower() for head in table.head}:
            yield from _compare_other_tasks(page, table, methods, results)
            continue
        protocol = _protocol_of(table.title)
        printed[protocol] = printed.get(protocol, []) + table.names
        due = []
        for method in table.names:
            due.append(_row_of_seven(method, protocol, results))
        yield from page.rows(table, due)
    for protocol, names in printed.items():
        due_names = _methods_due(methods, protocol, names, results)
        yield page.equal(str(protocol), sorted(names), sorted(due_names))


def encoder_of(method: str) -> str:
    return method.partition(".")[0]


def _protocol_of(title: str) -> Protocol:
    words = re.findall(r"\w+", title.lower())
    return Protocol(
        metric="pearson" if "pearson" in words else "spearman",
        aggregation=next(word for word in words if word in ("all", "wmean", "mean")),
        text_form=".senteval" if "senteval" in words else "",
    )


def _row_of_seven(method: str, protocol: Protocol, results: Results) -> list[Cell]:
    """The seven tasks and their average, sizes of the encoder, and time for a sentence."""
    scores = [one.numbers for one in protocol.scores(results, method)]
    average = protocol.average(results, method)
    tasks = [results.records.get((method, task), ()) for task in protocol.tasks()]
    records = [record for task in tasks for record in task]
    facts = records[0]["facts"]
    sizes = [[facts[n]] if n in facts else [] for n in ("dimensions", "rank")]
    parameters = [f"{facts['parameters'] / 1e6:.3g}M"] if "parameters" in facts else []
    return [method, *scores, average, *sizes, parameters, _time(records)]


def _time(records: Sequence[Fields]) -> Sequence[Rounded]:
    """Milliseconds a sentence, in two digits."""
    clocks = [r["timings"].get(name) for r in records for name in ("encode", "apply")]
    sentences = [record["facts"].get("distinct_sentences", 0) for record in records]
    if None in clocks or not all(sentences) or not sum(clocks):
        return []
    milliseconds = 1000 * sum(clocks) / sum(sentences)
    return [Rounded(milliseconds, max(0, 1 - math.floor(math.log10(milliseconds))))]


def _methods_due(
    methods: Sequence[str], protocol: Protocol, printed: Sequence[str], results: Results
) -> Iterator[str]:
    """All with a score, of the encoders that have an average or are printed."""
    averaged = [m for m in methods if protocol.average(results, m)]
    encoders = {encoder_of(method) for method in (*averaged, *printed)}
    for method in methods:
        scores = protocol.scores(results, method)
        if encoder_of(method) in encoders and any(one.numbers for one in scores):
            yield method


def _compare_other_tasks(
    page: Page, table: Table, methods: Sequence[str], results: Results
) -> Iterator[Comparison]:
    """A table in which each column is of a score that its heading names."""
    scores = [_score_of_column(table, n, results) for n in range(1, len(table.head))]

    def cells(method: str) -> list[Cell]:
        return [results.scores(method, *score).numbers for score in scores]

    due = [[method, *cells(method)] for method in table.names]
    yield from page.rows(table, due)
    due_names = [method for method in methods if any(cells(method))]
    yield page.equal(table.title, sorted(table.names), sorted(due_names))


def _score_of_column(
    table: Table, column: int, results: Results
) -> tuple[str, tuple[str, ...]]:
    """Of the scores whose task or metric a heading names, the one with most of its numbers."""
    words = {*re.findall(r"[\w-]+", table.head[column].lower())}
    printed = [row[column] for row in table.rows]
    named = [
        (task, path)
        for task, path in results.score_paths
        if words & {task.partition(".")[0], path[-1]}
    ]

    def equal_cells(score: tuple[str, tuple[str, ...]]) -> int:
        due = [results.scores(method, *score).numbers for method in table.names]
        return sum(map(are_printed_as, due, printed))

    return max(named or results.score_paths, key=equal_cells)
