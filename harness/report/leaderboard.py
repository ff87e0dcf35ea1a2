"""The leaderboard: every method of every encoder on the seven STS tasks, QNLI and lexical."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf

from harness.core.files import file_name
from harness.registry import Registry
from harness.report import cost_chart as cost
from harness.report.markdown import page, table
from harness.results.index import Results, Value, by_encoder
from harness.results.protocols import (
    BERT_FLOW,
    LABELS,
    PROTOCOLS,
    SIMCSE,
    Protocol,
    averages,
    ranked,
    row,
)
from harness.results.row_comparisons import Comparisons
from harness.results.source_notes import source_seen

HOW_TO_READ = (
    "Spearman's rank correlation of cosine and gold, ×100, best average first. `all` correlates a "
    "year's concatenated subsets (SBERT, SimCSE), `wmean` averages the subsets weighted by their "
    "pairs (BERT-flow, BERT-whitening); the two are different protocols and are never compared. "
    "† fitted on the sentences that are scored (no labels). ≈ its average is not distinguishable "
    "from the row above (paired bootstrap over items, Holm-corrected over the table, 5 %). An "
    "average exists only where all its cells do; `not run` is a hole, never a zero."
)

PAPERS = (
    "Each paper's tables, cell by cell, are in [tables/papers](tables/papers). `runnable` counts "
    "cells for which the harness has a method; `run` those measured here."
)


CARRIED = (
    "Sentences that the harness makes itself, so that every machine can score them; best on "
    "mini-STS first. No paper has these tasks: they compare methods with each other. Spearman, "
    "`all`; AUC; and for lexical the correlation with edit distance."
)
LEXICAL = {
    "lexical": ("STS-B dev", " (BERT-flow publishes -24.61)"),
    "mini-lexical": ("mini-STS dev", ""),
}
EMBEDDED = {
    "mini-STS": ("mini-sts", "spearman", "all"),
    "mini-SICK": ("mini-sick", "spearman", "all"),
    "mini-QNLI (AUC)": ("mini-qnli", "auc"),
    "mini-lexical": ("mini-lexical", "edit_distance"),
}


def label(method: str) -> str:
    """The method's id, marked where it was fitted on what is scored."""
    return f"`{method}`" + (" †" if method.endswith("@target") else "")


