"""The end of a reproduction in lines: what was reproduced, what moved, what did not run."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence

from harness.evaluation.run import Outcome
from harness.gate.outcome import Checked, State
from harness.report.replication import CLAIMS_PAGE, claims_by_size, outcomes_in_words
from harness.results.claim_tests import ClaimOutcome
from harness.results.folder import ResultsFolder
from harness.results.index import NOT_MEASURED
from harness.results.reproduction import Reproduction
from harness.results.verdict import CellState

LINES_SHOWN = 12  # of what may be hundreds

# The verdicts in a person's words; every other word is a number that was not measured.
STATES_BY_GROUP = {
    "reproduced": (CellState.EXACT, CellState.MATCH, CellState.CONSISTENT),
    "close": (CellState.CLOSE,),
    "differ": (CellState.DIFFERS,),
    "undecided": (CellState.INCONCLUSIVE, CellState.TOO_FEW_SEEDS),
    NOT_MEASURED: tuple(state for state in CellState if not state.is_verdict),
}


def claims_tested(measured: ResultsFolder, committed: ResultsFolder) -> list[str]:
    """What the tested claims show by the run's own records, else by the committed ones."""
    for folder in (measured, committed):
        tested = [
            c for c in folder.claim_results if c.outcome != ClaimOutcome.NOT_MEASURED
        ]
        if tested:
            lines = [f"claims of papers, tested by {folder.path}/records:"]
            for title, group in claims_by_size(tested, folder.encoder_sizes).items():
                lines.append(f"  {title}: {outcomes_in_words(group)}")
            return [
                *lines,
                f"  each with its encoder: {folder.path}/tables/{CLAIMS_PAGE}",
            ]
    return []


def run_summary(
    outcomes: Sequence[Outcome],
    checks: Sequence[Checked],
    runs: ResultsFolder,
    committed: ResultsFolder,
) -> list[str]:
    """How many cells ran, what they reproduce, which of them moved, and why others did not run."""
    counts = Counter(outcome.status for outcome in outcomes)
    cells = ", ".join(f"{count:,} {status}" for status, count in counts.items())
    return [
        "",
        f"cells: {cells}",
        *against_papers(outcomes, runs),
        *against_committed(checks, committed),
        *not_run(outcomes),
    ]


def against_papers(outcomes: Sequence[Outcome], measured: ResultsFolder) -> list[str]:
    """How many published numbers the run's records reproduce, and which of them differ."""
    missing = {
        (outcome.cell.method, outcome.cell.task)
        for outcome in outcomes
        if outcome.status == "asset missing"
    }
    states = Counter(_state(cell, missing) for cell in measured.all_reproductions)
    lines = [f"{len(measured.all_reproductions):,} published numbers:"]
    for group, members in STATES_BY_GROUP.items():
        counts = [f"{states[state]:,} {state}" for state in members if states[state]]
        detail = f" ({', '.join(counts)})" if counts and len(members) > 1 else ""
        lines.append(f"  {sum(states[state] for state in members):,} {group}{detail}")
    differing = [
        f"differs: {cell.cell.id}: {points:+.2f} points; "
        f"why: harness explain {cell.cell.id} --results {measured.path}"
        for cell in measured.all_reproductions
        if cell.state is CellState.DIFFERS
        and (points := cell.verdict.difference) is not None
    ]
    return lines + _first(differing, f"{measured.path}/tables/papers")


def _state(
    reproduction: Reproduction, missing: Container[tuple[str | None, str | None]]
) -> CellState:
    """The state of a verdict; `asset missing` for a cell that this run lacked a file for."""
    cell = reproduction.cell
    tasks = cell.average_of or (cell.task,)
    lacks_file = any((cell.method, task) in missing for task in tasks)
    if reproduction.state is CellState.NOT_RUN and lacks_file:
        return CellState.ASSET_MISSING
    return reproduction.state


def against_committed(checks: Sequence[Checked], committed: ResultsFolder) -> list[str]:
    """How many cells agree with their committed records, and which of them moved."""
    compared = [check for check in checks if check.state is not State.NO_BASELINE]
    moved = [check for check in checks if check.moved]
    lines = []
    if compared:
        agree = len(compared) - len(moved)
        lines.append(
            f"{agree:,} of {len(compared):,} agree with {committed.path}/records"
        )
    new = len(checks) - len(compared)
    if new:
        lines.append(
            f"{new:,} have no committed record to agree with (--update makes them)"
        )
    return lines + [f"  moved: {check.name}: {check.why}" for check in moved]


def not_run(outcomes: Iterable[Outcome]) -> list[str]:
    """Lines about cells that did not run: how to get a missing asset, or the failure's message."""
    reasons = Counter(
        (outcome.status, outcome.get or outcome.message)
        for outcome in outcomes
        if outcome.record is None
    )
    if not reasons:
        return []
    lines = [
        f"{count:,} {status}: {why}" for (status, why), count in reasons.most_common()
    ]
    more = "harness plan names every asset, harness list assets where it is from"
    return [f"{reasons.total():,} cells did not run:", *_first(lines, more)]


def _first(lines: Sequence[str], more: str) -> list[str]:
    """The first few lines, and `more`: where the others are found."""
    shown = [f"  {line}" for line in lines[:LINES_SHOWN]]
    if len(lines) > LINES_SHOWN:
        shown.append(f"  and {len(lines) - LINES_SHOWN:,} more: {more}")
    return shown
