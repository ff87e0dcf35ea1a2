"""What a check says: the state of a cell or of an encoder, and why."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

# Inputs without which scores cannot be compared: texts and gold scores, labels, what is
# fitted on.
TEXT_INPUTS = {"data", "labels", "fit"}

# How to come by what a check lacks.
MEASURE_AGAIN = "harness run --gate measures again"
PROMOTE = "harness run --gate --update makes it"


class State(StrEnum):
    """The outcome of a check of a cell or an encoder."""

    AGREES = "agrees"
    OTHER_INPUT = "other input"
    FELL = "fell"  # further than its margin
    ENCODER = "encoder moved"
    SCORER = "scorer moved"
    UNKNOWN = "moved"  # which part is unknown, for lack of golden vectors
    NO_BASELINE = "no baseline"
    COULD_NOT_RUN = "could not run"
    NOT_MEASURED_AGAIN = (
        "not measured again"  # since its encoder, its plug-in or the code changed
    )

    @property
    def exit_status(self) -> int:
        """0 fine, 1 moved, 3 not measured (again) or nothing to compare with."""
        others = {
            State.AGREES: 0,
            State.NO_BASELINE: 3,
            State.COULD_NOT_RUN: 3,
            State.NOT_MEASURED_AGAIN: 3,
        }
        return others.get(self, 1)


@dataclass(frozen=True)
class PairMove:
    """One pair, counted from 1: its similarity and its rank (mid-ranks for ties), then and now."""

    pair: int
    committed: float
    measured: float
    committed_rank: float
    measured_rank: float
    texts: tuple[str, str] | None = None

    def __str__(self) -> str:
        texts = "" if self.texts is None else f"  {self.texts[0]!r} | {self.texts[1]!r}"
        return (
            f"pair {self.pair}: similarity {self.committed:.4f} -> {self.measured:.4f}, "
            f"rank {self.committed_rank:g} -> {self.measured_rank:g}{texts}"
        )


@dataclass(frozen=True, kw_only=True)
class Checked:
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
        notable: Whether the tolerance is one that needs a reason.
        pairs: The pairs whose rank moved most.
        counts: False for what is told but is no failure.
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
    counts: bool = True

    def __str__(self) -> str:
        why = self.why if self.counts else f"{self.why} (no failure)"
        return "\n    ".join(
            [f"{self.state}: {self.name}: {why}", *map(str, self.pairs)]
        )

    @property
    def moved(self) -> bool:
        """Whether it was compared and does not agree."""
        return self.state.exit_status == 1

    @property
    def comparable(self) -> bool:
        """Whether it is of the committed texts and gold."""
        return not TEXT_INPUTS.intersection(self.inputs)


@dataclass(frozen=True)
class Report:
    """The checks of encoders and of cells. Its exit status is 1 if anything moved, else 3 or 0."""

    encoders: tuple[Checked, ...]
    cells: tuple[Checked, ...]

    @property
    def exit_status(self) -> int:
        """The worst of those checks that count."""
        statuses = [
            check.state.exit_status
            for check in (*self.encoders, *self.cells)
            if check.counts
        ]
        return min(filter(None, statuses), default=0)
