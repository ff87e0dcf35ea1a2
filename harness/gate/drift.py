"""A cell against its committed record: tolerances, and the rules of a results folder.

With a margin (`harness check --fail-below`) a cell fails if its score is lower than the committed
one by more, whatever made it so. Other data fail all the same: their scores cannot be compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Any

import numpy as np

from harness.core.arrays import Float
from harness.core.toml import read_typed
from harness.core.types import Record
from harness.evaluation.select import MOST_SEEDS
from harness.results.index import Results, main_score, value
from harness.results.layout import GATE
from harness.results.records import SAME_PLATFORM, Cell, cell_of, largest_move_of_scores
from harness.results.verdict import prediction_half_width

# In points. Another processor or another build of the libraries sums in another order.
ACROSS_PLATFORMS = 0.05

# Two environments that agree in these are one platform.
PLATFORM = ("system", "machine", "processor", "threads", "packages", "device")

NO_INPUT = {"code", "encoding"}  # of a record's digests, those that say nothing of what went in
TEXTS = {"data", "labels", "fit"}  # inputs without which scores cannot be compared

PROMOTE = "harness run --gate --update makes it"


def platform(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an environment that can move a number."""
    return {name: environment.get(name) for name in PLATFORM}


# The rules of a results folder


@dataclass(frozen=True)
class QuickCell:
    """A method on a task in the quick set, with seeds 0 to `seeds` - 1."""

    method: str
    task: str
    seeds: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise ValueError(f"wanted 1 to {MOST_SEEDS} seeds, found {self.seeds}")


@dataclass(frozen=True)
class Override:
    """A cell's own tolerance, in points and on every platform, and why it has one."""

    method: str
    task: str
    tolerance: float
    reason: str

    def __post_init__(self) -> None:
        if not 0 < self.tolerance < math.inf:
            raise ValueError(f"wanted a tolerance above 0, found {self.tolerance}")
        if not self.reason.strip():
            raise ValueError(f"the override of {self.method} on {self.task} has no reason")


@dataclass(frozen=True)
class Rules:
    """The content of `gate.toml`: the quick set, and overrides, as results/gate.toml shows them."""

    quick: tuple[QuickCell, ...] = ()
    overrides: tuple[Override, ...] = ()

    def __post_init__(self) -> None:
        if len({(row.method, row.task) for row in self.quick}) < len(self.quick):
            raise ValueError("the set quick names a cell twice")
        if len(self.by_cell) < len(self.overrides):
            raise ValueError("a method on a task has two overrides")

    @property
    def quick_cells(self) -> tuple[Cell, ...]:
        """The cells of the quick set, one a seed; none where it is not named."""
        return tuple(Cell(row.method, row.task, s) for row in self.quick for s in range(row.seeds))

    @property
    def by_cell(self) -> dict[tuple[str, str], Override]:
        """The overrides by method and task."""
        return {(row.method, row.task): row for row in self.overrides}


def read_rules(results: Path) -> Rules:
    """The rules of a results folder; none without a file. Raises DataError naming the file."""
    path = results / GATE
    return read_typed(Rules, path) if path.is_file() else Rules()


# The check of a cell


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
    NOT_MEASURED_AGAIN = "not measured again"  # since its encoder, its plug-in or the code changed

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


