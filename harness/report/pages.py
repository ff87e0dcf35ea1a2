"""The page of conformance: what other programs gave, ours, and the difference."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.markdown import page, table
from harness.results.conformance import TOLERANCE, Comparison, Reference
from harness.results.index import Results
from harness.results.questions import Trap
from harness.results.verdict import TOLERANCES

PAGE = "conformance.md"
CONFORMANCE_INTRODUCTION = (
    "The same number from other programs: {authors} of the scores are of programs that papers' "
    "authors released, {library} of libraries. Each section is a program that was run on weights "
    "that anybody can have, with its command; `theirs` is what it gave, `ours` what stands in the "
    "records, both in points (x100). A difference up to the tolerance counts as equal: "
    f"{TOLERANCE:g} points, unless the section says why another one is due. The verdict is that of "
    "published cells: for a deterministic one "
    f"exact up to {TOLERANCES.exact:g}, match up to {TOLERANCES.match:g}, close up to "
    f"{TOLERANCES.close:g}. `not run` is a hole, never a pass. More references are welcome: "
    "`harness reference add FILE`."
)
HEAD = ("method", "task", "score", "theirs", "ours", "difference", "tolerance", "verdict")
SUMMARY = ("reference", "program of", "scores", "compared", "equal", "largest difference")


def conformance_page(
    references: Sequence[tuple[Reference, Sequence[Comparison]]], results: Results
) -> str:
    """A line for each reference, then each with all of its scores."""
    lines = [_summary(reference, compared) for reference, compared in references]
    counts = {True: 0, False: 0}
    for reference, compared in references:
        counts[bool(reference.authors_of)] += len(compared)
    introduction = CONFORMANCE_INTRODUCTION.format(authors=counts[True], library=counts[False])
    parts = [introduction, table(SUMMARY, lines, words=2)]
    for reference, compared in references:
        parts += [f"## {reference.file}", _about(reference), comparison_table(compared)]
    return page("Conformance", parts, results.digest())


def comparison_table(compared: Sequence[Comparison]) -> str:
    """A line for each score."""
    return table(HEAD, [_line(one) for one in compared], words=3)


def _summary(reference: Reference, compared: Sequence[Comparison]) -> list[object]:
    differences = [abs(one.difference) for one in compared if one.difference is not None]
    equal = sum(one.agrees is True for one in compared)
    largest = f"{max(differences):.4f}" if differences else ""
    whose = f"the authors of {reference.authors_of}" if reference.authors_of else "a library"
    return [f"`{reference.file}`", whose, len(compared), len(differences), equal, largest]


def _about(reference: Reference) -> str:
    """Program, what the scores are, command, and the reason for its tolerance."""
    version = f" ({reference.version})" if reference.version else ""
    lines = [
        f"* Program: {reference.program}{version}",
        f"* Scores: {reference.what}",
        f"* Command: `{reference.command}`",
    ]
    if reference.reason:
        lines.append(f"* Tolerance: {reference.reason}")
    return "\n".join(lines)


def _line(one: Comparison) -> list[str]:
    """A row of the table: method, task, score name, both scores, difference, tolerance, verdict.

    Where ours was not measured, its state stands in its column, and there is no difference.
    """
    method, task = one.cell.what
    named = [f"`{method}`", f"`{task}`" if task else "training", one.score]
    tolerance = f"{one.reference.tolerance_of(one.cell):g}"
    if one.ours is None or one.difference is None:
        return [*named, f"{one.theirs:.4f}", one.state, "", tolerance, ""]
    outside = "" if one.agrees else ", beyond the tolerance"
    difference = f"{round(one.difference, 4) + 0.0:+.4f}"
    return [
        *named,
        f"{one.theirs:.4f}",
        f"{one.ours:.4f}",
        difference,
        tolerance,
        f"{one.state}{outside}",
    ]


TRAPS_INTRODUCTION = (
    "Why two honest measurements of one method differ: the traps of the papers' protocols, on "
    "encoders that anybody can run. Spearman x100 of cosine unless the row says otherwise; the "
    "last column is the difference from the first row of its trap and task."
)


def traps_page(results: Results, traps: Sequence[Trap]) -> str:
    """All traps with their numbers; a row whose cell was not run says so."""
    parts = [TRAPS_INTRODUCTION]
    for number, trap in enumerate(traps, start=1):
        rows = [
            [
                row.what,
                f"`{row.method}`",
                f"`{row.task}`",
                value,
                "" if gap is None else f"{gap:+.2f}",
            ]
            for row, value, gap in trap.values(results)
        ]
        shown = table(["", "method", "task", "score", "difference"], rows, words=3)
        parts += [f"## {number}. {trap.title}", trap.text, shown]
    return page("Protocol traps", parts, results.digest())
