"""Drift: the scores of a run against the committed ones, in points."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from harness.core.types import Record
from harness.gate.tolerances import ACROSS_PLATFORMS, Override, Rules, platform
from harness.results.index import Results, main_score
from harness.results.records import SAME_PLATFORM, Cell, cell_of, largest_move
from harness.results.verdict import prediction_half_width

# Of a record's digests, the two that say nothing of what went in.
NO_INPUT = {"code", "encoding"}


@dataclass(frozen=True)
class Move:
    """One cell against its committed record; `points` is None where there is none.

    `others` are the inputs that are not the committed ones; `note` says why the tolerance is not
    the usual one. `before` and `after` are the main scores where they are defined: before, that of
    the same seed, else the mean of the committed ones.
    """

    cell: Cell
    points: float | None
    tolerance: float
    others: tuple[str, ...] = ()
    note: str = ""
    before: float | None = None
    after: float | None = None

    @property
    def reason(self) -> str:
        """In words, which inputs are not the committed ones; empty if all are."""
        return f"other {', '.join(self.others)}" if self.others else ""

    @property
    def fall(self) -> float:
        """The points that the main score lost; below 0 where it rose, infinite where it is gone."""
        if self.before is None or self.after is None:
            return math.inf
        return round(self.before - self.after, 9)

    @property
    def change(self) -> str:
        """The main score before and after, in words."""
        scores = ("undefined" if s is None else f"{s:.4f}" for s in (self.before, self.after))
        return " -> ".join(scores)

    @property
    def moved(self) -> bool:
        """Beyond the tolerance, or of other data, weights or configuration.

        Rounded, so that tolerances are decimal numbers; what is no number is never within.
        """
        beyond = self.points is not None and not round(self.points, 9) <= self.tolerance
        return bool(self.reason) or beyond

    @property
    def why(self) -> str:
        """The comparison in words, without the cell."""
        note = f" ({self.note})" if self.note else ""
        if self.reason:
            return self.reason
        if self.points is None:
            return "there is no committed record"
        if math.isinf(self.points):
            return "a score stands on one side only, or is undefined there"
        return f"{self.points:.4f} points, tolerance {self.tolerance:.4g}{note}"

    def __str__(self) -> str:
        return f"{self.cell}: {self.why}"


def compare(records: Iterable[Record], committed: Results, rules: Rules) -> list[Move]:
    """Each record against the committed one of the same cell, by the committed folder's rules."""
    addresses = [(record, (record.method, record.task)) for record in records]
    return [
        judge(record, committed.records(*address), rules.by_cell.get(address))
        for record, address in addresses
    ]


def _scores(record: Record, seeds: Sequence[Record]) -> tuple[float | None, float | None]:
    """The main score before, of the same seed or else the mean of all, and after."""
    own = [old for old in seeds if old.seed == record.seed] or seeds
    known = [score for old in own if (score := main_score(old.scores)[1]) is not None]
    before = fmean(known) if known and len(known) == len(own) else None
    return before, main_score(record.scores)[1]


def judge(record: Record, seeds: Sequence[Record], override: Override | None) -> Move:
    """One record against the committed ones of its method and task, one a seed.

    Against its own seed in every score; where that has moved and there are others, its main score
    (one number, so that 95 % means 95 %) against the interval for one more run.
    """
    cell = cell_of(record)
    own = next((old for old in seeds if old.seed == record.seed), None)
    if own is None and len(seeds) < 2:
        return Move(cell, None, 0.0)
    other, nearest = other_inputs(seeds, record), own or seeds[0]
    same = platform(nearest.environment) == platform(record.environment)
    tolerance, note = (SAME_PLATFORM if same else ACROSS_PLATFORMS), ""
    if override is not None:
        tolerance, note = override.tolerance, override.reason
    points = largest_move(own.scores, record.scores) if own else math.inf
    before, after = _scores(record, seeds)
    move = Move(cell, points, tolerance, other, note, before, after)
    hole = own is not None and math.isinf(points)
    if len(seeds) < 2 or hole or other or not move.moved or (override and own):
        return move
    return replace(_against_seeds(record, seeds, tolerance), before=before, after=after)


def _against_seeds(record: Record, seeds: Sequence[Record], tolerance: float) -> Move:
    scores = [main_score(old.scores)[1] for old in seeds]
    known, (_, ours) = [s for s in scores if s is not None], main_score(record.scores)
    if ours is None or len(known) < len(scores):
        return Move(cell_of(record), math.inf, tolerance)
    half_width = prediction_half_width(stdev(known), len(known))
    note = f"from the mean of {len(known)} committed seeds"
    if half_width >= tolerance:
        note += "; their interval for one more run"
    allowed = max(tolerance, half_width)
    return Move(cell_of(record), abs(ours - fmean(known)), allowed, note=note)


def other_inputs(seeds: Sequence[Record], new: Record) -> tuple[str, ...]:
    """The inputs that are not the committed ones: data, weights, tokenizer, configuration.

    What differs between committed seeds is what training made of each, and no input.
    """
    names = set(new.digests).union(*(old.digests for old in seeds)) - NO_INPUT
    fixed = [name for name in names if len({old.digests.get(name) for old in seeds}) == 1]
    return tuple(sorted(n for n in fixed if seeds[0].digests.get(n) != new.digests.get(n)))
