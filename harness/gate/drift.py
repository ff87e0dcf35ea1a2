"""A cell against its committed records: how far its scores moved, and which part moved them.

A record is compared with the committed record of its seed, score by score. If a score
moved by more than the tolerance and there are other committed seeds, its main score is
compared with their mean instead: it may be as far from it as one more run would be.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.core.arrays import Float
from harness.core.types import Record
from harness.gate.outcome import PROMOTE, CheckResult, PairMove, State
from harness.gate.rules import Override, Rules
from harness.results.index import Results, main_score, value
from harness.results.records import SAME_PLATFORM, cell_of, largest_move_of_scores
from harness.results.verdict import prediction_half_width

# In points: another processor or another build of the libraries sums in another order.
TOLERANCE_ACROSS_PLATFORMS = 0.05

# Two environments that agree in these facts are one platform.
PLATFORM_FACTS = ("system", "machine", "processor", "threads", "packages", "device")

# The digests of a record that are not digests of inputs.
DIGESTS_OF_PROGRAM = {"code", "encoding"}

PAIRS_SHOWN = 10  # whose rank moved most


def platform(environment: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an environment that can move a number."""
    return {name: environment.get(name) for name in PLATFORM_FACTS}


# A record against committed records


@dataclass(frozen=True)
class Move:
    """How far a record is from the committed records, and how far it may be.

    Attributes:
        points: How far, in points; infinite where one side has no score.
        tolerance: How far it may be, in points.
        note: Why it has another tolerance than the platform's; empty where it has not.
    """

    points: float
    tolerance: float
    note: str = ""

    @property
    def is_lost(self) -> bool:
        """Whether a score that one side has is missing or undefined on the other."""
        return math.isinf(self.points)

    @property
    def is_allowed(self) -> bool:
        """Whether it is within the tolerance."""
        return is_within(self.points, self.tolerance)

    def __str__(self) -> str:
        if self.is_lost:
            return "a score is on one side only, or is undefined there"
        note = f" ({self.note})" if self.note else ""
        return f"{self.points:.4f} points, tolerance {self.tolerance:.4g}{note}"


