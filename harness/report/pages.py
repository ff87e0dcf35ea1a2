"""The page of conformance: what other programs gave, ours, and the difference."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.report.markdown import page, table
from harness.results.benchmarks import (
    COUNTS,
    Attack,
    AttackResult,
    BenchmarkResult,
    BenchmarkRow,
    MeasuredRows,
)
from harness.results.conformance import TOLERANCE, Comparison, Reference
from harness.results.explain import Trap
from harness.results.index import NOT_MEASURED, Results
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


RELIABILITY_INTRODUCTION = (
    "What was done to the harness, and what it did. `right`: nothing was wrong; `rebuilt`: what "
    "was damaged was noticed and made again; `refused`: one line and a status; `silent`: a wrong "
    "number, a lost or stray file, or a traceback. `make soak` tries all of it anew; what is "
    "promised is in [security](../../docs/security.md)."
)


def reliability_page(attacks: MeasuredRows[Attack, AttackResult]) -> str:
    """Every attack with its counts; one that was not tried says so."""
    results = attacks.results
    lines = [
        [
            row.what,
            row.right,
            *([NOT_MEASURED, *[""] * 4] if result is None else map(result.total, COUNTS)),
        ]
        for row, result in zip(attacks.rows.values(), results.values(), strict=True)
    ]
    parts = [
        RELIABILITY_INTRODUCTION,
        table(["what is tried", "what is right", *COUNTS], lines, words=2),
    ]
    parts_tried = [part for of in results.values() if of for part in of.parts.values()]
    if commits := sorted({part.commit for part in parts_tried if part.commit}):
        parts.append(f"Commit {', '.join(commit[:12] for commit in commits)}.")
    return page("Reliability", parts, attacks.digest)


SPEED_INTRODUCTION = (
    "Each row is a ratio of two things that were run in turn, in one process, on one machine: how "
    "many times as fast the first is as the second, or which share of a rate it reaches. Against a "
    "limit in seconds, it is how often the time fits into it. The median over the rounds, the "
    "lowest and the highest; `make bench` measures them anew."
)


def speed_page(benchmarks: MeasuredRows[BenchmarkRow, BenchmarkResult]) -> str:
    """Every benchmark with its result; one without a result says so."""
    rows, results = benchmarks.rows, benchmarks.results
    head = ["what", "against", "device", "wanted", "measured", "lowest–highest", "rounds"]
    lines = [_speed_line(row, results[name]) for name, row in rows.items()]
    parts = [SPEED_INTRODUCTION, table(head, lines, words=4)]
    if notes := _notes(rows, results):
        parts.append("\n".join(notes))
    return page("Speed", parts, benchmarks.digest)


def _speed_line(row: BenchmarkRow, result: BenchmarkResult | None) -> Sequence[object]:
    words = [row.what, row.against, row.device]
    if result is None:
        return [*words, row.wanted, NOT_MEASURED, "", ""]
    missed = " (missed)" if result.missed else ""
    spread = f"{min(result.ratios):.2f}–{max(result.ratios):.2f}"
    wanted = f"{row.wanted} (here {result.wanted:g})"
    return [*words, wanted, f"{result.ratio:.2f}{missed}", spread, len(result.ratios)]


def _notes(
    rows: Mapping[str, BenchmarkRow], results: Mapping[str, BenchmarkResult | None]
) -> list[str]:
    """Machine and facts of the measurements, a line for all rows that share them."""
    measured_so: dict[str, list[str]] = {}
    for name, result in results.items():
        if result is not None:
            facts = [f"{fact} {value}" for fact, value in result.facts.items()]
            how = "; ".join([_machine(result.environment), *facts])
            measured_so.setdefault(how, []).append(rows[name].what)
    return [f"* {', '.join(whats)}: {how}." for how, whats in measured_so.items()]


def _machine(environment: Mapping[str, Any]) -> str:
    packages = environment.get("packages", {})
    threads = environment.get("threads")
    return f"{environment.get('processor')}, {threads} threads, torch {packages.get('torch')}"


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
