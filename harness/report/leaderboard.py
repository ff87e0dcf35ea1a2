"""The leaderboard: every method of every encoder on the seven STS tasks, then other sections."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from harness.core.files import file_name
from harness.core.types import Section, is_transductive
from harness.registry import Registry
from harness.report.markdown import escape, page, table
from harness.results.comparisons import Comparisons
from harness.results.index import Results
from harness.results.protocols import (
    LABELS,
    SCORINGS,
    SEVEN,
    SIMCSE,
    WHITENING,
    Scoring,
    averages,
    columns_by_label,
    columns_of,
    complete_encoders,
    legend_of,
    ranked,
    row,
    rows_of,
)
from harness.results.reproduction import (
    beside_others,
    best_methods,
    coverage_notes,
    milliseconds,
    source_seen,
    unregistered,
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


def label(method: str) -> str:
    """The method's id, marked where it was fitted on what is scored."""
    return f"`{method}`" + (" †" if is_transductive(method) else "")


def seven(
    results: Results,
    methods: Sequence[str],
    protocol: Scoring,
    comparisons: Comparisons | None = None,
    costs: bool = False,
) -> str:
    """The seven columns and their average, best first; methods with none of them are left out.

    With `costs` there is one more: milliseconds a sentence.
    """
    ties: set[str] = set()
    if comparisons is not None:
        ties = comparisons.indistinguishable(averages(results, methods, protocol))
    rows = []
    for method in ranked(results, methods, protocol):
        values = row(results, method, protocol)
        if any(v.mean is not None for v in values):
            mark = " ≈" if method in ties else ""
            paid = [shown_cost(results, method, protocol)] if costs else []
            rows.append([label(method) + mark, *values, *paid])
    head = ["method", *LABELS.values(), "Avg.", *([COST] if costs else [])]
    shown = [table(head, rows), coverage_notes(results, methods, columns_by_label(protocol))]
    return "\n\n".join(filter(None, shown)) if rows else ""


def shown_cost(results: Results, method: str, protocol: Scoring) -> str:
    """Milliseconds a sentence with two digits, or why there are none."""
    cost = milliseconds(results, method, protocol)
    if cost is None:
        ran = any((method, protocol.task(task)) in results.by_cell for task in SEVEN)
        return NOT_TIMED if ran else CellState.NOT_RUN
    shared = BESIDE if beside_others(results, method, protocol) else ""
    return f"{cost:.{max(0, 1 - math.floor(math.log10(cost)))}f}{shared}"


def section(
    name: Section, results: Results, registry: Registry, methods: Sequence[str], level: str
) -> list[str]:
    """A section beside the seven tasks, under a heading of a level (`##`); empty without values."""
    heading, about = SECTIONS[name]
    columns = columns_of(name, registry.tasks.values())
    rows = rows_of(columns, results, methods, best_first=name != "other")
    if not rows:
        return []
    head = ["method", *(column.heading for _, column in columns)]
    shown = table(head, [[label(method), *values] for method, values in rows])
    legends = (legend_of(results, task, column) for task, column in columns)
    texts = " ".join(filter(None, [about, *legends]))
    tasks = {column.heading: task.name for task, column in columns}
    known = coverage_notes(results, [method for method, _ in rows], tasks)
    return [f"{level} {heading}", *filter(None, [texts, shown, known])]


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
    complete = complete_encoders(results)
    for encoder, methods in complete.items():
        parts.append(f"### {escape(encoder)}")
        config = registry.encoders.get(encoder.partition(":")[0])
        own = set(methods)
        held = [r for (m, _), rs in results.by_cell.items() if m in own for r in rs]
        if config is None:
            parts.append(f"Weights: {escape(unregistered(held))}.")
        else:
            parts.append(
                f"Weights: {escape(source_seen(config, held))}. "
                f"Trained on: {escape(config.trained_on)}. Licence: {escape(config.licence)}. "
                f"Every protocol: [tables](tables/{file_name(encoder)}.md)."
            )
        for protocol in (SIMCSE, WHITENING):
            known = comparisons.get(f"{encoder}.{protocol.id}")
            if rows := seven(results, methods, protocol, known, costs=True):
                parts += [f"**{protocol.title}**", rows]
    rest = [method for method in results.methods if method.partition(".")[0] not in complete]
    if rows := seven(results, rest, SIMCSE, costs=True):
        parts += ["### On some tasks only", f"**{SIMCSE.title}**", rows]
    for name in ("transfer", "embedded"):
        parts += section(name, results, registry, results.methods, "###")
    return page("Leaderboard", parts, results.digest())


def encoder_page(results: Results, registry: Registry, encoder: str, methods: Sequence[str]) -> str:
    """Every protocol of one encoder, then the other sections."""
    parts = [HOW_TO_READ]
    for protocol in SCORINGS:
        if rows := seven(results, methods, protocol):
            parts += [f"## {protocol.title}", rows]
    for name in SECTIONS:
        parts += section(name, results, registry, methods, "##")
    return page(encoder, parts, results.digest())