def seven(
    results: Results,
    methods: Sequence[str],
    protocol: Protocol,
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
            paid = [cost.told(results, method, protocol)] if costs else []
            rows.append([label(method) + mark, *values, *paid])
    head = ["method", *LABELS.values(), "Avg.", *([cost.COLUMN] if costs else [])]
    return table(head, rows) if rows else ""


def other_tasks(results: Results, methods: Sequence[str]) -> str:
    """QNLI, lexical, and the development and full-SICK variants."""
    columns = {
        "QNLI (AUC)": ("qnli", "auc"),
        "STS-B dev": ("sts-b.dev", "spearman", "all"),
        "SICK-R, 9,927": ("sick-r.all", "spearman", "all"),
        "lexical": ("lexical", "edit_distance"),
        "lexical, near": ("lexical", "edit_distance_near"),
        "alignment": ("sts-b", "alignment"),
        "uniformity": ("sts-b", "uniformity"),
    }
    rows = [[label(method), *values] for method, values in _valued(results, methods, columns)]
    return table(["method", *columns], rows) if rows else ""


def embedded(results: Results, methods: Sequence[str]) -> str:
    """The tasks that come with the harness, best on the first of them first."""
    found = _valued(results, methods, EMBEDDED)
    found.sort(key=lambda one: -inf if one[1][0].mean is None else one[1][0].mean, reverse=True)
    rows = [[label(method), *values] for method, values in found]
    return table(["method", *EMBEDDED], rows) if rows else ""


def _valued(
    results: Results, methods: Sequence[str], columns: Mapping[str, tuple[str, ...]]
) -> list[tuple[str, list[Value]]]:
    """Methods with their values; those that have none are left out."""
    rows = [(m, [results.value(m, *path) for path in columns.values()]) for m in methods]
    return [(m, values) for m, values in rows if any(v.mean is not None for v in values)]


def gold_row(results: Results, task: str = "lexical") -> str:
    """The model-free row of a lexical task, from any record of it."""
    names = ("gold_edit_distance", "gold_edit_distance_near")
    for method in results.methods:
        values = [results.value(method, task, name) for name in names]
        if all(v.mean is not None for v in values):
            where, published = LEXICAL[task]
            return (
                f"Lexical: Spearman of similarity and token edit distance on {where}; gold itself "
                f"has {values[0]} over all pairs and {values[1]} over those at distance 4 or less"
                f"{published}. Closer to gold is better."
            )
    return ""


def leaderboard(
    results: Results,
    registry: Registry,
    counts: str,
    comparisons: Mapping[str, Comparisons],
) -> str:
    """The whole page: what of the papers was reproduced, then every encoder."""
    parts = ["## Published beside measured", counts, PAPERS, "## Measured"]
    if cost.best(results):
        parts.append(f"![Average of seven STS tasks against cost]({cost.PICTURE})")
    parts += [HOW_TO_READ, cost.CAPTION]
    whole, partly = _whole_and_partly(results)
    for encoder, methods in whole.items():
        parts.append(f"### {encoder}")
        about = registry.encoders.get(encoder.partition(":")[0])
        if about:
            held = [r for (m, _), rs in results.by_cell.items() if m in methods for r in rs]
            parts.append(
                f"Weights: {source_seen(about, held)}. Trained on: {about.trained_on}. "
                f"Licence: {about.licence}. Every protocol: [tables]({page_of(encoder)})."
            )
        for protocol in (SIMCSE, BERT_FLOW):
            known = comparisons.get(f"{encoder}.{protocol.id}")
            if found := seven(results, methods, protocol, known, costs=True):
                parts += [f"**{protocol.title}**", found]
    if partly:
        rest = [method for methods in partly.values() for method in methods]
        if found := seven(results, rest, SIMCSE, costs=True):
            parts += ["### On some tasks only", f"**{SIMCSE.title}**", found]
    if found := embedded(results, results.methods):
        parts += [
            "### Embedded tasks",
            f"{CARRIED} {gold_row(results, 'mini-lexical')}".strip(),
            found,
        ]
    return page("Leaderboard", parts, results.digest())


def _whole_and_partly(
    results: Results,
) -> tuple[Mapping[str, Sequence[str]], Mapping[str, Sequence[str]]]:
    """Encoders with an average under either protocol, and those with a restricted vocabulary."""
    groups = by_encoder(results.methods)
    whole = {
        encoder: methods
        for encoder, methods in groups.items()
        if any(averages(results, methods, protocol) for protocol in (SIMCSE, BERT_FLOW))
    }
    return whole, {encoder: groups[encoder] for encoder in groups if encoder not in whole}


def page_of(encoder: str) -> str:
    """Where an encoder's own page stands, from the leaderboard."""
    return f"tables/{file_name(encoder)}.md"


def encoder_page(results: Results, encoder: str, methods: Sequence[str]) -> str:
    """Every protocol of one encoder."""
    parts = [HOW_TO_READ]
    for protocol in PROTOCOLS:
        if found := seven(results, methods, protocol):
            parts += [f"## {protocol.title}", found]
    if found := other_tasks(results, methods):
        parts += ["## Other tasks", found]
        if gold := gold_row(results):
            parts.append(gold)
    if found := embedded(results, methods):
        parts += [
            "## Embedded tasks",
            f"{CARRIED} {gold_row(results, 'mini-lexical')}".strip(),
            found,
        ]
    return page(encoder, parts, results.digest())


def summary(results: Results) -> str:
    """The rows that the README shows: each encoder's plain poolings under SimCSE's protocol."""
    plain = [m for m in averages(results, results.methods, SIMCSE) if "+" not in m]
    return f"{SIMCSE.title}:\n\n{seven(results, plain, SIMCSE)}"
