"""The leaderboard: every method of every encoder on the seven STS tasks, then other sections.

A `Board` is one of its tables, for the Markdown here and for the page of results alike.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from harness.core.files import file_name
from harness.core.metrics import metric_of
from harness.core.types import Section, is_transductive
from harness.registry import Registry
from harness.report.markdown import escape, page, table
from harness.results.comparisons import Comparisons
from harness.results.index import Results, Value
from harness.results.protocols import (
    SCORINGS,
    SIMCSE,
    WHITENING,
    Scoring,
    averages,
    best_first,
    columns_by_label,
    columns_of,
    complete_encoders,
    legend_of,
    row,
    rows_of,
)
from harness.results.reproduction import (
    beside_others,
    best_methods,
    coverage_notes,
    milliseconds,
    source_of,
)
from harness.results.verdict import CellState

HOW_TO_READ = (
    "Spearman's rank correlation of cosine and gold, ×100, best average first. `all` correlates a "
    "year's concatenated subsets (SBERT, SimCSE), `wmean` averages the subsets weighted by their "
    "pairs (BERT-flow, BERT-whitening); the two are different protocols and are never compared. "
    "All four papers score SentEval's text, but for BERT-flow's STS-B, which is GLUE's and raw. "
    "† fitted on the sentences that are scored (no labels). ≈ its average is not distinguishable "
    "from the row above (paired bootstrap over items, Holm-corrected over the table, 5 %). An "
    "average exists only where all its cells do; `not run` is a hole, never a zero."
)

PAPERS = (
    "Each paper's tables, cell by cell, are in [tables/papers](tables/papers). `runnable` counts "
    "cells for which the harness has a method; `run` those measured here. A verdict that no cell "
    "has, has no column."
)
CARRIED = (
    "Sentences that the harness makes itself, so that every machine can score them; best on "
    "mini-STS first. No paper has these tasks: they compare methods with each other. Spearman, "
    "`all`; AUC; for lexical the correlation with edit distance; accuracy of a classifier."
)
TRANSFER = (
    "SentEval's transfer tasks: the accuracy, ×100, of a logistic regression that is trained on "
    "the vectors, under SimCSE's test protocol (Adam, ten folds, one seed); best on MR first. "
    "† fitted on all sentences of the task, without their labels."
)
# The sections beside the seven tasks: their heading, and what to know of them.
SECTIONS: Mapping[Section, tuple[str, str]] = {
    "other": ("Other tasks", ""),
    "transfer": ("Transfer (accuracy)", TRANSFER),
    "embedded": ("Embedded tasks", CARRIED),
}
COST = "ms / sentence"
NOT_TIMED = "not timed"
BESIDE = " ‡"
COST_CAPTION = (
    f"`{COST}`: encoding and applying, for each distinct sentence of the row's tasks, by clocks "
    "around the work itself; a cached encoding counts what it took when it was made. The rows were "
    "measured on different machines under different load, so it is for orientation; ratios that "
    "were measured side by side are in [speed.md](tables/speed.md). "
    f"{BESIDE.strip()}: other processes of the same run worked beside this one."
)


@dataclass(frozen=True)
class BoardColumn:
    """A column: heading, task, and the path of the score in a record; an average has neither."""

    heading: str
    task: str = ""
    path: tuple[str, ...] = ()


@dataclass(frozen=True)
class Board:
    """A table of methods by tasks, best first; `coverage` is of the words that have vectors."""

    id: str
    title: str
    about: str
    coverage: str
    columns: Sequence[BoardColumn]
    rows: Sequence[tuple[str, Sequence[Value]]]


def sts_board(results: Results, methods: Sequence[str], protocol: Scoring) -> Board | None:
    """The seven tasks and their average; None where no method has any of them."""
    every = ((method, row(results, method, protocol)) for method in methods)
    rows = [line for line in every if any(value.mean is not None for value in line[1])]
    rows = best_first(rows, column=-1)
    tasks = columns_by_label(protocol)
    coverage = coverage_notes(results, [method for method, _ in rows], tasks)
    path = (protocol.correlation, protocol.aggregation)
    columns = [BoardColumn(heading, task, path) for heading, task in tasks.items()]
    columns.append(BoardColumn("Avg."))
    return Board(protocol.id, protocol.title, "", coverage, columns, rows) if rows else None


def section_board(
    name: Section, results: Results, registry: Registry, methods: Sequence[str]
) -> Board | None:
    """A section beside the seven tasks; None where no method has a value."""
    title, about = SECTIONS[name]
    columns = columns_of(name, registry.tasks.values())
    rows = rows_of(columns, results, methods)
    rows = rows if name == "other" else best_first(rows, column=0)
    if not rows:
        return None
    tasks = {column.heading: task.name for task, column in columns}
    coverage = coverage_notes(results, [method for method, _ in rows], tasks)
    texts = [about, *(legend_of(results, task, column) for task, column in columns)]
    shown = [
        BoardColumn(column.heading, task.name, column.score or metric_of(task).main_score)
        for task, column in columns
    ]
    return Board(name, title, " ".join(filter(None, texts)), coverage, shown, rows)


def label(method: str) -> str:
    """The method's id, marked where it was fitted on what is scored."""
    return f"`{method}`" + (" †" if is_transductive(method) else "")


