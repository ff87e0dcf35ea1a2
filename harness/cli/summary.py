"""What a run says: a line for each cell, its scores beside published numbers, what moved.

Each function makes the text of one subject; `harness run` and `harness reproduce` print
them. Modules of published numbers are imported where there are some.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from harness.core.terminal import counted, text_table
from harness.core.types import Record
from harness.evaluation.run import Outcome
from harness.registry import Registry
from harness.results.index import (
    LOW_COVERAGE,
    MISSING,
    Results,
    coverage,
    main_score,
    value,
)
from harness.results.verdict import CellState

if TYPE_CHECKING:
    from harness.results.published import Table
    from harness.results.reproduction import Reproduction

LINES_SHOWN = 12  # of a list that may have hundreds
SCORE_HEADER = ("task", "metric", "measured", "published", "verdict", "table")


# Scores


def score_in_words(record: Record) -> str:
    """A record's main score, or the reason why it has none."""
    metric, score = main_score(record.scores)
    if score is None:
        return f"{CellState.UNDEFINED}{_remarks([record])}"
    name = "Spearman" if metric == "spearman" else metric
    return f"{name} {score:.2f}{_remarks([record])}"


def _remarks(records: Iterable[Record]) -> str:
    """The words in brackets after a score: why it is undefined, or how few tokens are known."""
    records = list(records)
    remarks: dict[str, None] = {}  # each once, in order
    for record in records:
        if "undefined" in record.facts:
            remarks[str(record.facts["undefined"])] = None
    known_share = coverage(records)
    if known_share is not None and known_share < LOW_COVERAGE:
        remarks[f"{100 * known_share:.0f} % of tokens known"] = None
    return f" ({', '.join(remarks)})" if remarks else ""


def numbers_beside(
    results: Results, tables: Iterable[Table], registry: Registry
) -> list[Reproduction]:
    """The published numbers that have records on all of their tasks, with verdicts."""
    from harness.results.reproduction import reproduce

    reproductions = []
    for table in tables:
        for number in table.numbers:
            needed = {*number.measured_cells}
            if (
                needed
                and number.points is not None
                and needed <= results.by_cell.keys()
            ):
                reproductions.append(reproduce(number, results, registry))
    return reproductions


def score_table(results: Results, reproductions: Iterable[Reproduction]) -> str:
    """The scores of each method; a score has a row for each number that is published for it."""
    from harness.results.published import score_path

    rows_by_method: dict[str, list[tuple[str, ...]]] = {}
    cells_with_number = set()
    for reproduction in reproductions:
        number = reproduction.number
        method = str(number.method)
        cells = [(method, task) for task in number.tasks]
        cells_with_number.update(cells)
        remarks = _remarks(
            record for cell in cells for record in results.records(*cell)
        )
        table, _, _ = number.id.partition("/")
        score = reproduction.shown
        if not score and number.task:  # measured with other weights, or on other data
            path = score_path(number.metric, number.aggregation)
            own = results.value(method, number.task, *path)
            score = "" if own.mean is None else str(own)
        row = (
            number.task if number.task else f"average of {len(number.tasks)}",
            " ".join(word for word in (number.metric, number.aggregation) if word),
            (score or MISSING) + remarks,
            number.shown,
            str(reproduction.state),
            table,
        )
        rows_by_method.setdefault(method, []).append(row)
    for (method, task), of_cell in results.by_cell.items():
        if (method, task) not in cells_with_number:
            metric, _ = main_score(of_cell[0].scores)
            mean = value([main_score(record.scores)[1] for record in of_cell])
            row = (task, metric, f"{mean}{_remarks(of_cell)}", "", "", "")
            rows_by_method.setdefault(method, []).append(row)
    rows = [row for rows in rows_by_method.values() for row in rows]
    column_count = len(SCORE_HEADER)
    if not cells_with_number:
        column_count = SCORE_HEADER.index("published")
    shown = [row[:column_count] for row in rows]
    head, rule, *lines = text_table(shown, SCORE_HEADER[:column_count]).splitlines()
    text = [head.rstrip(), rule]
    for method, rows_of_method in rows_by_method.items():
        text.append(f"{method}:")
        for _ in rows_of_method:
            text.append(lines.pop(0).rstrip())
    return "\n".join(text)


def count_in_words(numbers: Sequence[Reproduction], cells: int) -> str:
    """How many numbers have which verdict, as in `34 published numbers: 31 exact, 3 match`.

    `cells` is the number of measured cells.
    """
    numbers = [number for number in numbers if number.scores]
    if not numbers and cells == 1:
        return "The measured cell has no published number."
    if not numbers:
        return f"None of the {cells:,} measured cells has a published number."
    from harness.report.sentences import states_in_words

    return f"{counted(len(numbers), 'published number')}: {states_in_words(numbers)}."


# The end of a reproduction


def lines_of_differing_numbers(
    reproductions: Iterable[Reproduction], results: Path
) -> list[str]:
    """A line for each published number that differs, and the command that explains it."""
    lines = []
    for reproduction in reproductions:
        points = reproduction.verdict.difference
        if reproduction.state is CellState.DIFFERS and points is not None:
            lines.append(
                f"differs: {reproduction.number.id}: {points:+.2f} points; "
                f"why: harness explain {reproduction.number.id} --results {results}"
            )
    return _shortened(lines, f"{results}/tables/papers")


def lines_of_failures(outcomes: Iterable[Outcome]) -> list[str]:
    """Lines about cells that did not run: how to get a missing asset, or the failure's message."""
    count_by_reason: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        if outcome.record is None:
            reason = outcome.remedy or outcome.message
            count_by_reason[outcome.status, reason] += 1
    if not count_by_reason:
        return []
    lines = []
    for (status, reason), count in count_by_reason.most_common():
        lines.append(f"{count:,} {status}: {reason}")
    source = "harness list assets says where each is from"
    cells = counted(count_by_reason.total(), "cell")
    return [f"{cells} did not run:", *_shortened(lines, source)]


def _shortened(lines: Sequence[str], source: str) -> list[str]:
    """The first LINES_SHOWN lines, indented; `source` says where all of them are found."""
    shortened_lines = [f"  {line}" for line in lines[:LINES_SHOWN]]
    hidden_count = len(lines) - LINES_SHOWN
    if hidden_count > 0:
        shortened_lines.append(f"  and {hidden_count:,} more: {source}")
    return shortened_lines
