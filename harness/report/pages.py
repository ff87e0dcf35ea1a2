"""The pages of conformance with other programs, and of the traps of protocols."""

from __future__ import annotations

from collections.abc import Sequence

from harness.report.markdown import page, table, texts
from harness.results.conformance import TOLERANCE, Reference, ReferenceScore
from harness.results.index import Results
from harness.results.questions import Trap
from harness.results.verdict import TOLERANCES

PAGE = "conformance.md"
HEAD = ("method", "task", "score", "theirs", "ours", "difference", "tolerance", "verdict")
SUMMARY = ("reference", "program of", "scores", "compared", "equal", "largest difference")


def conformance_page(
    references: Sequence[tuple[Reference, Sequence[ReferenceScore]]], results: Results
) -> str:
    """A line for each reference, then each with all of its scores."""
    summary: list[list[object]] = []
    sections: list[str] = []
    counts = {"authors": 0, "library": 0}
    for reference, compared in references:
        counts["authors" if reference.authors_of else "library"] += len(compared)
        differences = [abs(one.difference) for one in compared if one.difference is not None]
        whose = f"the authors of {reference.authors_of}" if reference.authors_of else "a library"
        equal = sum(one.agrees is True for one in compared)
        largest = f"{max(differences):.4f}" if differences else ""
        numbers = [len(compared), len(differences), equal, largest]
        summary.append([f"`{reference.file}`", whose, *numbers])
        version = f" ({reference.version})" if reference.version else ""
        about = [
            f"* Program: {reference.program}{version}",
            f"* Scores: {reference.what}",
            f"* Command: `{reference.command}`",
            *([f"* Tolerance: {reference.reason}"] if reference.reason else []),
        ]
        sections += [f"## {reference.file}", "\n".join(about), comparison_table(compared)]
    introduction = texts()["conformance"].format(**counts, tolerance=TOLERANCE, verdicts=TOLERANCES)
    parts = [introduction, table(SUMMARY, summary, words=2), *sections]
    return page("Conformance", parts, results.digest())


def comparison_table(compared: Sequence[ReferenceScore]) -> str:
    """A line for each score; of one that was not measured its state stands in place of ours."""
    lines = []
    for one in compared:
        method, task = one.cell.what
        tolerance = f"{one.reference.tolerance_of(one.cell):g}"
        ours = [one.state, "", tolerance, ""]
        if one.ours is not None and one.difference is not None:
            difference = f"{round(one.difference, 4) + 0.0:+.4f}"
            outside = "" if one.agrees else ", beyond the tolerance"
            ours = [f"{one.ours:.4f}", difference, tolerance, f"{one.state}{outside}"]
        named = [f"`{method}`", f"`{task}`" if task else "training", one.score]
        lines.append([*named, f"{one.theirs:.4f}", *ours])
    return table(HEAD, lines, words=3)


def traps_page(results: Results, traps: Sequence[Trap]) -> str:
    """All traps with their numbers; a row whose cell was not run says so."""
    parts = [texts()["traps"]]
    for number, trap in enumerate(traps, start=1):
        rows = []
        for row, score, gap in trap.values(results):
            difference = "" if gap is None else f"{gap:+.2f}"
            rows.append([row.what, f"`{row.method}`", f"`{row.task}`", score, difference])
        shown = table(["", "method", "task", "score", "difference"], rows, words=3)
        parts += [f"## {number}. {trap.title}", trap.text, shown]
    return page("Protocol traps", parts, results.digest())
