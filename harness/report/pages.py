"""Three parts of the results: the page of conformance, the page of traps, the example plug-ins.

Conformance compares the scores of other programs with ours; a trap is a choice that moves
a score and that papers leave unsaid.
"""

from __future__ import annotations

from collections.abc import Sequence

from harness.registry import Registry
from harness.report.markdown import Page, table, texts
from harness.report.method_table import MethodTable
from harness.report.score_columns import columns_of_tasks
from harness.results.conformance import REFERENCE_TOLERANCE, Reference, ReferenceScore
from harness.results.index import CellName, Results, methods_by_encoder
from harness.results.questions import Trap
from harness.results.scorings import SCORINGS, SEVEN, TASK_LABELS
from harness.results.store import Store
from harness.results.verdict import TOLERANCES

CONFORMANCE_PAGE = "conformance.md"
TRAPS_PAGE = "protocols.md"
SCORE_HEAD = (
    "method",
    "task",
    "score",
    "theirs",
    "ours",
    "difference",
    "tolerance",
    "verdict",
)
REFERENCE_HEAD = (
    "reference",
    "program of",
    "scores",
    "compared",
    "equal",
    "largest difference",
)


# Conformance


def conformance_page(
    references: Sequence[tuple[Reference, Sequence[ReferenceScore]]], results: Results
) -> Page:
    """A line for each reference, then each with all of its scores."""
    rows = []
    sections: list[str] = []
    scores_of_authors = scores_of_libraries = 0
    for reference, scores in references:
        if reference.authors_of:
            scores_of_authors += len(scores)
        else:
            scores_of_libraries += len(scores)
        rows.append(_reference_row(reference, scores))
        sections += [
            f"## {reference.file}",
            _reference_in_words(reference),
            _scores_table(scores),
        ]
    introduction = texts()["conformance"].format(
        authors=scores_of_authors,
        library=scores_of_libraries,
        tolerance=REFERENCE_TOLERANCE,
        verdicts=TOLERANCES,
    )
    parts = [introduction, table(REFERENCE_HEAD, rows, word_columns=2), *sections]
    cells: list[CellName] = []
    for _, scores in references:
        cells += [score.cell.subject for score in scores]
    return Page(title="Conformance", parts=parts, records=results.select(cells))


def _reference_row(
    reference: Reference, scores: Sequence[ReferenceScore]
) -> list[object]:
    """A reference in the table of all: how many scores it has, and how many equal ours."""
    program = "a library"
    if reference.authors_of:
        program = f"the authors of {reference.authors_of}"
    differences = [
        abs(score.difference) for score in scores if score.difference is not None
    ]
    return [
        f"`{reference.file}`",
        program,
        len(scores),
        len(differences),
        sum(score.agrees is True for score in scores),
        f"{max(differences):.4f}" if differences else "",
    ]


def _reference_in_words(reference: Reference) -> str:
    """Program, scores and command of a reference, a bullet each."""
    version = f" ({reference.version})" if reference.version else ""
    bullets = [
        f"* Program: {reference.program}{version}",
        f"* Scores: {reference.what}",
        f"* Command: `{reference.command}`",
    ]
    if reference.reason:
        bullets.append(f"* Tolerance: {reference.reason}")
    return "\n".join(bullets)


def _scores_table(scores: Sequence[ReferenceScore]) -> str:
    """A line for each score; one that was not measured has its state in place of ours."""
    return table(SCORE_HEAD, [_score_row(score) for score in scores], word_columns=3)


def _score_row(score: ReferenceScore) -> list[str]:
    method, task = score.cell.subject
    measured, difference, verdict = score.state, "", ""
    if score.ours is not None and score.difference is not None:
        measured = f"{score.ours:.4f}"
        without_minus_zero = round(score.difference, 4) + 0.0
        difference = f"{without_minus_zero:+.4f}"
        verdict = score.state
        if not score.agrees:
            verdict += ", beyond the tolerance"
    return [
        f"`{method}`",
        f"`{task}`" if task else "training",
        score.score,
        f"{score.theirs:.4f}",
        measured,
        difference,
        f"{score.reference.tolerance_of(score.cell):g}",
        verdict,
    ]


# Traps


def traps_page(results: Results, traps: Sequence[Trap]) -> Page:
    """All traps with their numbers; a row whose cell was not run says so."""
    parts = [texts()["traps"]]
    for number, trap in enumerate(traps, start=1):
        rows = []
        for row, score, difference in trap.values(results):
            shown_difference = "" if difference is None else f"{difference:+.2f}"
            rows.append(
                [row.what, f"`{row.method}`", f"`{row.task}`", score, shown_difference]
            )
        head = ["", "method", "task", "score", "difference"]
        parts.append(f"## {number}. {trap.title}")
        parts.append(trap.text)
        parts.append(table(head, rows, word_columns=3))
    cells: list[CellName] = []
    for trap in traps:
        cells += [(row.method, row.task) for row in trap.rows]
    return Page(title="Protocol traps", parts=parts, records=results.select(cells))


# Example plug-ins


def examples_part(store: Store, registry: Registry) -> str:
    """A table of each encoder: the example plug-ins, and what comes with the harness.

    It has the columns of the first table of the leaderboard.
    """
    results = Results.read(store)
    scoring = SCORINGS[0]
    tasks = [registry.tasks[scoring.task(name)] for name in SEVEN]
    # The columns have the names of tasks; the leaderboard has shorter headings.
    columns_by_name = columns_of_tasks(tasks, scoring.aggregation)
    headings = [*TASK_LABELS.values(), "Avg."]
    columns = dict(zip(headings, columns_by_name.values(), strict=True))
    tables = []
    for methods in methods_by_encoder(results.methods).values():
        method_table = MethodTable(
            methods=methods, columns=columns, results=results, registry=registry
        )
        tables.append(method_table.markdown())
    return "\n\n".join(tables)
