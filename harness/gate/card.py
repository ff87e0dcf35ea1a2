"""A run against the numbers of a model's card: the card is the baseline.

This is for a model that replaces another one, or that is trained anew: the run is
measured by `harness run`, and each number of the card is compared with the record of its
task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.core.errors import AssetMissing, UsageError
from harness.gate.check import Gate
from harness.gate.drift import with_margin
from harness.gate.outcome import MEASURE_AGAIN, CheckResult, Report, State
from harness.results.cards import CardClaim
from harness.results.checked_claims import checked_claim, score_of
from harness.results.records import Cell


def check_card(
    gate: Gate,
    claims: Sequence[CardClaim],
    cells: Sequence[Cell],
    margin: float | None = None,
) -> Report:
    """Compare cells of a run with the claims of a card.

    Args:
        gate: The run.
        claims: The claims on tasks here. For each task, one method of the run is
            compared.
        cells: The cells of the run that are compared.
        margin: A margin in points: a number fails only if it fell by more. None: it
            fails wherever the claim does not hold.

    Raises:
        UsageError: The cells of a task are of several methods.
        AssetMissing: No number is compared: all differ, and may be of other pairs than
            those here.
    """
    checks: list[CheckResult] = []
    for claim in claims:
        checks += _checks(gate, claim, cells, margin)
    if claims and not checks:
        raise AssetMissing(
            f"wanted numbers that a run can be compared with, found {len(claims)} that differ and "
            f"may be of other pairs: {claims[0].doubt}; harness verify says why"
        )
    return Report(encoders=(), cells=tuple(checks))


def _checks(
    gate: Gate, claim: CardClaim, cells: Sequence[Cell], margin: float | None
) -> Iterator[CheckResult]:
    """The check of a claim against each seed of its task.

    A claim that may be of other pairs than those here is left out where it differs.
    """
    task_cells = [cell for cell in cells if cell.task == claim.task]
    methods = dict.fromkeys(cell.method for cell in task_cells)
    if len(methods) > 1:
        raise UsageError(
            f"{claim.task}: wanted one method to compare with the card, found "
            f"{', '.join(methods)}; name one: -m METHOD"
        )
    if not task_cells:
        name = f"{claim.task} {claim.statement.metric}"
        why = f"{gate.runs.path} holds no record of it; harness run -t {claim.task} measures"
        yield CheckResult(name=name, state=State.COULD_NOT_RUN, why=why)
    for cell in task_cells:
        check = _check(gate, claim, cell)
        if check is None:
            continue
        if margin is not None and check.before is not None:
            check = with_margin(check, margin)
        yield check


def _check(gate: Gate, claim: CardClaim, cell: Cell) -> CheckResult | None:
    """The check of a claim against one cell; None where their pairs may differ."""
    name = f"{cell}, {claim.statement.metric}"
    change = gate.change_since(cell)
    if change:
        return CheckResult(name=name, state=State.NOT_MEASURED_AGAIN, why=change)
    points = score_of(claim, gate.records[cell].scores)
    if points is None:
        why = f"its record has no {claim.score}; {MEASURE_AGAIN}"
        return CheckResult(name=name, state=State.COULD_NOT_RUN, why=why)
    checked = checked_claim(claim, points)
    if checked.verdict is None:
        return None
    difference = checked.verdict.difference or 0.0
    state = State.AGREES if checked.holds else State.UNKNOWN
    why = f"the card has {checked.reading}, measured {points:.4f} ({difference:+.4f})"
    return CheckResult(
        name=name,
        state=state,
        why=why,
        distance=abs(difference),
        before=float(checked.reading),
        after=points,
    )


def claims_to_compare(claims: Sequence[CardClaim]) -> tuple[CardClaim, ...]:
    """The claims on tasks that are here; of equal claims from several sources, the first."""
    claim_of_number: dict[tuple[object, ...], CardClaim] = {}
    for claim in claims:
        number = (claim.task, claim.score, claim.readings)
        claim_of_number.setdefault(number, claim)
    return tuple(claim for claim in claim_of_number.values() if not claim.why_not)
