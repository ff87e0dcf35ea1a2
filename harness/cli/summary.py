"""The last lines of a reproduction: what was reproduced, what moved, what did not run.

Each function makes the lines of one subject; `harness reproduce` prints them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence

from harness.evaluation.run import Outcome
from harness.gate.outcome import CheckResult, State
from harness.report.replication import CLAIMS_PAGE, claims_by_size, outcomes_in_words
from harness.results.claim_tests import ClaimOutcome
from harness.results.folder import ResultsFolder
from harness.results.index import NOT_MEASURED
from harness.results.reproduction import Reproduction
from harness.results.verdict import CellState

LINES_SHOWN = 12  # of a list that may have hundreds

# The states of published numbers, in the groups that the summary counts.
STATES_BY_GROUP = {
    "reproduced": (CellState.EXACT, CellState.MATCH, CellState.CONSISTENT),
    "close": (CellState.CLOSE,),
    "differ": (CellState.DIFFERS,),
    "undecided": (CellState.INCONCLUSIVE, CellState.TOO_FEW_SEEDS),
    NOT_MEASURED: tuple(state for state in CellState if not state.is_verdict),
}


def lines_of_claims(measured: ResultsFolder, committed: ResultsFolder) -> list[str]:
    """What came of the claims, by the run's records if they test any, else by committed ones."""
    for folder in (measured, committed):
        tested = [
            claim
            for claim in folder.claim_results
            if claim.outcome != ClaimOutcome.NOT_MEASURED
        ]
        if not tested:
            continue
        lines = [f"claims of papers, tested by {folder.path}/records:"]
        for title, group in claims_by_size(tested, folder.encoder_sizes).items():
            lines.append(f"  {title}: {outcomes_in_words(group)}")
        lines.append(f"  each with its encoder: {folder.path}/tables/{CLAIMS_PAGE}")
        return lines
    return []


def run_summary(
    outcomes: Sequence[Outcome],
    checks: Sequence[CheckResult],
    runs: ResultsFolder,
    committed: ResultsFolder,
) -> list[str]:
    """How many cells ran, what they reproduce, what moved, and why cells did not run."""
    counts = Counter(outcome.status for outcome in outcomes)
    cells = ", ".join(f"{count:,} {status}" for status, count in counts.items())
    return [
        "",
        f"cells: {cells}",
        *lines_of_numbers(outcomes, runs),
        *lines_of_moves(checks, committed),
        *lines_of_failures(outcomes),
    ]


def lines_of_numbers(outcomes: Sequence[Outcome], measured: ResultsFolder) -> list[str]:
    """How many published numbers the run's records reproduce, and which of them differ."""
    cells_without_asset: set[tuple[str | None, str | None]] = set()
    for outcome in outcomes:
        if outcome.status == "asset missing":
            cells_without_asset.add((outcome.cell.method, outcome.cell.task))
    states = Counter(
        _state(reproduction, cells_without_asset)
        for reproduction in measured.all_reproductions
    )
    lines = [f"{len(measured.all_reproductions):,} published numbers:"]
    for group, members in STATES_BY_GROUP.items():
        counts = [f"{states[state]:,} {state}" for state in members if states[state]]
        line = f"  {sum(states[state] for state in members):,} {group}"
        if counts and len(members) > 1:
            line += f" ({', '.join(counts)})"
        lines.append(line)
    return lines + _differing(measured)


def _state(
    reproduction: Reproduction,
    cells_without_asset: Container[tuple[str | None, str | None]],
) -> CellState:
    """The state of a published number; `asset missing` if this run lacked a file for it."""
    cell = reproduction.cell
    tasks = cell.average_of or (cell.task,)
    lacks_file = any((cell.method, task) in cells_without_asset for task in tasks)
    if reproduction.state is CellState.NOT_RUN and lacks_file:
        return CellState.ASSET_MISSING
    return reproduction.state


def _differing(measured: ResultsFolder) -> list[str]:
    """A line for each published number that differs, and the command that explains it."""
    lines = []
    for reproduction in measured.all_reproductions:
        points = reproduction.verdict.difference
        if reproduction.state is not CellState.DIFFERS or points is None:
            continue
        cell_id = reproduction.cell.id
        lines.append(
            f"differs: {cell_id}: {points:+.2f} points; "
            f"why: harness explain {cell_id} --results {measured.path}"
        )
    return _shortened(lines, more=f"{measured.path}/tables/papers")


def lines_of_moves(
    checks: Sequence[CheckResult], committed: ResultsFolder
) -> list[str]:
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


def lines_of_failures(outcomes: Iterable[Outcome]) -> list[str]:
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
    return [f"{reasons.total():,} cells did not run:", *_shortened(lines, more)]


def _shortened(lines: Sequence[str], more: str) -> list[str]:
    """The first LINES_SHOWN lines; `more` says where the others are found."""
    shown = [f"  {line}" for line in lines[:LINES_SHOWN]]
    if len(lines) > LINES_SHOWN:
        shown.append(f"  and {len(lines) - LINES_SHOWN:,} more: {more}")
    return shown