def compare_record(record: Record, committed: Results, rules: Rules) -> CheckResult:
    """One record against the committed records of its method and task, one a seed.

    Every score is compared with the score of the same seed. Where one moved and there
    are other seeds, the main score is compared with the interval for one more run: it is
    one number, so that 95 % of the runs are within a 95 % interval.

    Args:
        record: A record of the run.
        committed: All committed records.
        rules: The tolerances of single cells.
    """
    name = str(cell_of(record))
    committed_records = committed.records(record.method, record.task)
    same_seed = _record_of_seed(committed_records, record.seed)
    if same_seed is None and len(committed_records) < 2:
        return CheckResult(
            name=name,
            state=State.NO_BASELINE,
            why=f"there is no committed record; {PROMOTE}",
        )

    override = rules.override_of_cell.get((record.method, record.task))
    if override is None:
        tolerance = _platform_tolerance(record, same_seed or committed_records[0])
        move = _move_from_same_seed(record, same_seed, tolerance)
    else:
        move = _move_from_same_seed(record, same_seed, override.tolerance)
        move = replace(move, note=override.reason)
    inputs = changed_inputs(committed_records, record)
    if not inputs and _needs_other_seeds(
        move, same_seed, len(committed_records), override
    ):
        move = _move_from_mean(record, committed_records, move.tolerance)

    before = _committed_main_score(committed_records, same_seed)
    after = _main_score(record)
    state = State.AGREES if move.is_allowed else State.UNKNOWN
    why = str(move)
    if inputs:
        state = State.OTHER_INPUT
        why = f"other {', '.join(inputs)}"
    if state is not State.AGREES:
        why += f"; {before_and_after(before, after)}"
    return CheckResult(
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


def _record_of_seed(records: Sequence[Record], seed: int) -> Record | None:
    for record in records:
        if record.seed == seed:
            return record
    return None


def _platform_tolerance(record: Record, committed_record: Record) -> float:
    """How far a record may be from a committed one, in points, by their platforms."""
    if platform(committed_record.environment) == platform(record.environment):
        return SAME_PLATFORM
    return TOLERANCE_ACROSS_PLATFORMS


def _move_from_same_seed(
    record: Record, same_seed: Record | None, tolerance: float
) -> Move:
    """The largest move of a score from the committed record of the same seed."""
    points = math.inf
    if same_seed is not None:
        points = largest_move_of_scores(same_seed, record)
    return Move(points, tolerance)


def _needs_other_seeds(
    move: Move,
    same_seed: Record | None,
    committed_seeds: int,
    override: Override | None,
) -> bool:
    """Whether a record is to be compared with the mean over seeds.

    That is so where its own seed is not committed, or its scores moved too far from that
    seed, no override says how far they may, and there are other seeds.

    Args:
        move: The move from the same seed.
        same_seed: The committed record of the same seed; None where there is none.
        committed_seeds: How many seeds are committed.
        override: The override of the cell, if it has one.
    """
    if same_seed is None:
        return True
    moved_too_far = not move.is_lost and not move.is_allowed
    return moved_too_far and override is None and committed_seeds > 1


def _move_from_mean(
    record: Record, committed_records: Sequence[Record], tolerance: float
) -> Move:
    """The move of the main score from the mean over the committed seeds.

    It may be as far as the prediction interval for one more run, or the tolerance.
    """
    score = _main_score(record)
    scores_of_seeds = [_main_score(committed) for committed in committed_records]
    committed_score = value(scores_of_seeds)
    mean, deviation = committed_score.mean, committed_score.sd
    if score is None or mean is None or deviation is None:
        return Move(math.inf, tolerance)
    half_width = prediction_half_width(deviation, committed_score.seeds)
    note = f"from the mean of {committed_score.seeds} committed seeds"
    if half_width >= tolerance:
        note += "; their interval for one more run"
    return Move(
        points=abs(score - mean), tolerance=max(tolerance, half_width), note=note
    )


def _committed_main_score(
    committed_records: Sequence[Record], same_seed: Record | None
) -> float | None:
    """The committed main score of the same seed, or else the mean over the seeds."""
    if same_seed is not None:
        return _main_score(same_seed)
    return value([_main_score(record) for record in committed_records]).mean


def _main_score(record: Record) -> float | None:
    """The main score of a record, in points; None where it is undefined."""
    _, score = main_score(record.scores)
    return score


def before_and_after(before: float | None, after: float | None) -> str:
    """The main score before and after, in words."""
    scores = [
        "undefined" if score is None else f"{score:.4f}" for score in (before, after)
    ]
    return " -> ".join(scores)


def is_within(points: float, tolerance: float) -> bool:
    """Whether a move is within a tolerance; NaN never is.

    It is rounded, so that a move of exactly a decimal tolerance is within it.
    """
    return round(points, 9) <= tolerance


def changed_inputs(
    committed_records: Sequence[Record], record: Record
) -> tuple[str, ...]:
    """The inputs of a record that are not the committed ones, by the names of their digests.

    Inputs are data, weights, tokenizer and configuration. A digest that differs between
    committed seeds is of something that training made, and not of an input.
    """
    names = set(record.digests)
    for committed_record in committed_records:
        names |= committed_record.digests.keys()
    changed_names = []
    for name in sorted(names - DIGESTS_OF_PROGRAM):
        committed_digests = {
            committed_record.digests.get(name) for committed_record in committed_records
        }
        is_of_input = len(committed_digests) == 1
        if is_of_input and record.digests.get(name) not in committed_digests:
            changed_names.append(name)
    return tuple(changed_names)


# Which part moved


def moved_part(cell: CheckResult, encoder: CheckResult | None) -> State:
    """The state of a cell with the part that moved it, if it moved.

    The part is an input, else the encoder, else the scorer. Changed weights, tokenizers
    and modules count as the encoder if its golden vectors moved, too.

    Args:
        cell: The check of the cell.
        encoder: The check of its encoder's golden vectors; None where there are none.
    """
    encoder_moved = encoder is not None and encoder.state is State.ENCODER
    encoder_agrees = encoder is not None and encoder.state is State.AGREES
    if cell.state is State.OTHER_INPUT and encoder_moved and cell.comparable:
        return State.ENCODER
    if cell.state is State.UNKNOWN and encoder_moved:
        return State.ENCODER
    if cell.state is State.UNKNOWN and encoder_agrees:
        return State.SCORER
    return cell.state


# Pairs


def most_moved(
    committed: Float[np.ndarray, " P"],
    measured: Float[np.ndarray, " P"],
    count: int = PAIRS_SHOWN,
) -> tuple[PairMove, ...]:
    """The pairs whose rank moved, at most `count`, most moved first.

    Args:
        committed: The committed similarity of each pair.
        measured: The measured similarity of each pair.
        count: How many pairs at most.
    """
    from scipy.stats import rankdata

    committed_ranks = rankdata(committed)
    measured_ranks = rankdata(measured)
    rank_moves = np.abs(measured_ranks - committed_ranks)
    most_moved_rows = np.argsort(-rank_moves, kind="stable")[:count]
    pair_moves = []
    for row in most_moved_rows:
        if rank_moves[row] > 0:
            move = PairMove(
                pair=int(row) + 1,
                committed=float(committed[row]),
                measured=float(measured[row]),
                committed_rank=float(committed_ranks[row]),
                measured_rank=float(measured_ranks[row]),
            )
            pair_moves.append(move)
    return tuple(pair_moves)
