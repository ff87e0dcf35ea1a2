"""The atlas of an encoder: its scores over layers, poolings, scorings, lengths and k.

Everything is read from records: an atlas finds the methods of one encoder that differ in
one choice. The scores over layers and poolings are those of SimCSE's Table 5. The curves
over k are those of BERT-whitening and BERT-flow, whose tables average a year's subsets.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import product

from harness.core.hardware import base_name
from harness.core.types import MethodId
from harness.results.index import Results, Value
from harness.results.records import CellName
from harness.results.scorings import SIMCSE, WHITENING, Scoring, seven_values

# The poolings of one layer: the name of each, with what an id has for a layer (`cls:11`)
# and for the last one (`cls`).
LAYER_POOLINGS: Mapping[str, tuple[str, str]] = {
    "mean": ("layer", "mean"),
    "[CLS]": ("cls", "cls"),
    "max": ("max", "max"),
}
FEWEST_POINTS = 4  # of a curve: fewer have no shape
OVER_K = ("whitening", "natsv")
ALL_KEPT = "all"  # directions, by whitening without a number
NONE_REMOVED = "none"  # of the directions that NATSV removes

# The scorings whose effect is shown, by the choice in which they differ from SimCSE's.
OTHER_SCORINGS: Mapping[str, Scoring] = {
    "raw text for SentEval's": replace(SIMCSE, text="raw"),
    "Pearson for Spearman": replace(SIMCSE, correlation="pearson"),
    "dot product for cosine": replace(SIMCSE, correlation="dot_spearman"),
    "Euclidean distance for cosine": replace(SIMCSE, correlation="euclidean_spearman"),
    "Manhattan distance for cosine": replace(SIMCSE, correlation="manhattan_spearman"),
    "mean over subsets for all pairs": replace(SIMCSE, aggregation="mean"),
    "weighted mean for all pairs": replace(SIMCSE, aggregation="wmean"),
}
# The poolings whose scores at other maximum lengths are compared.
LENGTH_POOLINGS = ("mean", "first-last")


@dataclass(frozen=True)
class AtlasRow:
    """A method with its seven scores and their average, or the differences from another's.

    Attributes:
        label: What it is in its table: a layer, a choice or k.
        method: The method's id.
        values: The seven values, and their average.
    """

    label: str
    method: str
    values: Sequence[Value]

    @property
    def average(self) -> float | None:
        """The average of the seven; None if one of them is missing."""
        return self.values[-1].mean

    @property
    def is_empty(self) -> bool:
        """Whether it has no score at all."""
        return all(value.mean is None for value in self.values)


@dataclass(frozen=True)
class Curve:
    """The scores of one post-processor over its number of directions k.

    Attributes:
        method: The id of its methods, with `K` in the place of the number.
        rows: The measured methods in the order of k. NATSV with none removed, and
            whitening with all kept, have the words `none` and `all`.
        numbers: The number of directions of each row.
        plain: The pooling on which it is fitted, without any post-processor.
    """

    method: str
    rows: Sequence[AtlasRow]
    numbers: Sequence[int]
    plain: AtlasRow

    @property
    def post(self) -> str:
        """The post-processors with `K`: `sn+natsv:K`."""
        return self.method.partition("+")[2].partition("@")[0]


class Atlas:
    """What records say of one encoder.

    Args:
        encoder: Its name, without a maximum length.
        results: The records of all encoders.
    """

    def __init__(self, encoder: str, results: Results) -> None:
        self.encoder = encoder
        self.results = results
        self.ids = {
            method: method_id
            for method in results.methods
            if (method_id := MethodId.parse(method)) is not None
            and base_name(method_id.encoder) == encoder
        }

    # Layers and poolings

    @cached_property
    def layers(self) -> Mapping[str, Sequence[AtlasRow]]:
        """For each pooling of one layer, its scores from layer 0 to the last one.

        It is empty if no layer but the last was measured. All poolings have the same
        layers, and a layer that was not measured has its state.
        """
        measured: set[int] = set()
        poolings: list[str] = []
        for pooling, (of_layer, _) in LAYER_POOLINGS.items():
            prefix = f"{self.encoder}.{of_layer}:"
            numbers = _numbers_after(prefix, self.ids)
            measured |= numbers
            if numbers:
                poolings.append(pooling)
        if not measured:
            return {}
        layers = [str(layer) for layer in range(max(measured) + 1)]
        rows = {}
        for pooling in poolings:
            of_layer, of_last = LAYER_POOLINGS[pooling]
            methods = {n: f"{self.encoder}.{of_layer}:{n}" for n in layers}
            methods["last"] = f"{self.encoder}.{of_last}"
            rows[pooling] = [self._row(*each, SIMCSE) for each in methods.items()]
        return rows

    @cached_property
    def poolings(self) -> Sequence[AtlasRow]:
        """The poolings without a number, as SimCSE scores them, the best average first."""
        rows = []
        for method, parts in self.ids.items():
            if parts.encoder == self.encoder and not parts.post:
                row = self._row(parts.pooling, method, SIMCSE)
                if ":" not in parts.pooling and not row.is_empty:
                    rows.append(row)
        return sorted(rows, key=lambda row: -(row.average or 0.0))

    # One choice after the other

    @cached_property
    def effects(self) -> Mapping[str, Sequence[AtlasRow]]:
        """What other choices change, in points, by the method that they are changed in.

        Of the mean of the last layer these are scorings and maximum lengths, of
        `first-last` lengths alone.
        """
        effects: dict[str, list[AtlasRow]] = {}
        for pooling in LENGTH_POOLINGS:
            method = f"{self.encoder}.{pooling}"
            base = self._row("", method, SIMCSE)
            if base.is_empty:
                continue
            rows = []
            if pooling == LENGTH_POOLINGS[0]:
                for choice, scoring in OTHER_SCORINGS.items():
                    rows.append(self._row(choice, method, scoring))
            lengths = _numbers_between(f"{self.encoder}:", f".{pooling}", self.ids)
            for length in sorted(lengths):
                shorter = f"{self.encoder}:{length}.{pooling}"
                rows.append(self._row(f"at most {length} tokens", shorter, SIMCSE))
            effects[method] = [
                replace(row, values=[*map(_difference, row.values, base.values)])
                for row in rows
                if not row.is_empty
            ]
        return {method: rows for method, rows in effects.items() if rows}

    # Post-processors over k

    @cached_property
    def curves(self) -> Sequence[Curve]:
        """Whitening and NATSV over k, each with four measured points or more."""
        numbers: dict[MethodId, list[int]] = defaultdict(list)
        for parts in self.ids.values():
            if not parts.post:
                continue
            name, _, number = parts.post[-1].partition(":")
            if name in OVER_K and number.isdecimal():
                with_k = replace(parts, post=(*parts.post[:-1], f"{name}:K"))
                numbers[with_k].append(int(number))
        curves = [self._curve(*each) for each in numbers.items()]
        return [curve for curve in curves if len(curve.rows) >= FEWEST_POINTS]

    def _curve(self, with_k: MethodId, numbers: Sequence[int]) -> Curve:
        """The curve of the methods that have these numbers in the place of K."""
        plain = str(replace(with_k, post=(), fit_on=None))
        before, name = with_k.post[:-1], with_k.post[-1].removesuffix(":K")
        methods = [
            (str(k), k, str(with_k).replace(":K", f":{k}")) for k in sorted(numbers)
        ]
        if name == "whitening":
            every = str(replace(with_k, post=(*before, name)))
            methods.append((ALL_KEPT, self._dimensions(every), every))
        elif before:
            methods.insert(0, (NONE_REMOVED, 0, str(replace(with_k, post=before))))
        else:
            methods.insert(0, (NONE_REMOVED, 0, plain))
        rows, directions = [], []
        for label, k, method in methods:
            row = self._row(label, method, WHITENING)
            if not row.is_empty:
                rows.append(row)
                directions.append(k)
        return Curve(
            method=str(with_k),
            rows=rows,
            numbers=directions,
            plain=self._row("", plain, WHITENING),
        )

    def _dimensions(self, method: str) -> int:
        """The number of dimensions of a method's vectors; zero if it was not measured."""
        for cell, records in self.results.by_cell.items():
            if cell[0] == method:
                return int(records[0].facts["dimensions"])
        return 0

    # Values

    def _row(self, label: str, method: str, scoring: Scoring) -> AtlasRow:
        return AtlasRow(label, method, seven_values(self.results, method, scoring))

    @cached_property
    def cells(self) -> Sequence[CellName]:
        """The cells that it is made from."""
        tasks = {
            task
            for scoring in (SIMCSE, WHITENING, *OTHER_SCORINGS.values())
            for task, _ in scoring.task_scores
        }
        rows = [row for rows in self.layers.values() for row in rows]
        rows += [row for rows in self.effects.values() for row in rows]
        rows += self.poolings
        for curve in self.curves:
            rows += [*curve.rows, curve.plain]
        return [*product(dict.fromkeys(row.method for row in rows), sorted(tasks))]


