"""All that is known of the numbers of a model's card: measured, and read by arithmetic."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from harness.conclusions.card_arithmetic import CardReading
from harness.conclusions.cards import BatchEffect, CardNumber
from harness.conclusions.causes import CERTAINTIES, Cause
from harness.core.errors import AssetMissing


@dataclass(frozen=True)
class Verification:
    """A model's numbers, checked.

    Attributes:
        model: The model as it was named.
        method: The id under which it was measured.
        numbers: Every number.
        readings: What arithmetic says of the numbers, and of measured scores beside them.
        faults: A line for each file that could not be read.
        weights: The digest of its weights.
        data: The digest of the pairs of each task that was measured.
        causes: The known causes of other numbers that have versions.
        batch_effect: How its vectors depend on the batch; None if they do not, or if the
            encoder is run here, where they do not.
    """

    model: str
    method: str
    numbers: Sequence[CardNumber] = ()
    readings: Sequence[CardReading] = ()
    faults: Sequence[str] = ()
    weights: str = ""
    data: Mapping[str, str] = field(default_factory=dict)
    causes: Sequence[Cause] = ()
    batch_effect: BatchEffect | None = None

    @property
    def made_with(self) -> list[Mapping[str, str]]:
        """The versions of packages with which its numbers were made, as far as they are stated."""
        different = {
            tuple(sorted(number.statement.versions.items())) for number in self.numbers
        }
        return [dict(versions) for versions in sorted(different) if versions]

    @property
    def causes_of_versions(self) -> list[Cause]:
        """The causes that the versions have with which a number was made that differs.

        The number has to differ by what the cause may do.
        """
        found = {}
        for number in self.numbers:
            if number.verdict is None or not number.differs:
                continue
            difference = number.verdict.difference or 0.0  # measured minus stated
            for cause in self.causes:
                lowest, highest = cause.gap
                is_within = lowest <= -difference <= highest
                if is_within and cause.is_of_versions(number.statement.versions):
                    found[cause.id] = cause
        return [*found.values()]

    @property
    def faults_of_copying(self) -> list[CardReading]:
        """The readings that say what is wrong or whose numbers these are, the surest first."""
        faults = [reading for reading in self.readings if reading.is_fault]
        return sorted(faults, key=lambda each: CERTAINTIES.index(each.certainty))

    @property
    def checked(self) -> list[CardNumber]:
        """The numbers that were measured and judged."""
        return [number for number in self.numbers if number.verdict is not None]

    @property
    def exit_status(self) -> int:
        """1 if a number differs or is none, 3 if anything is missing or unchecked, else 0.

        A value that is no correlation or another model's is a fault of the card, as a number
        that differs. 3 is the status where no number was checked, or data, model or card
        are missing.
        """
        is_faulty = any(
            number.differs or number.is_no_correlation or number.is_of_other_model
            for number in self.numbers
        )
        if is_faulty:
            return 1
        is_missing = any(number.is_missing for number in self.numbers)
        if is_missing or self.faults or not self.checked:
            return AssetMissing.exit_status
        return 0
