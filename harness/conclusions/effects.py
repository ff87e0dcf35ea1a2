"""What each choice of a protocol does to a score, by the rows that were measured both ways.

A row is a measured score, named by its `Protocol`. The effect of a choice is the
difference between two rows that differ in this choice alone: a join of the measured rows
with themselves.

The functions take a `protocol`, the protocol of the published number that is explained.
Often nothing was measured under it. Then the rows that are nearest to it are compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import product
from operator import attrgetter, eq, itemgetter
from statistics import fmean
from typing import NamedTuple

from harness.conclusions.numbers import ACCIDENTAL_CHOICES
from harness.conclusions.traps import Trap
from harness.core.metrics.correlation import CORRELATION_SCORES, CORRELATIONS
from harness.core.types import AGGREGATIONS, Task
from harness.registry import Registry
from harness.results.index import Results
from harness.results.origins import other_weights
from harness.results.protocols import Protocol

# The choices that count as one, in the order in which they are shown: settings that a
# person makes differently, then poolings, then post-processors. A post-processor and its
# fit corpus may change together.
SETTINGS = ("aggregation", "split", "metric", "text", "scored_by", "max_length")
SINGLE_CHOICES = (
    *((name,) for name in SETTINGS),
    ("pooling",),
    ("post",),
    ("fit_on",),
    ("post", "fit_on"),
)
# The choices by which one record has several scores.
SCORE_CHOICES = ("metric", "aggregation", "scored_by")
ACCIDENTS = tuple(
    names for names in SINGLE_CHOICES if {*names} <= {*ACCIDENTAL_CHOICES}
)
# Everything but the encoder and its maximum length, as a tuple. Rows with the same tuple
# differ in the encoder alone.
all_but_encoder = attrgetter(
    *(
        name
        for name in Protocol.__dataclass_fields__
        if name not in ("encoder", "max_length")
    )
)

# All of a protocol that says which scores are compared with it.
_all_that_is_compared = attrgetter("task", "metric", "scored_by", "aggregation")

NEGLIGIBLE = 0.05  # points that another processor or half precision moves a score by

# The rows: measured scores in points by their protocols.
Scores = Mapping[Protocol, float]


# Two rows that differ in one choice: the row with the protocol's value of the choice, the
# row with another value, and how far the first is from the protocol. A folder has tens of
# thousands.
Step = tuple[Protocol, Protocol, "Distance"]


@dataclass(frozen=True, kw_only=True)
class Effect:
    """A change of one choice of a protocol, and by how many points it moves a score.

    Attributes:
        changes: The changed choices by name, with their new values.
        protocol: The changed protocol.
        effects: The effect on each encoder, in points, at the nearest row that was
            measured with and without the change.
        differences: The choices in which this nearest row differs from the protocol.
        steps: All rows that were measured with and without the change.
        scores: Their scores.
        traps: The numbers of the traps that show this choice, from 1.
    """

    changes: Mapping[str, str]
    protocol: Protocol
    effects: Mapping[str, float]
    differences: Mapping[str, str]
    steps: Sequence[Step] = field(repr=False)
    scores: Scores = field(repr=False)
    traps: tuple[int, ...]

    @property
    def effect(self) -> float:
        """The mean effect over the encoders."""
        return fmean(self.effects.values())

    @cached_property
    def on_rows(self) -> Sequence[float]:
        """The effect on every row on which it was measured, in points."""
        return tuple(
            self.scores[end] - self.scores[start] for start, end, _ in self.steps
        )


# Measured rows and their distance from a protocol


def measured_scores(results: Results, registry: Registry, protocol: Protocol) -> Scores:
    """The measured scores of the protocol's task that can be compared with it.

    They differ from it in at most one of metric, similarity function and aggregation,
    since an effect is of one choice.
    """
    scores_of_task = {
        task.name: _comparable_scores(protocol, task, results)
        for task in registry.tasks.values()
        if task.name.partition(".")[0] == protocol.task
    }
    scores: dict[Protocol, float] = {}
    for method, task in results.by_cell:
        # The task is looked at first: a folder has a hundred others.
        if task not in scores_of_task:
            continue
        if other_weights(method, results.copies(method, task), registry):
            continue
        for metric, aggregation in scores_of_task[task]:
            path = (metric, aggregation) if aggregation else (metric,)
            score = results.value(method, task, *path).mean
            if score is None:
                continue
            row = Protocol.from_score(method, registry.tasks[task], metric, aggregation)
            if row is not None:
                scores[row] = score
    return scores


def _comparable_scores(
    protocol: Protocol, task: Task, results: Results
) -> list[tuple[str, str]]:
    """Metric and aggregation of the scores of a task that are compared with a protocol's.

    Without subsets, the score under every aggregation is the same: `all`.
    """
    aggregations: Sequence[str] = ("",)
    if protocol.aggregation:
        has_subsets = len(results.subsets(task.name)) > 1
        aggregations = AGGREGATIONS if has_subsets else ("all",)
    if protocol.metric not in CORRELATIONS:
        return [(protocol.metric, aggregation) for aggregation in aggregations]
    comparable = []
    for metric, aggregation in product(CORRELATION_SCORES, aggregations):
        similarity, correlation = CORRELATION_SCORES[metric]
        is_other = (
            protocol.scored_by not in (similarity, "regression"),
            correlation != protocol.metric,
            aggregation != protocol.aggregation,
        )
        if sum(is_other) <= 1:
            comparable.append((metric, aggregation))
    return comparable


def nearest_rows(protocol: Protocol, scores: Scores) -> Scores:
    """The rows that are nearest to a protocol; none if the protocol is among the rows.

    They are the nearest row of all, and the nearest row that is fitted on a corpus of
    the protocol's kind, if there is one.
    """
    if protocol in scores:
        return {}
    rows_by_encoder = Counter(row.encoder for row in scores)

    def order(row: Protocol) -> tuple[Distance, bool, int]:
        """By distance, then the protocol's encoder first, then encoders with many rows."""
        is_other_encoder = row.encoder != protocol.encoder
        return distance(row, protocol), is_other_encoder, -rows_by_encoder[row.encoder]

    rows = [row for row in scores if row.metric == protocol.metric]
    with_corpus = [
        row for row in rows if is_corpus_of_kind(row.fit_on, protocol.fit_on)
    ]
    nearest: dict[Protocol, float] = {}
    for candidates in (rows, with_corpus):
        if candidates:
            row = min(candidates, key=order)
            nearest[row] = scores[row]
    return nearest