def atlases_of(results: Results) -> Iterator[Atlas]:
    """The atlas of every encoder that has scores over layers or over k, by name."""
    encoders = {
        base_name(method.partition(".")[0])
        for method in results.methods
        if MethodId.parse(method) is not None
    }
    for encoder in sorted(encoders):
        atlas = Atlas(encoder, results)
        if atlas.layers or atlas.curves:
            yield atlas


def _numbers_after(prefix: str, methods: Collection[str]) -> set[int]:
    """The numbers that follow a prefix in the ids that hold nothing else."""
    return _numbers_between(prefix, "", methods)


def _numbers_between(prefix: str, suffix: str, methods: Collection[str]) -> set[int]:
    """The numbers between the two in the ids that consist of all three."""
    numbers = set()
    for method in methods:
        if method.startswith(prefix) and method.endswith(suffix):
            number = method[len(prefix) : len(method) - len(suffix)]
            if number.isdecimal():
                numbers.add(int(number))
    return numbers


def _difference(value: Value, base: Value) -> Value:
    """The difference of two values; the state of the one that is missing."""
    if value.mean is None or base.mean is None:
        return value if value.mean is None else base
    return Value(value.mean - base.mean)


# Alignment against uniformity

GEOMETRY_TASK = "sts-b"  # as in SimCSE's Figure 3
# The calibrations that are shown; each has its own sign in the picture.
CALIBRATIONS = ("as encoded", "whitening", "sn", "natsv", "flow")


