"""A run against the numbers of a model's card: the card is the baseline.

For a model that replaces another, or that is trained anew: the run is measured by
`harness run` as any is, and each number of the card is compared with the record of its
task.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.core.errors import AssetMissing, UsageError
from harness.gate.check import Gate
from harness.gate.drift import with_margin
from harness.gate.outcome import MEASURE_AGAIN, Checked, Report, State
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
        claims: The claims that are of tasks here; of each task, one method of the run
            is compared.
        cells: The cells of the run that are compared.
        margin: With a margin, in points, a number may move as it likes, but for a fall
            beyond it.

    Raises:
        UsageError: The cells of a task are of several methods.
        AssetMissing: No number is compared: all differ, and may be of other pairs than
            those here.
    """
    checks = [
        check for claim in claims for check in _checks(gate, claim, cells, margin)
    ]
    if claims and not checks:
        raise AssetMissing(
            f"wanted numbers that a run can be compared with, found {len(claims)} that differ and "
            f"may be of other pairs: {claims[0].doubt}; harness verify says why"
        )
    return Report(encoders=(), cells=tuple(checks))


def _checks(
    gate: Gate, claim: CardClaim, cells: Sequence[Cell], margin: float | None
) -> Iterator[Checked]:
    """The check of a claim against each seed of its task; of doubtful pairs only if it holds."""
    found = [cell for cell in cells if cell.task == claim.task]
    methods = {cell.method: None for cell in found}
    if len(methods) > 1:
        raise UsageError(
            f"{claim.task}: wanted one method to compare with the card, found "
            f"{', '.join(methods)}; name one: -m METHOD"
        )
    if not found:
        name = f"{claim.task} {claim.statement.metric}"
        why = f"{gate.runs.path} holds no record of it; harness run -t {claim.task} measures"
        yield Checked(name=name, state=State.COULD_NOT_RUN, why=why)
    for cell in found:
        check = _check(gate, claim, cell)
        if check is not None:
            has_margin = margin is not None and check.before is not None
            yield with_margin(check, margin or 0.0) if has_margin else check


def _check(gate: Gate, claim: CardClaim, cell: Cell) -> Checked | None:
    name = f"{cell}, {claim.statement.metric}"
    if change := gate.change_since(cell):
        return Checked(name=name, state=State.NOT_MEASURED_AGAIN, why=change)
    points = score_of(claim, gate.records[cell].scores)
    if points is None:
        why = f"its record has no {claim.score}; {MEASURE_AGAIN}"
        return Checked(name=name, state=State.COULD_NOT_RUN, why=why)
    checked = checked_claim(claim, points)
    if checked.verdict is None:
        return None
    difference = checked.verdict.difference or 0.0
    state = State.AGREES if checked.holds else State.UNKNOWN
    why = f"the card has {checked.reading}, measured {points:.4f} ({difference:+.4f})"
    return Checked(
        name=name,
        state=state,
        why=why,
        distance=abs(difference),
        before=float(checked.reading),
        after=points,
    )


def claims_to_compare(claims: Sequence[CardClaim]) -> tuple[CardClaim, ...]:
    """The claims on tasks that are here; of equal ones from several sources, the first."""
    named = {
        (claim.task, claim.score, claim.readings): claim for claim in reversed(claims)
    }
    kept = {id(claim) for claim in named.values()}
    return tuple(claim for claim in claims if not claim.why_not and id(claim) in kept)
