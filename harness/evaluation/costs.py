"""What cells cost, by the records of cells that were measured.

A record holds the seconds in which its task's sentences were encoded, its fit and its
scores. Encoders of one shape, which is told by their parameters, cost the same; so do fits
of one post-processor on the vectors of such encoders. What no record tells is unknown.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from statistics import median
from typing import NamedTuple

from harness.core.errors import HarnessError
from harness.core.hardware import base_name
from harness.core.types import Method, MethodId, Record
from harness.data.tasks.loader import TARGETS
from harness.registry import Registry
from harness.results.index import Results
from harness.results.store import Store

# BERT-base and MPNet-base differ by 4 in 100,000, BERT-base and RoBERTa-base by 14 %, which
# is the table of their words.
MOST_DIFFERENCE = 0.15  # of the parameters of two encoders of one shape


class FitKind(NamedTuple):
    """The post-processors of a fit, and what they are fitted on.

    Attributes:
        posts: Their names; of a kind alone, without their arguments.
        dropout: Whether sentences are encoded with dropout for them.
        fit_on: What follows the `@` of the id.
        task: The task for a fit on its sentences; empty for a fit on a corpus.
    """

    posts: tuple[str, ...]
    dropout: bool
    fit_on: str
    task: str

    @property
    def of_kind(self) -> FitKind:
        """This kind of fit without the arguments of its post-processors (`whitening:256`)."""
        kinds = tuple(name.partition(":")[0] for name in self.posts)
        return self._replace(posts=kinds)


def fit_kind(method: Method, task: str) -> FitKind | None:
    """The fit of a method on a task; None for a method that is not fitted."""
    if not method.post or method.fit_on is None:
        return None
    return FitKind(
        posts=tuple(post.name for post in method.post),
        dropout=any(post.dropout for post in method.post),
        fit_on=method.fit_on,
        task=task if method.fit_on in TARGETS else "",
    )


class ShapeCosts:
    """What encoders of one shape cost.

    Args:
        records: The records of their cells.
        registry: Knows the post-processors.
    """

    def __init__(self, records: Sequence[Record], registry: Registry) -> None:
        self._records = records
        self._registry = registry

    @cached_property
    def encoders(self) -> tuple[str, ...]:
        """Their names, without lengths."""
        ids = (MethodId.parse(record.method) for record in self._records)
        names = (base_name(parts.encoder) for parts in ids if parts)
        return tuple(sorted(set(names)))

    @cached_property
    def machines(self) -> tuple[str, ...]:
        """The processors that they were measured on."""
        names = (str(record.environment.get("processor")) for record in self._records)
        return tuple(sorted(set(names)))

    def rate(self, tasks: Collection[str]) -> float | None:
        """Sentences a second, on these tasks where they were measured; None where unknown."""
        costs: dict[bool, dict[tuple[str, float], int]] = {True: {}, False: {}}
        for record in self._records:
            seconds, sentences = (
                record.timings.get("encode"),
                record.facts.get("distinct_sentences"),
            )
            if seconds and sentences:  # those of a task's methods are of one encoding
                costs[record.task in tasks][record.task, seconds] = sentences
        known = costs[True] or costs[False]
        if not known:
            return None
        return sum(known.values()) / sum(seconds for _, seconds in known)

    def fit(self, method: Method, task: str) -> float | None:
        """The seconds of a fit, with what is encoded for it alone; None where unknown."""
        wanted = fit_kind(method, task)
        if wanted is None:
            return 0.0
        seconds = self._fits.get(wanted) or self._fits_of_kinds.get(wanted.of_kind)
        return None if seconds is None else median(seconds)

    def seconds_a_row(
        self, method: Method, rows_of: Callable[[str], int | None]
    ) -> float | None:
        """The seconds a row of fits of the method's kind on tasks; None where unknown.

        Args:
            method: The method.
            rows_of: Gives the number of sentences of a task, or None where its data are
                not here.
        """
        wanted = fit_kind(method, "")
        if wanted is None:
            return 0.0
        wanted = wanted.of_kind
        shares = []
        for kind, seconds in self._fits_of_kinds.items():
            if kind._replace(task="", fit_on=wanted.fit_on) == wanted and kind.task:
                rows = rows_of(kind.task)
                if rows:
                    shares.append(median(seconds) / rows)
        return median(shares) if shares else None

    def score(self, task: str) -> float:
        """The seconds of mapping and scoring a cell of the task; 0 where unknown."""
        seconds = self._scores.get(task)
        return median(seconds) if seconds else 0.0

    @cached_property
    def _fits(self) -> Mapping[FitKind, Sequence[float]]:
        """The seconds of fits."""
        posts: dict[str, Method | None] = {}
        fits: dict[FitKind, list[float]] = defaultdict(list)
        for record in self._records:
            if record.method not in posts:
                posts[record.method] = self._method(record.method)
            method = posts[record.method]
            kind = None if method is None else fit_kind(method, record.task)
            seconds = record.timings.get("fit")
            if kind is not None and seconds is not None:
                fits[kind].append(seconds)
        return fits

    @cached_property
    def _fits_of_kinds(self) -> Mapping[FitKind, Sequence[float]]:
        """The seconds of fits of each kind of post-processors."""
        fits: dict[FitKind, list[float]] = defaultdict(list)
        for kind, seconds in self._fits.items():
            fits[kind.of_kind] += seconds
        return fits

    @cached_property
    def _scores(self) -> Mapping[str, Sequence[float]]:
        """The seconds of mapping and scoring, by task."""
        seconds: dict[str, list[float]] = defaultdict(list)
        for record in self._records:
            timings = record.timings
            seconds[record.task].append(
                timings.get("apply", 0.0) + timings.get("score", 0.0)
            )
        return seconds

    def _method(self, identifier: str) -> Method | None:
        """The method of an id; None where it is not known here."""
        try:
            return self._registry.parse(identifier)
        except HarnessError:
            return None


class Costs:
    """The costs of cells, by the shape of their encoders. Records are read when first needed.

    Args:
        stores: The results folders; all records of a cell are of the first that has it.
        registry: Knows the post-processors.
    """

    def __init__(self, stores: Iterable[Store], registry: Registry) -> None:
        self.registry = registry
        self._stores = tuple(stores)
        self._by_parameters: dict[int | None, ShapeCosts] = {}

    def of_shape(self, parameters: int | None) -> ShapeCosts:
        """The costs of encoders with as many parameters; None is word vectors."""
        if parameters not in self._by_parameters:
            records: list[Record] = []
            for of_cell in self._results.by_cell.values():
                if _is_of_shape(of_cell[0].facts.get("parameters"), parameters):
                    records += of_cell
            self._by_parameters[parameters] = ShapeCosts(records, self.registry)
        return self._by_parameters[parameters]

    @cached_property
    def _results(self) -> Results:
        """All records."""
        return Results.read(*self._stores)


def _is_of_shape(parameters: int | None, wanted: int | None) -> bool:
    """Whether an encoder with so many parameters is of the shape of another."""
    if parameters is None or wanted is None:
        return parameters is wanted
    return abs(parameters - wanted) <= MOST_DIFFERENCE * wanted