@dataclass(frozen=True)
class GeometryPoint:
    """Alignment and uniformity of a method on STS-B (Wang & Isola 2020).

    Attributes:
        method: The method's id.
        calibration: One of `CALIBRATIONS`.
        alignment: The mean squared distance of normalised positive pairs.
        uniformity: The logarithm of the mean Gaussian potential of all pairs.
        score: Spearman's correlation over all pairs, in points.
    """

    method: str
    calibration: str
    alignment: float
    uniformity: float
    score: float


def geometry_of(results: Results) -> Sequence[GeometryPoint]:
    """Every method of one calibration or none that has all three, the best score first."""
    points = []
    for method in results.by_task.get(GEOMETRY_TASK, ()):
        parts = MethodId.parse(method)
        if parts is None or len(parts.post) > 1:
            continue
        calibration = parts.post[0].partition(":")[0] if parts.post else "as encoded"
        if calibration not in CALIBRATIONS:
            continue
        numbers = [
            results.value(method, GEOMETRY_TASK, *path).mean
            for path in (("alignment",), ("uniformity",), ("spearman", "all"))
        ]
        known = [number for number in numbers if number is not None]
        if len(known) == len(numbers):
            points.append(GeometryPoint(method, calibration, *known))
    return sorted(points, key=lambda point: -point.score)
