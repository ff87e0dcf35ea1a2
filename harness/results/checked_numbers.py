"""Numbers of a model's card, what was measured for each, and what explains a difference."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.core.errors import AssetMissing
from harness.core.metrics.correlation import COSINE, SIMILARITIES, score_name
from harness.core.types import score_at
from harness.results.cards import BEST_SIMILARITY, CardNumber
from harness.results.verdict import CellState, Measured, Published, Verdict, verdict

HOLDING_STATES = (CellState.EXACT, CellState.MATCH)

# Points by which two programs differ on one model, however many digits are printed:
# mteb sums the coordinates of Manhattan distances in float32.
SAME_DIGITS = 0.005


def score_of(
    number: CardNumber, scores: Mapping[str, Any], aggregation: str = "all"
) -> float | None:
    """The score that a number states, among the scores of a record.

    A number on the best of four similarity functions states the highest of their scores.
    """
    if number.similarity != BEST_SIMILARITY:
        return score_at(scores, (number.score, aggregation))
    defined_scores = []
    for similarity in (COSINE, *SIMILARITIES):
        name = score_name(similarity, number.correlation)
        score = score_at(scores, (name, aggregation))
        if score is not None:
            defined_scores.append(score)
    return max(defined_scores, default=None)


def nearest_reading(number: CardNumber, measured: float) -> Published:
    """The reading of a number that is nearest to a measured score."""
    return min(number.readings, key=lambda reading: abs(reading.points - measured))


def gives(number: CardNumber, measured: float | None, tolerance: float) -> bool:
    """Whether a score has the printed digits of a number, or differs by the tolerance at most.

    Args:
        number: The number of a card.
        measured: The score in points; None is undefined.
        tolerance: Points by which two runs of the same model may differ.
    """
    if measured is None:
        return False
    for reading in number.readings:
        difference = round(abs(measured - reading.points), 9)
        if difference <= max(tolerance, reading.half_unit):
            return True
    return False


@dataclass(frozen=True)
class FoundChoices:
    """The choices under which a score has a number's digits, if a search found any.

    Attributes:
        words: A phrase for each choice that is not the number's; none where no score has
            the digits.
        measured: The score under these choices, in points.
        tried: How many scores were compared with the number.
        reason: Why no score was compared, or none has the digits.
        is_chance: Whether one of so many scores may have the digits by chance.
    """

    words: tuple[str, ...] = ()
    measured: float | None = None
    tried: int = 0
    reason: str = ""
    is_chance: bool = False


@dataclass(frozen=True)
class CheckedNumber:
    """A number, and what was measured for it.

    Attributes:
        number: The number of the card.
        measured: The score under the model's own modules, in points.
        verdict: The verdict on the difference; None where none was judged.
        reading: The stated number in points, as it is compared.
        why_not: Why it was not checked; empty where it was.
        is_missing: Whether it could be checked with files that are not on this machine.
        explanation: The choices that give the stated digits, where it differs and they
            were looked for.
    """

    number: CardNumber
    measured: float | None = None
    verdict: Verdict | None = None
    reading: Published | None = None
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
        return self.reading is not None and self.reading.half_unit <= 0.005


def checked_number(number: CardNumber, measured: float | None) -> CheckedNumber:
    """A number judged by a measured score; a number on doubtful pairs can hold, but not differ."""
    if measured is None:
        return CheckedNumber(
            number, why_not="the score is undefined: the similarities are constant"
        )
    reading = nearest_reading(number, measured)
    checked = CheckedNumber(
        number,
        measured=measured,
        verdict=verdict(reading, Measured((measured,))),
        reading=reading,
    )
    if checked.differs and number.doubt:
        return replace(checked, verdict=None, why_not=f"{number.doubt}, and it differs")
    return checked


@dataclass(frozen=True)
class Verification:
    """A model's numbers, checked.

    Attributes:
        model: The model as it was named.
        method: The id under which it was measured.
        numbers: Every number.
        faults: A line for each file that could not be read.
        weights: The digest of its weights.
        data: The digest of the pairs of each task that was measured.
        has_card: Whether there is a card in its folder.
    """

    model: str
    method: str
    numbers: tuple[CheckedNumber, ...] = ()
    faults: tuple[str, ...] = ()
    weights: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    has_card: bool = True

    @property
    def checked(self) -> tuple[CheckedNumber, ...]:
        """The numbers that were measured and judged."""
        return tuple(checked for checked in self.numbers if checked.verdict is not None)

    @property
    def exit_status(self) -> int:
        """1 if a number differs, 3 if something is missing or nothing was checked, else 0."""
        if any(checked.differs for checked in self.numbers):
            return 1
        is_missing = any(checked.is_missing for checked in self.numbers)
        if is_missing or self.faults or not self.checked:
            return AssetMissing.exit_status
        return 0
