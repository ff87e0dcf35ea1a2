"""A cell against its committed record: how far its scores moved, and which part moved them.

With a margin (`harness check --fail-below`) a cell fails if its score is lower than the
committed one by more, whatever made it so. Other data fail all the same: their scores
cannot be compared.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.core.arrays import Float
from harness.core.types import Record
from harness.gate.outcome import PROMOTE, Checked, PairMove, State
from harness.gate.rules import Override, Rules
from harness.results.index import Results, main_score, value
from harness.results.records import SAME_PLATFORM, cell_of, largest_move_of_scores
from harness.results.verdict import prediction_half_width

# In points. Another processor or another build of the libraries sums in another order.
TOLERANCE_ACROSS_PLATFORMS = 0.05

# Two environments that agree in these are one platform.
PLATFORM_FACTS = ("system", "machine", "processor", "threads", "packages", "device")

# The digests of a record that are of no input of its cell.
DIGESTS_OF_PROGRAM = {"code", "encoding"}

PAIRS_SHOWN = 10  # of those whose rank moved


def platform(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an environment that can move a number."""
    return {name: environment.get(name) for name in PLATFORM_FACTS}


# A record against committed ones


@dataclass(frozen=True)
class Move:
    """How far a record is from the committed ones and how far it may be, both in points.

    `points` are infinite where a score is on one side only or undefined; `note` says
    why the tolerance is not that of the platform.
    """

    points: float
    tolerance: float
    note: str = ""

    @property
    def is_lost(self) -> bool:
        """Whether there is no number to compare."""
        return math.isinf(self.points)

    @property
    def is_allowed(self) -> bool:
        """Whether it is within the tolerance."""
        return within(self.points, self.tolerance)

    def __str__(self) -> str:
        if self.is_lost:
            return "a score is on one side only, or is undefined there"
        note = f" ({self.note})" if self.note else ""
        return f"{self.points:.4f} points, tolerance {self.tolerance:.4g}{note}"


def compare_record(record: Record, committed: Results, rules: Rules) -> Checked:
    """One record against the committed ones of its method and task, one a seed.

    Against its own seed in every score; where that has moved and there are others, its
    main score (one number, so that 95 % means 95 %) against the interval for one more
    run.
    """
    name = str(cell_of(record))
    seeds = committed.records(record.method, record.task)
    same_seed = next((other for other in seeds if other.seed == record.seed), None)
    if same_seed is None and len(seeds) < 2:
        return Checked(
            name=name,
            state=State.NO_BASELINE,
            why=f"there is no committed record; {PROMOTE}",
        )
    override = rules.override_of_cell.get((record.method, record.task))
    inputs = other_inputs(seeds, record)
    move = _move_from_seed(record, same_seed, same_seed or seeds[0], override)
    is_final = same_seed is not None and (
        inputs
        or move.is_lost
        or move.is_allowed
        or override is not None
        or len(seeds) == 1
    )
    if not inputs and not is_final:
        move = _move_from_seeds(record, seeds, move.tolerance)

    if inputs:
        state, why = State.OTHER_INPUT, f"other {', '.join(inputs)}"
    else:
        state, why = State.AGREES if move.is_allowed else State.UNKNOWN, str(move)
    before, after = _main_score_before(seeds, same_seed), main_score(record.scores)[1]
    if state is not State.AGREES:
        why += f"; {before_and_after(before, after)}"
    return Checked(
        name=name,
        state=state,
        why=why,
        distance=None if move.is_lost else move.points,
        tolerance=move.tolerance,
        inputs=inputs,
        before=before,
        after=after,
        notable=bool(move.note),
    )


def _move_from_seed(
    record: Record,
    same_seed: Record | None,
    committed: Record,
    override: Override | None,
) -> Move:
    """The largest move of a score from the committed record of the same seed."""
    points = (
        math.inf if same_seed is None else largest_move_of_scores(same_seed, record)
    )
    if override is not None:
        return Move(points, override.tolerance, note=override.reason)
    same_platform = platform(committed.environment) == platform(record.environment)
    return Move(points, SAME_PLATFORM if same_platform else TOLERANCE_ACROSS_PLATFORMS)


def _move_from_seeds(record: Record, seeds: Sequence[Record], tolerance: float) -> Move:
    """The move of the main score from the mean over seeds; within the interval for one more run."""
    score = main_score(record.scores)[1]
    committed = value([main_score(other.scores)[1] for other in seeds])
    if score is None or committed.mean is None or committed.sd is None:
        return Move(math.inf, tolerance)
    half_width = prediction_half_width(committed.sd, committed.seeds)
    note = f"from the mean of {committed.seeds} committed seeds"
    if half_width >= tolerance:
        note += "; their interval for one more run"
    return Move(abs(score - committed.mean), max(tolerance, half_width), note)


def _main_score_before(
    seeds: Sequence[Record], same_seed: Record | None
) -> float | None:
    """The committed main score of the same seed, or else the mean over the seeds."""
    if same_seed is not None:
        return main_score(same_seed.scores)[1]
    return value([main_score(record.scores)[1] for record in seeds]).mean


def before_and_after(before: float | None, after: float | None) -> str:
    """The main score before and after, in words."""
    return " -> ".join(
        "undefined" if s is None else f"{s:.4f}" for s in (before, after)
    )


def within(points: float, tolerance: float) -> bool:
    """Rounded, so that tolerances are decimal numbers; what is no number is never within."""
    return round(points, 9) <= tolerance


def other_inputs(seeds: Sequence[Record], record: Record) -> tuple[str, ...]:
    """The inputs that are not the committed ones: data, weights, tokenizer, configuration.

    What differs between committed seeds is what training made of each, and no input.
    """
    names = {*record.digests}.union(
        *(other.digests for other in seeds)
    ) - DIGESTS_OF_PROGRAM
    changed = []
    for name in sorted(names):
        committed = {other.digests.get(name) for other in seeds}
        if len(committed) == 1 and committed != {record.digests.get(name)}:
            changed.append(name)
    return tuple(changed)


# Which part moved


def moved_part(cell: Checked, encoder: Checked | None) -> State:
    """Which part moved a cell, if it moved: its input, else the encoder, else what comes after.

    Other weights, tokenizer or modules are the encoder's own where its golden vectors
    moved, too.
    """
    encoder_state = encoder.state if encoder else State.UNKNOWN
    if (
        cell.state is State.OTHER_INPUT
        and encoder_state is State.ENCODER
        and cell.comparable
    ):
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


def most_moved(
    committed: Float[np.ndarray, " P"],
    measured: Float[np.ndarray, " P"],
    count: int = PAIRS_SHOWN,
) -> tuple[PairMove, ...]:
    """The pairs whose rank moved, at most `count`, most moved first."""
    from scipy.stats import rankdata

    committed_ranks, measured_ranks = rankdata(committed), rankdata(measured)
    moves = np.abs(measured_ranks - committed_ranks)
    order = np.argsort(-moves, kind="stable")[:count]
    return tuple(
        PairMove(
            pair=int(row) + 1,
            committed=float(committed[row]),
            measured=float(measured[row]),
            committed_rank=float(committed_ranks[row]),
            measured_rank=float(measured_ranks[row]),
        )
        for row in order
        if moves[row] > 0
    )
