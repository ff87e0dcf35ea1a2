"""A number of a model's card: what it is a score of, what was measured, and what explains it.

`harness.results.cards` says of which task and score a number is. `CardNumber.judged` and
the search for other choices return the number with what was found out about it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from harness.core.errors import AssetMissing
from harness.core.metrics.correlation import COSINE, SIMILARITIES, score_name
from harness.core.types import score_at
from harness.results.card_statements import Statement
from harness.results.verdict import CellState, Measured, Published, Verdict, verdict

# The similarity function of sentence-transformers' `spearman_max`: the best of four.
BEST_SIMILARITY = "best"

HOLDING_STATES = (CellState.EXACT, CellState.MATCH)

# Points by which two programs differ on one model, however many digits are printed:
# mteb sums the coordinates of Manhattan distances in float32.
SAME_DIGITS = 0.005


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
class CardNumber:
    """A number that a model's card or result file states, and what was measured for it.

    Attributes:
        statement: The number and its names, as the source has them.
        task: The task here that holds its pairs; empty where nothing here measures it.
        or_task: Another task that may hold its pairs, where its source does not say which;
            empty where it does.
        similarity: The similarity function: cosine, dot, euclidean, manhattan, or
            `best`.
        correlation: Spearman's or Pearson's.
        readings: The printed number in points as it may be meant: of a
            number between -1 and 1 the fraction first, then the percentage.
        doubt: Why its pairs may differ from the pairs here, so that another score does
            not refute it. Empty where its pairs are known.
        why_not: Why nothing here measures it, or why it was not judged; empty where it
            was.
        is_missing: Whether it could be judged with files that are not on this machine.
        measured: The score under the model's own modules, in points.
        verdict: The verdict on the difference; None where none was judged.
        explanation: The choices that give the stated digits, where it differs and they
            were looked for.
    """

    statement: Statement
    task: str = ""
    or_task: str = ""
    similarity: str = COSINE
    correlation: str = "spearman"
    readings: tuple[Published, ...] = ()
    doubt: str = ""
    why_not: str = ""
    is_missing: bool = False
    measured: float | None = None
    verdict: Verdict | None = None
    explanation: FoundChoices | None = None

    # The number as it is stated

    @property
    def score(self) -> str:
        """The name of its score in a record."""
        return score_name(self.similarity, self.correlation)

    def score_in(
        self, scores: Mapping[str, Any], aggregation: str = "all"
    ) -> float | None:
        """Its score among the scores of a record, in points; None for an undefined one.

        A number on the best of four similarity functions states the highest of their
        scores.
        """
        if self.similarity != BEST_SIMILARITY:
            return score_at(scores, (self.score, aggregation))
        defined_scores = []
        for similarity in (COSINE, *SIMILARITIES):
            name = score_name(similarity, self.correlation)
            score = score_at(scores, (name, aggregation))
            if score is not None:
                defined_scores.append(score)
        return max(defined_scores, default=None)

    def is_given_by(self, measured: float | None, tolerance: float) -> bool:
        """Whether a score has its printed digits, or differs by the tolerance at most.

        Args:
            measured: The score in points; None is undefined.
            tolerance: Points by which two runs of the same model may differ.
        """
        if measured is None:
            return False
        for reading in self.readings:
            difference = round(abs(measured - reading.points), 9)
            if difference <= max(tolerance, reading.half_unit):
                return True
        return False

    # The number beside a measured score

    def judged(self, measured: float | None) -> CardNumber:
        """The number with a verdict; one on doubtful pairs can hold, but not differ."""
        if measured is None:
            why_not = "the score is undefined: the similarities are constant"
            return replace(self, why_not=why_not)
        number = replace(self, measured=measured)
        judgement = verdict(number.reading, Measured((measured,)))
        if judgement.state not in HOLDING_STATES and self.doubt:
            return replace(number, why_not=f"{self.doubt}, and it differs")
        return replace(number, verdict=judgement)

    @property
    def reading(self) -> Published:
        """The stated number in points: the reading that is nearest to the measured score."""
        measured = self.measured
        if measured is None:
            return self.readings[0]
        return min(self.readings, key=lambda reading: abs(reading.points - measured))

    @property
    def holds(self) -> bool:
        """Whether it was judged and is reproduced."""
        return self.verdict is not None and self.verdict.state in HOLDING_STATES

    @property
    def differs(self) -> bool:
        """Whether it was judged and is not reproduced."""
        return self.verdict is not None and not self.holds

    @property
    def has_its_digits(self) -> bool:
        """Whether the verdict is that the measured score has the printed digits."""
        return self.verdict is not None and self.verdict.state is CellState.EXACT

    @property
    def is_fine(self) -> bool:
        """Whether it is printed to a hundredth of a point, which few other scores equal."""
        return self.reading.half_unit <= 0.005


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
    numbers: tuple[CardNumber, ...] = ()
    faults: tuple[str, ...] = ()
    weights: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    has_card: bool = True

    @property
    def checked(self) -> tuple[CardNumber, ...]:
        """The numbers that were measured and judged."""
        return tuple(number for number in self.numbers if number.verdict is not None)

    @property
    def exit_status(self) -> int:
        """1 if a number differs, 3 if something is missing or nothing was checked, else 0."""
        if any(number.differs for number in self.numbers):
            return 1
        is_missing = any(number.is_missing for number in self.numbers)
        if is_missing or self.faults or not self.checked:
            return AssetMissing.exit_status
        return 0
