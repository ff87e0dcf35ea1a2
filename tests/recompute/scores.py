"""Records read anew, without the harness: scores of a cell, their spread, intervals over seeds."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import fmean, stdev
from typing import Any

from pages import content
from scipy import stats

Cell = tuple[str, str]  # a method and a task
Fields = Mapping[str, Any]  # of a file, or of a table in one

SEVEN = ("sts12", "sts13", "sts14", "sts15", "sts16", "sts-b", "sick-r")
ENOUGH = 5  # seeds for a verdict
LEVEL = 0.05
# What the identity of a method says where another seed gives another score.
SEEDED = ("Flow(", "FamilyConfig(")


class Records(dict[Cell, Sequence[Fields]]):
    """The records of each cell, one a seed, and what was computed of them before."""

    def __init__(self, cells: Mapping[Cell, Sequence[Fields]]) -> None:
        super().__init__(cells)
        self.sides: dict[tuple[str, str, tuple[str, ...]], Side] = {}

    @cached_property
    def methods(self) -> Sequence[str]:
        return [*dict.fromkeys(method for method, _ in self)]

    @cached_property
    def facts(self) -> Mapping[str, Fields]:
        """Those of the first record of each method."""
        first: dict[str, Fields] = {}
        for (method, _), rows in self.items():
            first.setdefault(method, rows[0]["facts"])
        return first

    @cached_property
    def scores(self) -> Sequence[tuple[str, tuple[str, ...]]]:
        """Every task with every path to a number in its records, but those of single subsets."""
        found: dict[tuple[str, tuple[str, ...]], None] = {}
        for (_, task), rows in self.items():
            for name, score in rows[0]["scores"].items():
                ways = (
                    [way for way in score if way != "groups"]
                    if isinstance(score, dict)
                    else []
                )
                paths = [(name, way) for way in ways] or [(name,)]
                found |= dict.fromkeys((task, path) for path in paths)
        return [*found]


@dataclass(frozen=True)
class Inputs:
    """A results folder, its records, and its published tables by id."""

    results: Path
    records: Records
    tables: Fields


def read_inputs(results: Path) -> Inputs:
    tables = {
        path.stem: content(path) for path in sorted((results / "papers").glob("*.toml"))
    }
    return Inputs(results, read_records(results), tables)


def read_records(results: Path) -> Records:
    """Every committed record: a line of its method's file that begins with its schema."""
    cells: dict[Cell, list[Fields]] = {}
    for path in sorted((results / "records").glob("*/*.jsonl")):
        records: dict[tuple[str, int], Fields] = {}  # a merge may leave one twice
        for line in path.read_text(encoding="utf-8").splitlines():
            if line.startswith('{"schema"'):
                fields = json.loads(line)
                records[fields["task"], fields["seed"]] = fields
        for fields in records.values():
            cells.setdefault((fields["method"], fields["task"]), []).append(fields)
    return Records(
        {cell: sorted(rows, key=lambda r: r["seed"]) for cell, rows in cells.items()}
    )


def at(scores: Any, path: Iterable[str]) -> float | None:
    """The number at a path of a record's scores, if there is one."""
    for name in path:
        scores = scores.get(name) if isinstance(scores, dict) else None
    return scores if isinstance(scores, int | float) else None


@dataclass(frozen=True)
class Side:
    """The scores of a method on a task, or on the mean of several, by seed."""

    scores: Mapping[int, float | None]
    seeded: bool = False
    state: str = "not run"

    @cached_property
    def mean(self) -> float | None:
        """Over the seeds; None where there is none, or one of them is undefined."""
        known = [score for score in self.scores.values() if score is not None]
        return fmean(known) if known and len(known) == len(self.scores) else None

    @cached_property
    def sd(self) -> float | None:
        """The sample standard deviation, of two seeds or more."""
        known = [score for score in self.scores.values() if score is not None]
        return stdev(known) if len(known) > 1 else None

    @property
    def spread(self) -> tuple[float, int]:
        """The standard deviation and the number of seeds."""
        return self.sd or 0.0, len(self.scores)

    @cached_property
    def text(self) -> str:
        """As a table shows it, with more digits."""
        if not self.scores:
            return self.state
        if self.mean is None:
            return "undefined"
        return number(self.mean) + ("" if self.sd is None else f" ± {number(self.sd)}")