def board_parts(
    board: Board | None,
    heading: str,
    marks: Mapping[str, str] | None = None,
    costs: Mapping[str, str] | None = None,
) -> list[str]:
    """A board under its heading; `marks` stand behind methods, `costs` in a last column."""
    if board is None:
        return []
    head = ["method", *(column.heading for column in board.columns), *([COST] if costs else [])]
    lines = [
        [label(m) + (marks or {}).get(m, ""), *values, *([costs[m]] if costs else [])]
        for m, values in board.rows
    ]
    parts = heading.format(board.title), board.about, table(head, lines), board.coverage
    return list(filter(None, parts))


def cost_of(results: Results, method: str, protocol: Scoring) -> str:
    """Milliseconds a sentence with two digits, or why there are none."""
    cost = milliseconds(results, method, protocol)
    if cost is None:
        tasks = columns_by_label(protocol).values()
        ran = any((method, task) in results.by_cell for task in tasks)
        return NOT_TIMED if ran else CellState.NOT_RUN
    shared = BESIDE if beside_others(results, method, protocol) else ""
    return f"{cost:.{max(0, 1 - math.floor(math.log10(cost)))}f}{shared}"


def leaderboard(
    results: Results,
    registry: Registry,
    counts: str,
    comparisons: Mapping[str, Comparisons],
) -> str:
    """The whole page: how much of the papers was reproduced, then every encoder."""
    parts = ["## Published beside measured", counts, PAPERS, "## Measured"]
    if best_methods(results):
        parts.append("![Average of seven STS tasks against cost](tables/quality-against-cost.svg)")
    parts += [HOW_TO_READ, COST_CAPTION]

    def timed(methods: Sequence[str], protocol: Scoring, table_id: str = "") -> list[str]:
        costs = {method: cost_of(results, method, protocol) for method in methods}
        ties: set[str] = set()
        if (compared := comparisons.get(table_id)) is not None:
            ties = compared.indistinguishable(averages(results, methods, protocol))
        board = sts_board(results, methods, protocol)
        return board_parts(board, "**{}**", dict.fromkeys(ties, " ≈"), costs)

    complete = complete_encoders(results)
    for encoder, methods in complete.items():
        parts.append(f"### {escape(encoder)}")
        config = registry.encoders.get(encoder.partition(":")[0])
        records = [r for (m, _), rs in results.by_cell.items() if m in methods for r in rs]
        if config is None:
            parts.append("Weights: by hand, unpinned.")
        else:
            parts.append(
                f"Weights: {escape(source_of(config, records))}. "
                f"Trained on: {escape(config.trained_on)}. Licence: {escape(config.licence)}. "
                f"Every protocol: [tables](tables/{file_name(encoder)}.md)."
            )
        for protocol in (SIMCSE, WHITENING):
            parts += timed(methods, protocol, f"{encoder}.{protocol.id}")
    rest = [method for method in results.methods if method.partition(".")[0] not in complete]
    if rows := timed(rest, SIMCSE):
        parts += ["### On some tasks only", *rows]
    for name in ("transfer", "embedded"):
        parts += board_parts(section_board(name, results, registry, results.methods), "### {}")
    return page("Leaderboard", parts, results.digest())


def encoder_page(results: Results, registry: Registry, encoder: str, methods: Sequence[str]) -> str:
    """Every protocol of one encoder, then the other sections."""
    parts = [HOW_TO_READ]
    for protocol in SCORINGS:
        parts += board_parts(sts_board(results, methods, protocol), "## {}")
    for name in SECTIONS:
        parts += board_parts(section_board(name, results, registry, methods), "## {}")
    return page(encoder, parts, results.digest())