@dataclass(frozen=True)
class Checked:
    """The check of one cell, or of one encoder's golden vectors.

    `distance` and `tolerance` are in points, of a coordinate for an encoder; None where there is
    nothing to compare. `inputs` are those that are not the committed ones. `before` and `after` are
    a cell's main scores where they are defined: before, that of the same seed, else the mean of the
    committed ones. `notable` agreement has a tolerance of its own; `pairs` moved most in rank. With
    `counts` false it is no failure.
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
        return "\n    ".join([f"{self.state}: {self.name}: {why}", *map(str, self.pairs)])

    @property
    def moved(self) -> bool:
        """Whether it was compared and does not agree."""
        return self.state.exit_status == 1

    @property
    def comparable(self) -> bool:
        """Whether it is of the committed texts and gold."""
        return not TEXTS.intersection(self.inputs)


def compare_record(record: Record, committed: Results, rules: Rules) -> Checked:
    """One record against the committed ones of its method and task, one a seed.

    Against its own seed in every score; where that has moved and there are others, its main score
    (one number, so that 95 % means 95 %) against the interval for one more run.
    """
    seeds = committed.records(record.method, record.task)
    override = rules.by_cell.get((record.method, record.task))
    name = str(cell_of(record))
    same_seed = next((old for old in seeds if old.seed == record.seed), None)
    if same_seed is None and len(seeds) < 2:
        return Checked(name, State.NO_BASELINE, f"there is no committed record; {PROMOTE}")
    inputs, after = other_inputs(seeds, record), main_score(record.scores)[1]
    over_seeds = value([main_score(old.scores)[1] for old in seeds])
    if same_seed is None:
        before, points = over_seeds.mean, math.inf
    else:
        before = main_score(same_seed.scores)[1]
        points = largest_move_of_scores(same_seed, record)
    tolerance, note = ACROSS_PLATFORMS, ""
    if override is not None:
        tolerance, note = override.tolerance, override.reason
    elif platform((same_seed or seeds[0]).environment) == platform(record.environment):
        tolerance = SAME_PLATFORM

    lost = same_seed is not None and math.isinf(points)
    held = override is not None and same_seed is not None
    if len(seeds) > 1 and not (inputs or lost or held or within(points, tolerance)):
        points, note = math.inf, ""
        if after is not None and over_seeds.mean is not None and over_seeds.sd is not None:
            points = abs(after - over_seeds.mean)
            half_width = prediction_half_width(over_seeds.sd, over_seeds.seeds)
            note = f"from the mean of {over_seeds.seeds} committed seeds"
            note += "; their interval for one more run" if half_width >= tolerance else ""
            tolerance = max(tolerance, half_width)

    state = State.AGREES if within(points, tolerance) else State.UNKNOWN
    why = f"{points:.4f} points, tolerance {tolerance:.4g}" + (f" ({note})" if note else "")
    if inputs:
        state, why = State.OTHER_INPUT, f"other {', '.join(inputs)}"
    elif math.isinf(points):
        why = "a score stands on one side only, or is undefined there"
    if state is not State.AGREES:
        why += f"; {before_and_after(before, after)}"
    distance = points if math.isfinite(points) else None
    return Checked(name, state, why, distance, tolerance, inputs, before, after, bool(note))


def before_and_after(before: float | None, after: float | None) -> str:
    """The main score before and after, in words."""
    return " -> ".join("undefined" if s is None else f"{s:.4f}" for s in (before, after))


def within(points: float, tolerance: float) -> bool:
    """Rounded, so that tolerances are decimal numbers; what is no number is never within."""
    return round(points, 9) <= tolerance


def other_inputs(seeds: Sequence[Record], new: Record) -> tuple[str, ...]:
    """The inputs that are not the committed ones: data, weights, tokenizer, configuration.

    What differs between committed seeds is what training made of each, and no input.
    """
    names = set(new.digests).union(*(old.digests for old in seeds)) - NO_INPUT
    fixed = [name for name in names if len({old.digests.get(name) for old in seeds}) == 1]
    return tuple(sorted(n for n in fixed if seeds[0].digests.get(n) != new.digests.get(n)))


def moved_part(cell: Checked, encoder: Checked | None) -> State:
    """Which part moved a cell, if it moved: its input, else the encoder, else what comes after.

    Other weights, tokenizer or modules are the encoder's own where its golden vectors moved, too.
    """
    encoder_state = encoder.state if encoder else State.UNKNOWN
    if cell.state is State.OTHER_INPUT and encoder_state is State.ENCODER and cell.comparable:
        return State.ENCODER
    if cell.state is State.UNKNOWN:
        parts = {State.ENCODER: State.ENCODER, State.AGREES: State.SCORER}
        return parts.get(encoder_state, State.UNKNOWN)
    return cell.state


def with_margin(cell: Checked, margin: float) -> Checked:
    """The check of a cell that may move as it likes, but for a fall beyond its margin."""
    if cell.state is State.NO_BASELINE:
        return cell
    fall = math.inf
    if cell.before is not None and cell.after is not None:
        fall = round(cell.before - cell.after, 9)
    state = State.FELL if fall > margin else State.AGREES
    if not cell.comparable:
        state = State.OTHER_INPUT
    why = f"{before_and_after(cell.before, cell.after)}, may fall by {margin:g}"
    return replace(cell, state=state, why=why, tolerance=margin, notable=False)


# Pairs

MOST_PAIRS = 10


def most_moved(
    committed: Float[np.ndarray, " P"], measured: Float[np.ndarray, " P"], count: int = MOST_PAIRS
) -> tuple[PairMove, ...]:
    """The pairs whose rank moved, at most `count`, most moved first."""
    from scipy.stats import rankdata

    old, new = rankdata(committed), rankdata(measured)
    moves = np.abs(new - old)
    order = [i for i in np.argsort(-moves, kind="stable")[:count] if moves[i] > 0]
    return tuple(
        PairMove(int(i) + 1, float(committed[i]), float(measured[i]), float(old[i]), float(new[i]))
        for i in order
    )