def side(records: Records, method: str, task: str, path: Sequence[str]) -> Side:
    """The scores of a cell."""
    cell = method, task, tuple(path)
    if cell not in records.sides:
        rows = records.get((method, task), ())
        seeded = len(rows) > 1 or any(
            word in row["identity"] for row in rows for word in SEEDED
        )
        scores = {row["seed"]: at(row["scores"], path) for row in rows}
        records.sides[cell] = Side(scores, seeded)
    return records.sides[cell]


def averaged(sides: Sequence[Side]) -> Side:
    """The mean over tasks of each seed that all of them have."""
    if len(sides) == 1:
        return sides[0]
    seeds = set.intersection(*(set(one.scores) for one in sides))
    means = {}
    for seed in seeds:
        scores = [score for one in sides if (score := one.scores[seed]) is not None]
        if len(scores) < len(sides):
            return Side({}, state="–")
        means[seed] = fmean(scores)
    return Side(means, any(one.seeded for one in sides), state="–")


def number(value: float) -> str:
    """With more digits than any table prints."""
    return f"{value:.9f}"


def welch(*samples: tuple[float, int]) -> float:
    """Half of Welch's 95 % interval of a difference of means."""
    return welch_test(0.0, *samples)[0]


def welch_test(difference: float, *samples: tuple[float, int]) -> tuple[float, float]:
    """Half of Welch's 95 % interval of a difference of means, and its p, with Satterthwaite's df.

    Each sample is its standard deviation and size.
    """
    variances = [(sd**2 / count, count) for sd, count in samples]
    total = sum(variance for variance, _ in variances)
    if total == 0:
        return 0.0, float(difference == 0)
    df = total**2 / sum(variance**2 / (count - 1) for variance, count in variances)
    error = math.sqrt(total)
    p = 2 * float(stats.t.sf(abs(difference) / error, df))
    return float(stats.t.ppf(0.975, df) * error), p


@dataclass(frozen=True)
class Decision:
    """The outcome of comparing two methods, the difference, its interval and what decided."""

    outcome: str
    difference: float | None = None
    interval: tuple[float, float] | None = None
    by: str = ""
    p: float | None = None


def decide(first: Side, second: Side, stored: Fields | None = None) -> Decision:
    """Whether the first lies above the second, by a stored interval or by seeds."""
    if not first.scores or not second.scores:
        return Decision("not measured")
    if first.mean is None or second.mean is None:
        return Decision("undecided", by="undefined")
    difference = first.mean - second.mean
    seeded = [one for one in (first, second) if one.seeded]
    if any(len(one.scores) < ENOUGH for one in seeded):
        return Decision("undecided", difference, None, "too few seeds")
    if stored and abs(stored["difference"] - difference) <= (0.1 if seeded else 0.01):
        low, high, p = stored["low"], stored["high"], stored["p"]
        shift = difference - stored["difference"]
        if abs(shift) > 0.01:  # other fits of the same seeds
            p = max(
                p,
                2
                * float(
                    stats.norm.sf(abs(difference) * 2 * 1.959963985 / (high - low))
                ),
            )
            low, high = low + shift, high + shift
        return _outcome(difference, (low, high), stored["by"], p)
    if seeded:
        half, p = welch_test(difference, *(one.spread for one in seeded))
        return _outcome(
            difference, (difference - half, difference + half), "seeds alone", p
        )
    return Decision("undecided", difference, None, "no interval")


def _outcome(
    difference: float, interval: tuple[float, float] | None, by: str, p: float
) -> Decision:
    word = "undecided"
    if p <= LEVEL and difference != 0:
        word = "higher" if difference > 0 else "lower"
    return Decision(word, difference, interval, by, p)


def corrected(decisions: Sequence[Decision]) -> list[Decision]:
    """The decisions of one claim after Holm's procedure: the k-th smallest p times what is left."""
    ps = sorted(one.p for one in decisions if one.p is not None)
    after = []
    for one in decisions:
        if one.p is None or one.difference is None:
            after.append(one)
            continue
        steps = (p * (len(ps) - k) for k, p in enumerate(ps) if p <= one.p)
        after.append(
            _outcome(one.difference, one.interval, one.by, min(1.0, max(steps)))
        )
    return after
