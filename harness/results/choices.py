"""What each choice of a protocol does to a score, by the rows that were measured both ways.

A row is a measured score, named by its `Protocol`. The effect of a choice is the
difference between two rows that differ in this choice alone.

The functions take a `protocol`, the protocol of the published number that is explained.
Often nothing was measured under it. Then the rows that are nearest to it are compared.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from operator import attrgetter
from statistics import fmean
from typing import NamedTuple

from harness.core.metrics.similarity import CORRELATION_SCORES, CORRELATIONS
from harness.core.types import AGGREGATIONS, MethodId, Task
from harness.registry import Registry
from harness.results.index import Results
from harness.results.protocols import Protocol
from harness.results.questions import Trap

# The names of a protocol's choices, by what has to change for another choice.
METHOD_CHOICES = ("pooling", "post", "fit_on")
TASK_CHOICES = ("text", "split", "scored_by")
SCORE_CHOICES = ("metric", "aggregation")

# The choices that count as one. A post-processor and its fit corpus may change together.
SINGLE_CHOICES = (
    ("max_length",),
    ("pooling",),
    ("post",),
    ("fit_on",),
    ("text",),
    ("split",),
    ("scored_by",),
    ("metric",),
    ("aggregation",),
    ("post", "fit_on"),
)
# The task and all choices of a protocol but the encoder and its maximum length, as a
# tuple. Rows with the same tuple differ in the encoder alone.
all_but_encoder = attrgetter("task", *METHOD_CHOICES, *TASK_CHOICES, *SCORE_CHOICES)

NEGLIGIBLE = 0.05  # points that another processor or half precision moves a score by
ALLOWED_MISS = 0.25  # points by which an effect may miss a gap; half of a larger gap
CHOICES_NEAR_GAP = 10  # how many choices near a gap are shown

# The rows: measured scores in points by their protocols.
Scores = Mapping[Protocol, float]


@dataclass(frozen=True, kw_only=True)
class ChangedNames:
    """The names under which a changed protocol is measured; None for a name that stays."""

    method: str | None
    task: str | None
    score: tuple[str, str] | None  # metric and aggregation


@dataclass(frozen=True, kw_only=True)
class OtherChoice:
    """A change of one choice of a protocol, or of two, and by how many points it moves a score.

    Attributes:
        changes: The changed choices by name, with their new values.
        effects: The effect on each encoder, in points, at the nearest row that was
            measured with and without the change.
        differences: The choices in which this nearest row differs from the protocol.
        lowest: The lowest effect on any row.
        highest: The highest effect on any row.
        rows: The number of rows on which the effect was measured.
        names: The method, task and score under which the changed protocol is measured.
        traps: The numbers of the traps that show this choice, from 1.
        is_sum: Whether two effects are added that were not measured together.
    """

    changes: Mapping[str, str]
    effects: Mapping[str, float]
    differences: Mapping[str, str]
    lowest: float
    highest: float
    rows: int
    names: ChangedNames
    traps: tuple[int, ...]
    is_sum: bool = False

    @property
    def effect(self) -> float:
        """The mean effect over the encoders."""
        return fmean(self.effects.values())


# Measured rows and their distance from a protocol


def measured_scores(results: Results, registry: Registry, protocol: Protocol) -> Scores:
    """Every measured score of the protocol's task.

    If the protocol's metric is a correlation, the scores of all correlations and
    similarity functions are taken; otherwise the scores of its metric alone.
    """
    metrics: Iterable[str] = (protocol.metric,)
    if protocol.metric in CORRELATIONS:
        metrics = CORRELATION_SCORES
    scores: dict[Protocol, float] = {}
    for method, task_name in results.by_cell:
        task = registry.tasks.get(task_name)
        if task is None or task_name.partition(".")[0] != protocol.task:
            continue
        aggregations = _aggregations(protocol, task, results)
        for metric, aggregation in product(metrics, aggregations):
            path = (metric, aggregation) if aggregation else (metric,)
            score = results.value(method, task_name, *path).mean
            row = Protocol.from_score(method, task, metric, aggregation)
            if score is not None and row is not None:
                scores[row] = score
    return scores


def _aggregations(protocol: Protocol, task: Task, results: Results) -> Sequence[str]:
    """The aggregations under which a task has different scores: one if it has no subsets."""
    if not protocol.aggregation:
        return ("",)
    return AGGREGATIONS if len(results.subsets(task.name)) > 1 else ("all",)


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
    choices: dict[str, str] = {}
    for name in protocol.differences(row):
        if name not in ("encoder", "max_length"):
            choices[name] = getattr(row, name)
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


# Single choices


@dataclass(frozen=True, kw_only=True)
class Step:
    """Two rows that differ in one choice, and the effect of it.

    Attributes:
        start: The row with the protocol's value of the choice.
        end: The row with another value.
        effect: The score of `end` minus the score of `start`, in points.
    """

    start: Protocol
    end: Protocol
    effect: float


def single_choices(
    protocol: Protocol, scores: Scores, registry: Registry, traps: Sequence[Trap]
) -> list[OtherChoice]:
    """Every change of one choice whose effect was measured, the largest effect first.

    If an effect was measured on the protocol's encoder, the effects on others are left
    out.
    """
    rows_of_traps = [_rows_by_choice(trap, registry) for trap in traps]
    choices = []
    for names in SINGLE_CHOICES:
        steps_by_values: dict[tuple[str, ...], list[Step]] = defaultdict(list)
        for step in _steps(protocol, scores, names):
            values = tuple(getattr(step.end, name) for name in names)
            steps_by_values[values].append(step)
        for values, steps in steps_by_values.items():
            changes = dict(zip(names, values, strict=True))
            choice = _single_choice(protocol, changes, steps, registry, rows_of_traps)
            choices.append(choice)
    return sorted(choices, key=lambda choice: abs(choice.effect), reverse=True)


def _single_choice(
    protocol: Protocol,
    changes: Mapping[str, str],
    steps: Sequence[Step],
    registry: Registry,
    rows_of_traps: Sequence[RowsByChoice],
) -> OtherChoice:
    """A change of one choice, with the effects of the steps that make this change."""
    nearest = min(steps, key=lambda step: distance(step.start, protocol)).start
    # The rows of one encoder may differ in maximum length. The steps with the protocol's
    # length come last, so that their effect is the one that is kept.
    steps_in_order = sorted(
        steps, key=lambda step: step.start.max_length == protocol.max_length
    )
    effects: dict[str, float] = {}
    for step in steps_in_order:
        if all_but_encoder(step.start) == all_but_encoder(nearest):
            effects[step.start.encoder] = step.effect
    traps = []
    for number, rows_of_trap in enumerate(rows_of_traps, start=1):
        if _shows(rows_of_trap, protocol, changes):
            traps.append(number)
    return OtherChoice(
        changes=changes,
        effects=_prefer_encoder(protocol.encoder, effects),
        differences=other_choices(protocol, nearest),
        lowest=min(step.effect for step in steps),
        highest=max(step.effect for step in steps),
        rows=len(steps),
        names=_changed_names(protocol, changes, registry),
        traps=tuple(traps),
    )


def _prefer_encoder(encoder: str, effects: Mapping[str, float]) -> Mapping[str, float]:
    """The effect on this encoder alone if it was measured, else all effects."""
    if encoder in effects:
        return {encoder: effects[encoder]}
    return effects


def _steps(protocol: Protocol, scores: Scores, names: Sequence[str]) -> Iterator[Step]:
    """Each two rows that differ in the choices of these names, all of them and no others.

    The first row has the protocol's values of these choices, the second has others.
    Both rows have the protocol's task, and its metric and aggregation unless these are
    among the choices.
    """
    # Rows with the same score fields as the protocol are compared, and among these the
    # rows that agree in all choices but the named ones.
    fixed_score_names = [name for name in SCORE_CHOICES if name not in names]
    score_fields = attrgetter("task", *fixed_score_names)
    fixed_names = [name for name in vars(protocol) if name not in names]
    fixed_fields = attrgetter(*fixed_names)
    fields_of_protocol = score_fields(protocol)
    groups: dict[tuple[str, ...], list[Protocol]] = defaultdict(list)
    for row in scores:
        if score_fields(row) == fields_of_protocol:
            groups[fixed_fields(row)].append(row)
    for rows in groups.values():
        starts = [row for row in rows if _has_choices(row, protocol, names)]
        ends = [row for row in rows if _differ_in_all(row, protocol, names)]
        for start, end in product(starts, ends):
            if _differ_in_all(start, end, names):
                yield Step(start=start, end=end, effect=scores[end] - scores[start])


def _differ_in_all(first: Protocol, second: Protocol, names: Sequence[str]) -> bool:
    """Whether two protocols differ in every one of the choices of these names."""
    return all(getattr(first, name) != getattr(second, name) for name in names)


# Pairs of choices


def pairs_of_choices(
    protocol: Protocol,
    choices: Iterable[OtherChoice],
    scores: Scores,
    registry: Registry,
) -> Iterator[OtherChoice]:
    """Every change of two choices, measured together or else as the sum of two effects.

    Changes with a negligible effect are left out, and two changes of the same subject.
    """
    rows_by_choices: dict[tuple[str, ...], list[Protocol]] = defaultdict(list)
    for row in scores:
        rows_by_choices[all_but_encoder(row)].append(row)
    effective_choices = [
        choice for choice in choices if abs(choice.effect) >= NEGLIGIBLE
    ]
    for first, second in combinations(effective_choices, 2):
        if not _subjects(first).isdisjoint(_subjects(second)):
            continue
        changes = {**first.changes, **second.changes}
        # Both changes are made to the nearest row of the first or of the second, the one
        # that is nearer to the protocol.
        differences = min(first.differences, second.differences, key=len)
        start = replace(protocol, **differences)
        starts = rows_by_choices[all_but_encoder(start)]
        effects = _effects_together(protocol, changes, starts, scores)
        is_sum = not effects
        if is_sum:
            effects = _summed_effects(first, second)
            differences = {**first.differences, **second.differences}
        if not effects:
            continue
        yield OtherChoice(
            changes=changes,
            effects=effects,
            differences=differences,
            lowest=min(effects.values()),
            highest=max(effects.values()),
            rows=len(effects),
            names=_changed_names(protocol, changes, registry),
            traps=tuple(sorted({*first.traps, *second.traps})),
            is_sum=is_sum,
        )


def _subjects(choice: OtherChoice) -> set[str]:
    """The names of the changed choices, where a fit corpus counts as post-processing."""
    return {"post" if name == "fit_on" else name for name in choice.changes}


def _effects_together(
    protocol: Protocol,
    changes: Mapping[str, str],
    starts: Iterable[Protocol],
    scores: Scores,
) -> Mapping[str, float]:
    """The effects of several changes at once, starting from these rows, by encoder."""
    effects: dict[str, float] = {}
    for start in starts:
        end = replace(start, **changes)
        if end in scores and _has_choices(start, protocol, changes):
            effects[start.encoder] = scores[end] - scores[start]
    return _prefer_encoder(protocol.encoder, effects)


def _summed_effects(first: OtherChoice, second: OtherChoice) -> Mapping[str, float]:
    """The sum of two effects for each encoder on which both were measured."""
    encoders = sorted(first.effects.keys() & second.effects.keys())
    return {
        encoder: first.effects[encoder] + second.effects[encoder]
        for encoder in encoders
    }


def choices_near(gap: float, choices: Iterable[OtherChoice]) -> list[OtherChoice]:
    """The choices that move a score by about the gap on some encoder.

    Effects that were measured come before sums, and then those nearest to the gap.

    Args:
        gap: By how many points a reader's number is above the published one.
        choices: The choices with their effects.
    """
    allowed_miss = max(ALLOWED_MISS, abs(gap) / 2)
    near_choices = [c for c in choices if min(_misses(c, gap)) <= allowed_miss]
    near_choices.sort(key=lambda choice: (choice.is_sum, fmean(_misses(choice, gap))))
    return near_choices[:CHOICES_NEAR_GAP]


def _misses(choice: OtherChoice, gap: float) -> list[float]:
    """The distance of a choice's effect from a gap, for each encoder, in points."""
    return [abs(effect - gap) for effect in choice.effects.values()]