def other_choices(protocol: Protocol, row: Protocol) -> dict[str, str]:
    """The choices of a row that differ from the protocol's, but for encoder and length."""
    choices = dict(protocol.changes(row))
    choices.pop("max_length", None)
    return choices


class Distance(NamedTuple):
    """How far a row is from a protocol. Distances are compared field by field, as tuples.

    Attributes:
        choices: The number of choices that differ. A post-processor and its fit corpus
            count as one choice, and a corpus of the protocol's kind as none.
        is_other_corpus: Whether the row's fit corpus is not of the protocol's kind.
        is_other_post: Whether the row has another post-processor.
        fields: The number of fields that differ.
    """

    choices: int
    is_other_corpus: bool
    is_other_post: bool
    fields: int


def distance(row: Protocol, protocol: Protocol) -> Distance:
    """How far a row is from a protocol."""
    differences = other_choices(protocol, row)
    is_same_kind = is_corpus_of_kind(row.fit_on, protocol.fit_on)
    choices = len(differences)
    if is_same_kind or {"post", "fit_on"} <= differences.keys():
        choices -= 1
    return Distance(
        choices=choices,
        is_other_corpus=not is_same_kind,
        is_other_post=row.post.partition(":")[0] != protocol.post.partition(":")[0],
        fields=len(differences),
    )


def is_corpus_of_kind(corpus: str, kind: str) -> bool:
    """Whether a fit corpus is another one of a kind, as `snli-18k` is of the kind `nli`."""
    return kind != "" and kind != corpus and kind in corpus


