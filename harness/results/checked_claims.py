"""Claims of a model's card, what was measured for each, and what explains a difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.core.errors import AssetMissing
from harness.core.metrics.similarity import COSINE, SIMILARITIES, score_name
from harness.core.scores import score_at
from harness.results.cards import BEST_SIMILARITY, CardClaim
from harness.results.verdict import CellState, Measured, Published, Verdict, verdict

HOLDING_STATES = (CellState.EXACT, CellState.MATCH)

# Points by which two programs differ on one model, however many digits are printed:
# mteb sums the coordinates of Manhattan distances in float32.
SAME_DIGITS = 0.005


def score_of(
    claim: CardClaim, scores: Mapping[str, Any], aggregation: str = "all"
) -> float | None:
    """The score that a claim states, among the scores of a record.

    A claim on the best of four similarity functions states the highest of their scores.
    """
    if claim.similarity != BEST_SIMILARITY:
        return score_at(scores, (claim.score, aggregation))
    defined_scores = []
    for similarity in (COSINE, *SIMILARITIES):
        name = score_name(similarity, claim.correlation)
        score = score_at(scores, (name, aggregation))
        if score is not None:
            defined_scores.append(score)
    return max(defined_scores, default=None)


def nearest_reading(claim: CardClaim, measured: float) -> str:
    """The reading of a claim that is nearest to a measured score."""
    return min(claim.readings, key=lambda reading: abs(float(reading) - measured))


def gives(claim: CardClaim, measured: float | None, tolerance: float) -> bool:
    """Whether a score has the printed digits of a claim, or differs by the tolerance at most.

    Args:
        claim: The claim.
        measured: The score in points; None is undefined.
        tolerance: Points by which two runs of the same model may differ.
    """
    if measured is None:
        return False
    for reading in claim.readings:
        published = Published(reading)
        difference = round(abs(measured - published.points), 9)
        if difference <= max(tolerance, published.half_unit):
            return True
    return False


@dataclass(frozen=True)
class FoundChoices:
    """The choices under which a score has a claim's digits, if a search found any.

    Attributes:
        words: A phrase for each choice that is not the claim's; none where no score has
            the digits.
        measured: The score under these choices, in points.
        tried: The number of scores that were compared with the claim.
        reason: Why no score was compared, or none has the digits.
        is_chance: Whether one of so many scores may have the digits by chance.
    """

    words: tuple[str, ...] = ()
    measured: float | None = None
    tried: int = 0
    reason: str = ""
    is_chance: bool = False


@dataclass(frozen=True)
class CheckedClaim:
    """A claim, and what was measured for it.

    Attributes:
        claim: The claim.
        measured: The score under the model's own modules, in points.
        verdict: The verdict on the difference; None where none was judged.
        reading: The claimed number in points, as it is compared.
        why_not: Why it was not checked; empty where it was.
        is_missing: Whether it could be checked with files that are not on this machine.
        explanation: The choices that give the claimed digits, where it differs and they
            were looked for.
    """

    claim: CardClaim
    measured: float | None = None
    verdict: Verdict | None = None
    reading: str = ""
    why_not: str = ""
    is_missing: bool = False
    explanation: FoundChoices | None = None

    @property
    def holds(self) -> bool:
        """Whether it was checked and is reproduced."""
        return self.verdict is not None and self.verdict.state in HOLDING_STATES

    @property
    def differs(self) -> bool:
        """Whether it was checked and is not reproduced."""
        return self.verdict is not None and not self.holds

    @property
    def has_its_digits(self) -> bool:
        """Whether the verdict is that the measured score has the printed digits."""
        return self.verdict is not None and self.verdict.state is CellState.EXACT

    @property
    def is_fine(self) -> bool:
        """Whether it is printed to a hundredth of a point, which few other scores equal."""
        return bool(self.reading) and Published(self.reading).half_unit <= 0.005


def checked_claim(claim: CardClaim, measured: float | None) -> CheckedClaim:
    """A claim judged by a measured score; a claim on doubtful pairs can hold, but not differ."""
    if measured is None:
        return CheckedClaim(
            claim, why_not="the score is undefined: the similarities are constant"
        )
    reading = nearest_reading(claim, measured)
    checked = CheckedClaim(
        claim,
        measured=measured,
        verdict=verdict(Published(reading), Measured((measured,))),
        reading=reading,
    )
    if checked.differs and claim.doubt:
        return replace(checked, verdict=None, why_not=f"{claim.doubt}, and it differs")
    return checked


@dataclass(frozen=True)
class Verification:
    """A model's claims, checked.

    Attributes:
        model: The model as it was named.
        method: The id under which it was measured.
        claims: Every claim.
        faults: A line for each file that could not be read.
        weights: The digest of its weights.
        data: The digest of the pairs of each task that was measured.
        has_card: Whether there is a card in its folder.
    """

    model: str
    method: str
    claims: tuple[CheckedClaim, ...] = ()
    faults: tuple[str, ...] = ()
    weights: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    has_card: bool = True

    @property
    def checked(self) -> tuple[CheckedClaim, ...]:
        """The claims that were measured and judged."""
        return tuple(checked for checked in self.claims if checked.verdict is not None)

    @property
    def exit_status(self) -> int:
        """1 if a claim differs, 3 if something is missing or nothing was checked, else 0."""
        if any(checked.differs for checked in self.claims):
            return 1
        is_missing = any(checked.is_missing for checked in self.claims)
        if is_missing or self.faults or not self.checked:
            return AssetMissing.exit_status
        return 0
