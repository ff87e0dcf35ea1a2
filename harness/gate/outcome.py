"""The result of a check: a state for each cell and encoder, the reason, and an exit status."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# The inputs that have to be the same for scores to be compared: texts with gold scores,
# labels, and the fit corpus.
TEXT_INPUTS = {"data", "labels", "fit"}

# The ends of messages: the command that makes what is missing.
MEASURE_AGAIN = "harness run --gate measures again"
PROMOTE = "harness run --gate --update makes it"


class State(StrEnum):
    """The outcome of a check of a cell or an encoder."""

    AGREES = "agrees"
    OTHER_INPUT = "other input"
    ENCODER = "encoder moved"
    SCORER = "scorer moved"
    UNKNOWN = "moved"  # without golden vectors it is not known which part
    NO_BASELINE = "no baseline"
    COULD_NOT_RUN = "could not run"
    # The code or its plug-in changed after it was measured.
    NOT_MEASURED_AGAIN = "not measured again"

    @property
    def exit_status(self) -> int:
        """0: it agrees; 1: it moved; 3: it was not measured, or there is no baseline."""
        statuses = {
            State.AGREES: 0,
            State.NO_BASELINE: 3,
            State.COULD_NOT_RUN: 3,
            State.NOT_MEASURED_AGAIN: 3,
        }
        return statuses.get(self, 1)


@dataclass(frozen=True)
class PairMove:
    """A pair whose rank moved.

    Attributes:
        pair: Its number in the data set, from 1.
        committed: Its committed similarity.
        measured: Its similarity in the run.
        committed_rank: Its rank by committed similarity; 1 is the least similar, and ties
            have their mean rank.
        measured_rank: Its rank in the run.
        texts: Its sentences, where they are at hand.
    """

    pair: int
    committed: float
    measured: float
    committed_rank: float
    measured_rank: float
    texts: tuple[str, str] | None = None

    def __str__(self) -> str:
        text = (
            f"pair {self.pair}: similarity {self.committed:.4f} -> {self.measured:.4f}, "
            f"rank {self.committed_rank:g} -> {self.measured_rank:g}"
        )
        if self.texts is not None:
            first, second = self.texts
            text += f"  {first!r} | {second!r}"
        return text


@dataclass(frozen=True, kw_only=True)
class CheckResult:
    """The check of one cell, or of one encoder's golden vectors.

    Attributes:
        name: The cell or the encoder.
        state: Whether it agrees, and if not, what moved or is missing.
        why: The distance, or the reason of the state.
        distance: How far it is from the committed one, in points, or for an encoder the
            largest difference of a coordinate; None where there is nothing to compare.
        tolerance: How far it may be, in the same unit.
        inputs: The inputs that are not the committed ones.
        before: The committed main score of the same seed, or else the mean over seeds;
            None where it is undefined.
        after: A cell's main score in the run.
        notable: Whether it has another tolerance than the platform's; it is then
            reported even where it agrees.
        pairs: The pairs whose rank moved most.
    """

    name: str
    state: State
    why: str
    distance: float | None = None
    tolerance: float | None = None
    inputs: tuple[str, ...] = ()
    before: float | None = None
    after: float | None = None
    notable: bool = False
    pairs: tuple[PairMove, ...] = ()

    def __str__(self) -> str:
        lines = [f"{self.state}: {self.name}: {self.why}", *map(str, self.pairs)]
        return "\n    ".join(lines)

    @property
    def moved(self) -> bool:
        """Whether it was compared and does not agree."""
        return self.state.exit_status == 1

    @property
    def comparable(self) -> bool:
        """Whether its texts, gold scores and fit corpus are the committed ones."""
        return not TEXT_INPUTS.intersection(self.inputs)


@dataclass(frozen=True)
class Report:
    """The checks of encoders and of cells."""

    encoders: tuple[CheckResult, ...]
    cells: tuple[CheckResult, ...]

    @property
    def exit_status(self) -> int:
        """1 if something moved, else 3 if something was not measured, else 0."""
        statuses = [check.state.exit_status for check in (*self.encoders, *self.cells)]
        failing_statuses = [status for status in statuses if status != 0]
        return min(failing_statuses, default=0)