def _has_choices(row: Protocol, protocol: Protocol, names: Iterable[str]) -> bool:
    """Whether a row has the protocol's choices of these names, or a fit corpus of its kind."""
    for name in names:
        row_value, protocol_value = getattr(row, name), getattr(protocol, name)
        same_kind = name == "fit_on" and is_corpus_of_kind(row_value, protocol_value)
        if row_value != protocol_value and not same_kind:
            return False
    return True


# Effects


# Rows that agree in all choices but some, by their values of these.
RowGroup = Mapping[tuple[str, ...], Protocol]


class RowGroups:
    """Measured rows, in groups that differ in some choices alone; each grouping is made once.

    Args:
        scores: The scores of the rows.
        of_score: The choices of a score, which all rows of a group have as the protocol
            does, unless they differ in them.
    """

    def __init__(
        self, scores: Scores, of_score: Sequence[str] = ("metric", "aggregation")
    ) -> None:
        self.scores = scores
        self._of_score = of_score
        self._groups: dict[tuple[str, ...], list[RowGroup]] = {}

    def that_differ_in(
        self, names: Sequence[str], protocol: Protocol
    ) -> Sequence[RowGroup]:
        """The groups of two rows or more that agree in all choices but those of these names.

        Their rows have the protocol's task and its choices of the score, unless these are
        among the names.
        """
        of_score = [name for name in self._of_score if name not in names]
        score_fields = attrgetter("task", *of_score)
        wanted = score_fields(protocol)
        key = (*names, *wanted)
        if key not in self._groups:
            fixed_names = [name for name in vars(protocol) if name not in names]
            fixed_fields = attrgetter(*fixed_names)
            groups: dict[tuple[str, ...], dict[tuple[str, ...], Protocol]] = {}
            for row in self.scores:
                if score_fields(row) == wanted:
                    group = groups.setdefault(fixed_fields(row), {})
                    group[_values(row, names)] = row
            self._groups[key] = [rows for rows in groups.values() if len(rows) > 1]
        return self._groups[key]


def _values(row: Protocol, names: Sequence[str]) -> tuple[str, ...]:
    """A row's values of the choices of these names."""
    return tuple([getattr(row, name) for name in names])


def measured_effects(
    protocol: Protocol,
    groups: RowGroups,
    registry: Registry,
    traps: Sequence[Trap] = (),
    choices: Sequence[Sequence[str]] = SINGLE_CHOICES,
) -> list[Effect]:
    """Every change of one of the choices whose effect was measured.

    They are in the order of the choices, of one choice the largest effect first. If an
    effect was measured on the protocol's encoder, the effects on others are left out.
    """
    rows_of_traps = [_rows_of_trap(trap, registry) for trap in traps]
    effects: list[Effect] = []
    for names in choices:
        effects_of_choice = []
        for values, steps in _steps_by_values(protocol, groups, names).items():
            changes = dict(zip(names, values, strict=True))
            numbers_of_traps = [
                number
                for number, (trap, rows) in enumerate(
                    zip(traps, rows_of_traps, strict=True), start=1
                )
                if _shows(trap, rows, protocol, changes)
            ]
            effects_of_choice.append(
                _effect(
                    protocol, changes, steps, groups.scores, tuple(numbers_of_traps)
                )
            )
        effects_of_choice.sort(key=lambda effect: abs(effect.effect), reverse=True)
        effects += effects_of_choice
    return effects


def _effect(
    protocol: Protocol,
    changes: Mapping[str, str],
    steps: Sequence[Step],
    scores: Scores,
    traps: tuple[int, ...],
) -> Effect:
    """A change of one choice, with the effects of the steps that make this change.

    The effects on encoders are those of the steps that start as the nearest row does.
    """
    nearest, _, least = min(steps, key=itemgetter(2))
    as_nearest = [
        (start, end)
        for start, end, far in steps
        if far == least and all_but_encoder(start) == all_but_encoder(nearest)
    ]
    # The rows of one encoder may differ in maximum length. The steps with the protocol's
    # length come last, so that their effect is the one that is kept.
    as_nearest.sort(key=lambda rows: rows[0].max_length == protocol.max_length)
    effects = {start.encoder: scores[end] - scores[start] for start, end in as_nearest}
    if protocol.encoder in effects:
        effects = {protocol.encoder: effects[protocol.encoder]}
    return Effect(
        changes=changes,
        protocol=replace(protocol, **changes),
        effects=effects,
        differences=other_choices(protocol, nearest),
        steps=steps,
        scores=scores,
        traps=traps,
    )