# How a choice is made, and which traps show it


def _changed_names(
    protocol: Protocol, changes: Mapping[str, str], registry: Registry
) -> ChangedNames:
    """The names under which the changed protocol is measured."""
    changed_protocol = replace(protocol, **changes)
    # A similarity function other than the cosine is a choice among the scores of a
    # record; a regression is another task.
    score_choices = [*SCORE_CHOICES]
    if changed_protocol.has_similarity:
        score_choices.append("scored_by")
    task_choices = [name for name in TASK_CHOICES if name not in score_choices]
    method_changes = _changes_among(("max_length", *METHOD_CHOICES), changes)
    task_changes = _changes_among(task_choices, changes)
    score_changes = _changes_among(score_choices, changes)

    method = _method_id(changed_protocol)
    task, score = None, None
    if task_changes:
        task = _nearest_task(changed_protocol, method, task_changes, registry)
    if score_changes:
        score = (changed_protocol.score, changed_protocol.aggregation)
    return ChangedNames(
        method=method if method_changes else None, task=task, score=score
    )


def _changes_among(names: Iterable[str], changes: Mapping[str, str]) -> list[str]:
    """The names among these whose choices are changed."""
    return [name for name in names if name in changes]


def _method_id(protocol: Protocol) -> str:
    """The id of the method of a protocol."""
    encoder = protocol.encoder
    if protocol.max_length:
        encoder = f"{encoder}:{protocol.max_length}"
    posts = tuple(protocol.post.split("+")[1:])
    return str(MethodId(encoder, protocol.pooling, posts, protocol.fit_on or None))


