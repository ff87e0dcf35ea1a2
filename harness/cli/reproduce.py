"""The end of `harness reproduce`: what was measured, what moved, what did not run and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from pathlib import Path

from harness.cli.options import readme_of
from harness.core.errors import HarnessError
from harness.core.types import Progress
from harness.evaluation.compare import compare_claims, compare_tables
from harness.evaluation.engines import Engine
from harness.evaluation.runner import Outcome
from harness.gate.drift import Move, compare_records, read_rules
from harness.registry import Registry, load_registry
from harness.report.build import write_files
from harness.results.claims import read_claims, read_intervals, write_intervals
from harness.results.comparisons import read_comparisons, write_comparisons
from harness.results.folder import ResultsFolder
from harness.results.index import NOT_MEASURED, Results
from harness.results.layout import QUESTIONS, papers_of
from harness.results.published import load_tables
from harness.results.records import Store
from harness.results.reproduction import Reproduction, reproductions
from harness.results.verdict import CellState
from harness.tasks.loader import TaskLoader

SHOWN = 12  # of what may be hundreds of lines

# The verdicts in a person's words; every other word is a number that was not measured.
TOLD = {
    "reproduced": (CellState.EXACT, CellState.MATCH, CellState.CONSISTENT),
    "close": (CellState.CLOSE,),
    "differ": (CellState.DIFFERS,),
    "undecided": (CellState.INCONCLUSIVE, CellState.TOO_FEW_SEEDS),
}


def compare(outcomes: Sequence[Outcome], committed: Path) -> list[Move]:
    """The measured cells against the committed records."""
    baseline, rules = Results.read(Store(committed)), read_rules(committed)
    return compare_records((o.record for o in outcomes if o.record), baseline, rules)


def compare_rows(
    results: Path,
    committed: Path,
    loader: TaskLoader,
    registry: Registry,
    progress: Progress,
    engine: Engine,
) -> str | None:
    """Bring the comparisons of rows and claims up to date; committed ones that hold are kept.

    Returns why it could not be done, if data are no longer at hand: the tables then go without.
    """
    questions = committed / QUESTIONS / "claims.toml"
    try:
        if questions.exists():
            claims = read_claims(questions, load_tables(papers_of(committed), registry))
            old = {**read_intervals(committed), **read_intervals(results)}
            new = compare_claims(claims, Store(results), loader, registry, progress, old, engine)
            write_intervals(results, new)
        known = {**read_comparisons(committed), **read_comparisons(results)}
        for table in compare_tables(Store(results), loader, registry, progress, known, engine):
            write_comparisons(results, table)
    except HarnessError as error:
        return f"rows were not compared: {error}"
    return None


def promote(outcomes: Sequence[Outcome], results: Path, committed: Path) -> int:
    """Write the measured records to the committed folder; those that agree stay as they are."""
    for found in read_comparisons(results).values():
        write_comparisons(committed, found)
    write_intervals(committed, read_intervals(results))
    return Store(committed).promote(o.record for o in outcomes if o.record)


def summary(
    outcomes: Sequence[Outcome],
    moves: Sequence[Move],
    results: Path,
    committed: Path,
    promoted: int | None,
    registry: Registry,
) -> list[str]:
    """Write the run's tables, and say what a person wants to know at the end."""
    counts = Counter(outcome.status for outcome in outcomes)
    lines = ["", "cells: " + ", ".join(f"{n:,} {status}" for status, n in counts.items())]
    papers = papers_of(committed)
    lines += against_papers(outcomes, results, papers, registry)
    lines += against_committed(moves, committed)
    lines += not_run(outcomes)
    if counts["measured"] or counts["done"]:
        write_files(ResultsFolder(results, registry, papers), None)
        lines.append(f"tables: {results}/LEADERBOARD.md, {results}/tables, {results}/site")
    if promoted is not None:
        folder = ResultsFolder(committed, registry, papers)
        written = write_files(folder, readme_of(committed))
        lines.append(f"promoted: {promoted} records, {len(written)} generated files rewritten")
    return lines


def against_papers(
    outcomes: Sequence[Outcome], results: Path, papers: Path, given: Registry | None = None
) -> list[str]:
    """How many published numbers the run's records reproduce, and which of them differ."""
    records, registry = Results.read(Store(results)), given or load_registry()
    tables = load_tables(papers, registry)
    judged = [j for table in tables for j in reproductions(table, records, registry).values()]
    lacking = {(o.cell.method, o.cell.task) for o in outcomes if o.status == "asset missing"}
    words = Counter(_word(one, lacking) for one in judged)
    lines = [f"{len(judged):,} published numbers:"]
    unmeasured = tuple(state for state in CellState if not state.is_verdict)
    for group, of in {**TOLD, NOT_MEASURED: unmeasured}.items():
        held = [f"{words[state]:,} {state}" for state in of if words[state]]
        detail = f" ({', '.join(held)})" if held and len(of) > 1 else ""
        lines.append(f"  {sum(words[state] for state in of):,} {group}{detail}")
    differing = [
        f"differs: {one.cell.id}: {off:+.2f} points; "
        f"why: harness explain {one.cell.id} --results {results}"
        for one in judged
        if one.state is CellState.DIFFERS and (off := one.verdict.difference) is not None
    ]
    return lines + _first(differing, f"{results}/tables/papers")


def _word(one: Reproduction, lacking: Container[tuple[str | None, str | None]]) -> CellState:
    """The verdict's word; `asset missing` for a cell that this run lacked a file for."""
    tasks = one.cell.average_of or (one.cell.task,)
    away = any((one.cell.method, task) in lacking for task in tasks)
    return CellState.ASSET_MISSING if one.state is CellState.NOT_RUN and away else one.state


def against_committed(moves: Sequence[Move], committed: Path) -> list[str]:
    """How many cells agree with their committed records, and which of them moved."""
    known = [move for move in moves if move.points is not None]
    moved = [move for move in moves if move.moved]
    lines = []
    if known:
        agree = len(known) - len(moved)
        lines.append(f"{agree:,} of {len(known):,} agree with {committed}/records")
    if new := len(moves) - len(known):
        lines.append(f"{new:,} have no committed record to agree with (--update makes them)")
    return lines + [f"  moved: {move}" for move in moved]


def not_run(outcomes: Sequence[Outcome]) -> list[str]:
    """Lines about cells that did not run: how to get a missing asset, or the failure's message."""
    why = Counter((o.status, o.get or o.message) for o in outcomes if o.record is None)
    lines = [f"{n:,} {status}: {reason}" for (status, reason), n in why.most_common()]
    further = _first(lines, "harness plan names every asset, harness list assets where it is from")
    return [f"{why.total():,} cells did not run:", *further] if why else []


def _first(lines: Sequence[str], further: str) -> list[str]:
    """The first few lines, and where the others are found."""
    shown = [f"  {line}" for line in lines[:SHOWN]]
    left = len(lines) - len(shown)
    return [*shown, f"  and {left:,} more: {further}"] if left else shown