def _steps_by_values(
    protocol: Protocol, groups: RowGroups, names: Sequence[str]
) -> Mapping[tuple[str, ...], Sequence[Step]]:
    """Each two rows that differ in the choices of these names, all of them and no others.

    The first row has the protocol's values of these choices, the second has others, by
    which the steps are grouped.
    """
    own = _values(protocol, names)
    # A fit corpus of the protocol's kind counts as the protocol's.
    has_kinds = "fit_on" in names
    steps: dict[tuple[str, ...], list[Step]] = defaultdict(list)
    for group in groups.that_differ_in(names, protocol):
        starts = [group[own]] if own in group else []
        if has_kinds:
            starts = [
                row for row in group.values() if _has_choices(row, protocol, names)
            ]
        if not starts:
            continue
        ends = [each for each in group.items() if _differ_in_all(each[0], own)]
        for start in starts if ends else ():
            far = distance(start, protocol)
            start_values = _values(start, names)
            for values, end in ends:
                if start_values == own or _differ_in_all(values, start_values):
                    steps[values].append((start, end, far))
    return steps


def _differ_in_all(first: Sequence[str], second: Sequence[str]) -> bool:
    """Whether two tuples of values differ in every one of them."""
    return not any(map(eq, first, second))


class EffectsOfAccidents:
    """The effects of accidental choices in the records of a folder, each computed once.

    Many readers' numbers are of one protocol, and many protocols are compared with the
    same measured rows: those of the task, by metric, similarity function and
    aggregation.

    Args:
        results: The records.
        registry: Methods and tasks by name.
    """

    def __init__(self, results: Results, registry: Registry) -> None:
        self._results = results
        self._registry = registry
        self._groups: dict[tuple[str, ...], RowGroups] = {}
        self._effects: dict[tuple[Protocol, tuple[str, ...]], Sequence[Effect]] = {}

    def on(self, protocol: Protocol, choice: tuple[str, ...]) -> Sequence[Effect]:
        """The effects of one of the `ACCIDENTS` on a protocol."""
        if (protocol, choice) not in self._effects:
            key = _all_that_is_compared(protocol)
            if key not in self._groups:
                scores = measured_scores(self._results, self._registry, protocol)
                # A record has the scores by all similarity functions, so that no row by
                # another one than the protocol's is the nearest.
                self._groups[key] = RowGroups(scores, SCORE_CHOICES)
            self._effects[protocol, choice] = measured_effects(
                protocol, self._groups[key], self._registry, choices=[choice]
            )
        return self._effects[protocol, choice]


# Traps that show a choice


def _rows_of_trap(trap: Trap, registry: Registry) -> Sequence[Protocol]:
    """The rows of a trap as protocols."""
    protocols = []
    for row in trap.rows:
        task = registry.tasks.get(row.task)
        if task is None:
            continue
        protocol = Protocol.from_score(row.method, task, *row.score[:2])
        if protocol is not None:
            protocols.append(protocol)
    return protocols


def _shows(
    trap: Trap, rows: Sequence[Protocol], protocol: Protocol, changes: Mapping[str, str]
) -> bool:
    """Whether a trap shows these changes.

    It does if it is about each changed choice, and has rows with the protocol's value and
    rows with the new value.
    """
    for name, value in changes.items():
        has_new_value = any(getattr(row, name) == value for row in rows)
        has_protocols_value = any(_has_choices(row, protocol, [name]) for row in rows)
        if name not in trap.about or not (has_new_value and has_protocols_value):
            return False
    return True
