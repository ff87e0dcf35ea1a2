"""The last lines of a reproduction: what was reproduced, what moved, what did not run.

Each function makes the lines of one subject; `harness reproduce` prints them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Iterable, Sequence

from harness.evaluation.run import Outcome
from harness.gate.outcome import CheckResult, State
from harness.report.claims import CLAIMS_PAGE, claims_by_size, outcomes_in_words
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
        tested_claims = [
            claim
            for claim in folder.claim_results
            if claim.outcome != ClaimOutcome.NOT_MEASURED
        ]
        if not tested_claims:
            continue
        lines = [f"claims of papers, tested by {folder.path}/records:"]
        claims_of_sizes = claims_by_size(tested_claims, folder.encoder_sizes)
        for title, group in claims_of_sizes.items():
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
    statuses = Counter(outcome.status for outcome in outcomes)
    counts = [f"{count:,} {status}" for status, count in statuses.items()]
    return [
        "",
        f"cells: {', '.join(counts)}",
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
    count_by_state: Counter[CellState] = Counter()
    for reproduction in measured.all_reproductions:
        count_by_state[_state(reproduction, cells_without_asset)] += 1
    if not any(state.is_verdict for state in count_by_state):
        count = sum(outcome.record is not None for outcome in outcomes)
        if count == 1:
            return ["the measured cell has no published number"]
        return [f"none of the {count:,} measured cells has a published number"]
    lines = [f"{len(measured.all_reproductions):,} published numbers:"]
    for group, states in STATES_BY_GROUP.items():
        line = f"  {sum(count_by_state[state] for state in states):,} {group}"
        counts = []
        for state in states:
            if count_by_state[state]:
                counts.append(f"{count_by_state[state]:,} {state}")
        if counts and len(states) > 1:
            line += f" ({', '.join(counts)})"
        lines.append(line)
    return lines + _lines_of_differing_numbers(measured)


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


def _lines_of_differing_numbers(measured: ResultsFolder) -> list[str]:
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
    return _shortened(lines, f"{measured.path}/tables/papers")


def lines_of_moves(
    checks: Sequence[CheckResult], committed: ResultsFolder
) -> list[str]:
    """How many cells agree with their committed records, and which of them moved."""
    moved_cells = [check for check in checks if check.moved]
    new_count = sum(check.state is State.NO_BASELINE for check in checks)
    compared_count = len(checks) - new_count
    lines = []
    if compared_count:
        agreeing_count = compared_count - len(moved_cells)
        lines.append(
            f"{agreeing_count:,} of {compared_count:,} agree with {committed.path}/records"
        )
    if new_count:
        lines.append(
            f"{new_count:,} have no committed record to agree with (--update makes them)"
        )
    for check in moved_cells:
        lines.append(f"  moved: {check.name}: {check.why}")
    return lines


def lines_of_failures(outcomes: Iterable[Outcome]) -> list[str]:
    """Lines about cells that did not run: how to get a missing asset, or the failure's message."""
    count_by_reason: Counter[tuple[str, str]] = Counter()
    for outcome in outcomes:
        if outcome.record is None:
            reason = outcome.remedy or outcome.message
            count_by_reason[outcome.status, reason] += 1
    if not count_by_reason:
        return []
    lines = []
    for (status, reason), count in count_by_reason.most_common():
        lines.append(f"{count:,} {status}: {reason}")
    source = "harness list assets says where each is from"
    cell_count = count_by_reason.total()
    return [f"{cell_count:,} cells did not run:", *_shortened(lines, source)]


def _shortened(lines: Sequence[str], source: str) -> list[str]:
    """The first LINES_SHOWN lines, indented; `source` says where all of them are found."""
    shortened_lines = [f"  {line}" for line in lines[:LINES_SHOWN]]
    hidden_count = len(lines) - LINES_SHOWN
    if hidden_count > 0:
        shortened_lines.append(f"  and {hidden_count:,} more: {source}")
    return shortened_lines