def _nearest_task(
    changed_protocol: Protocol, method: str, names: Sequence[str], registry: Registry
) -> str | None:
    """The task that has the changed choices of these names and differs least in others."""
    choices = attrgetter("task", *names)
    difference_counts: dict[str, int] = {}
    for task in registry.tasks.values():
        candidate = Protocol.from_score(method, task, changed_protocol.metric)
        if candidate is not None and choices(candidate) == choices(changed_protocol):
            difference_counts[task.name] = len(changed_protocol.differences(candidate))
    return min(difference_counts, key=difference_counts.__getitem__, default=None)


# The rows of a trap as protocols, for each choice that the trap is about.
RowsByChoice = Mapping[str, Sequence[Protocol]]


def _rows_by_choice(trap: Trap, registry: Registry) -> RowsByChoice:
    """The rows of a trap as protocols, for each choice that the trap is about."""
    protocols = []
    for row in trap.rows:
        task = registry.tasks.get(row.task)
        if task is None:
            continue
        protocol = Protocol.from_score(row.method, task, *row.score[:2])
        if protocol is not None:
            protocols.append(protocol)
    return dict.fromkeys(trap.about, protocols)


def _shows(
    rows_of_trap: RowsByChoice, protocol: Protocol, changes: Mapping[str, str]
) -> bool:
    """Whether a trap shows these changes.

    It does if for each changed choice it has rows with the protocol's value and rows
    with the new value.
    """
    for name, value in changes.items():
        rows = rows_of_trap.get(name, ())
        has_new_value = any(getattr(row, name) == value for row in rows)
        has_protocols_value = any(_has_choices(row, protocol, [name]) for row in rows)
        if not (has_new_value and has_protocols_value):
            return False
    return True
