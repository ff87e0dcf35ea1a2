"""What each choice of a protocol does to a score, by the rows that were measured both ways.

A row is a measured score under its protocol. The effect of a choice is the difference
between two rows that differ in this choice alone. The protocol of the published number,
here the wanted protocol, is often not among the rows. Then the rows that are nearest to
it are compared.
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

# What counts as one choice. Another post-processor with a fit corpus of its own is one,
# too.
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
# tuple: rows that agree in them differ in the encoder alone.
all_but_encoder = attrgetter("task", *METHOD_CHOICES, *TASK_CHOICES, *SCORE_CHOICES)

NEGLIGIBLE = 0.05  # points: as much as another processor or a half precision moves
ALLOWED_MISS = 0.25  # points by which an effect may miss a gap, or half of the gap
CHOICES_NEAR_GAP = 10  # how many choices near a gap are shown

# Measured scores in points by their protocols, each a row.
Scores = Mapping[Protocol, float]


@dataclass(frozen=True, kw_only=True)
class ChangedNames:
    """The names that measure a changed protocol; None for what a change leaves as it was."""

    method: str | None
    task: str | None
    score: tuple[str, str] | None  # metric and aggregation


@dataclass(frozen=True, kw_only=True)
class OtherChoice:
    """One choice other than a protocol's, or two, and by how many points it moves a score.

    Attributes:
        changes: The other choices by name.
        effects: The effect on each encoder, in points, at the nearest row that was
            measured with and without the choice.
        differences: In which choices that row differs from the protocol, by name.
        lowest: The lowest effect on any row.
        highest: The highest effect on any row.
        rows: On how many rows the effect was measured.
        names: The method, task and score that measure the changed protocol.
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


def measured_scores(results: Results, registry: Registry, wanted: Protocol) -> Scores:
    """Every measured score of the wanted task, under every metric of the wanted kind."""
    metrics = CORRELATION_SCORES if wanted.metric in CORRELATIONS else (wanted.metric,)
    scores: dict[Protocol, float] = {}
    for method, task_name in results.by_cell:
        task = registry.tasks.get(task_name)
        if task is None or task_name.partition(".")[0] != wanted.task:
            continue
        aggregations = _aggregations(wanted, task, results)
        for metric, aggregation in product(metrics, aggregations):
            path = (metric, aggregation) if aggregation else (metric,)
            score = results.value(method, task_name, *path).mean
            protocol = Protocol.from_score(method, task, metric, aggregation)
            if score is not None and protocol is not None:
                scores[protocol] = score
    return scores


def _aggregations(wanted: Protocol, task: Task, results: Results) -> Sequence[str]:
    """The aggregations that tell a task's scores apart: one for a task without subsets."""
    if not wanted.aggregation:
        return ("",)
    return AGGREGATIONS if len(results.subsets(task.name)) > 1 else ("all",)


def nearest_rows(wanted: Protocol, measured: Scores) -> Scores:
    """The measured rows that are nearest to a protocol; none where it was measured itself.

    They are the nearest of all, and the nearest that is fitted on a corpus of the
    wanted kind, if there is one.
    """
    if wanted in measured:
        return {}
    rows_by_encoder = Counter(row.encoder for row in measured)

    def order(row: Protocol) -> tuple[Distance, bool, int]:
        """Nearest first; of equals the wanted encoder's, then the most measured one's."""
        is_other_encoder = row.encoder != wanted.encoder
        return distance(row, wanted), is_other_encoder, -rows_by_encoder[row.encoder]

    rows = [row for row in measured if row.metric == wanted.metric]
    with_corpus = [row for row in rows if is_corpus_of_kind(row.fit_on, wanted.fit_on)]
    nearest: dict[Protocol, float] = {}
    for candidates in (rows, with_corpus):
        if candidates:
            row = min(candidates, key=order)
            nearest[row] = measured[row]
    return nearest


def other_choices(wanted: Protocol, row: Protocol) -> dict[str, str]:
    """The choices of a row that differ from the wanted ones, whatever its encoder."""
    choices: dict[str, str] = {}
    for name in wanted.differences(row):
        if name not in ("encoder", "max_length"):
            choices[name] = getattr(row, name)
    return choices


class Distance(NamedTuple):
    """How far a row is from a protocol: the first field decides, then the second, and so on.

    Attributes:
        choices: In how many choices it differs. A post-processor with its fit corpus is
            one choice, and a corpus of the wanted kind is none.
        is_other_corpus: Whether its corpus is not of the wanted kind.
        is_other_post: Whether its post-processor is another one.
        fields: In how many fields it differs.
    """

    choices: int
    is_other_corpus: bool
    is_other_post: bool
    fields: int


def distance(row: Protocol, wanted: Protocol) -> Distance:
    """How far a row is from a protocol."""
    differences = other_choices(wanted, row)
    is_same_kind = is_corpus_of_kind(row.fit_on, wanted.fit_on)
    choices = len(differences)
    if is_same_kind or {"post", "fit_on"} <= differences.keys():
        choices -= 1
    return Distance(
        choices=choices,
        is_other_corpus=not is_same_kind,
        is_other_post=row.post.partition(":")[0] != wanted.post.partition(":")[0],
        fields=len(differences),
    )


def is_corpus_of_kind(corpus: str, wanted: str) -> bool:
    """Whether a fit corpus is another one of the wanted kind, as `snli-18k` is for `nli`."""
    return wanted != "" and wanted != corpus and wanted in corpus


def _has_choices(row: Protocol, wanted: Protocol, names: Iterable[str]) -> bool:
    """Whether a row has the wanted choices of these names; a fit corpus may be of the kind."""
    for name in names:
        value, wanted_value = getattr(row, name), getattr(wanted, name)
        same_kind = name == "fit_on" and is_corpus_of_kind(value, wanted_value)
        if value != wanted_value and not same_kind:
            return False
    return True


# Single choices


@dataclass(frozen=True, kw_only=True)
class Step:
    """Two rows that differ in one choice, which the first has as wanted, and the effect."""

    start: Protocol
    end: Protocol
    effect: float


def single_choices(
    wanted: Protocol, measured: Scores, registry: Registry, traps: Sequence[Trap]
) -> list[OtherChoice]:
    """Every other choice whose effect was measured, the largest effect first.

    Where an effect was measured on the wanted encoder, it is the effect on this encoder
    alone.
    """
    rows_of_traps = [_rows_by_choice(trap, registry) for trap in traps]
    choices = []
    for names in SINGLE_CHOICES:
        steps_by_values: dict[tuple[str, ...], list[Step]] = defaultdict(list)
        for step in _steps(wanted, measured, names):
            values = tuple(getattr(step.end, name) for name in names)
            steps_by_values[values].append(step)
        for values, steps in steps_by_values.items():
            changes = dict(zip(names, values, strict=True))
            choice = _single_choice(wanted, changes, steps, registry, rows_of_traps)
            choices.append(choice)
    return sorted(choices, key=lambda choice: abs(choice.effect), reverse=True)


def _single_choice(
    wanted: Protocol,
    changes: Mapping[str, str],
    steps: Sequence[Step],
    registry: Registry,
    rows_of_traps: Sequence[RowsByChoice],
) -> OtherChoice:
    """A choice by all steps that were measured of it."""
    nearest = min(steps, key=lambda step: distance(step.start, wanted)).start
    # The rows of one encoder may differ in maximum length. The wanted length is put
    # last, so that its effect is the one that is kept.
    steps_in_order = sorted(
        steps, key=lambda step: step.start.max_length == wanted.max_length
    )
    effects: dict[str, float] = {}
    for step in steps_in_order:
        if all_but_encoder(step.start) == all_but_encoder(nearest):
            effects[step.start.encoder] = step.effect
    traps = []
    for number, rows_of_trap in enumerate(rows_of_traps, start=1):
        if _shows(rows_of_trap, wanted, changes):
            traps.append(number)
    return OtherChoice(
        changes=changes,
        effects=_preferring(wanted.encoder, effects),
        differences=other_choices(wanted, nearest),
        lowest=min(step.effect for step in steps),
        highest=max(step.effect for step in steps),
        rows=len(steps),
        names=_changed_names(wanted, changes, registry),
        traps=tuple(traps),
    )


def _preferring(encoder: str, effects: Mapping[str, float]) -> Mapping[str, float]:
    """The effect on the encoder itself if it was measured, else the effects on all others."""
    return {encoder: effects[encoder]} if encoder in effects else effects


def _steps(wanted: Protocol, measured: Scores, names: Sequence[str]) -> Iterator[Step]:
    """Each two rows that differ in the choices of these names, all of them and no others.

    Both have the wanted task and, where these are not the choices, the wanted metric
    and aggregation. The first row has the wanted choices.
    """
    score_names = [name for name in SCORE_CHOICES if name not in names]
    score_fields = attrgetter("task", *score_names)
    other_names = [name for name in vars(wanted) if name not in names]
    other_fields = attrgetter(*other_names)
    wanted_score = score_fields(wanted)
    groups: dict[tuple[str, ...], list[Protocol]] = defaultdict(list)
    for row in measured:
        if score_fields(row) == wanted_score:
            groups[other_fields(row)].append(row)
    for rows in groups.values():
        starts = [row for row in rows if _has_choices(row, wanted, names)]
        for start, end in product(starts, rows):
            if _differ_in_all(start, end, names) and _differ_in_all(wanted, end, names):
                yield Step(start=start, end=end, effect=measured[end] - measured[start])


def _differ_in_all(first: Protocol, second: Protocol, names: Sequence[str]) -> bool:
    return all(getattr(first, name) != getattr(second, name) for name in names)


# Pairs of choices


def pairs_of_choices(
    wanted: Protocol,
    single: Iterable[OtherChoice],
    measured: Scores,
    registry: Registry,
) -> Iterator[OtherChoice]:
    """Every two choices, measured together or, where they were not, as the sum of two effects.

    Choices without an effect are left out, and two choices about the same subject.
    """
    rows_by_choices: dict[tuple[str, ...], list[Protocol]] = defaultdict(list)
    for row in measured:
        rows_by_choices[all_but_encoder(row)].append(row)
    moving = [choice for choice in single if abs(choice.effect) >= NEGLIGIBLE]
    for first, second in combinations(moving, 2):
        if not _subjects(first).isdisjoint(_subjects(second)):
            continue
        changes = {**first.changes, **second.changes}
        # If they were measured together, then from the row that is nearer to the
        # protocol.
        differences = min(first.differences, second.differences, key=len)
        start = replace(wanted, **differences)
        starts = rows_by_choices[all_but_encoder(start)]
        effects = _effects_together(wanted, changes, starts, measured)
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
            names=_changed_names(wanted, changes, registry),
            traps=tuple(sorted({*first.traps, *second.traps})),
            is_sum=is_sum,
        )


def _subjects(choice: OtherChoice) -> set[str]:
    """What a choice is about; a fit corpus is part of the post-processing."""
    return {"post" if name == "fit_on" else name for name in choice.changes}


def _effects_together(
    wanted: Protocol,
    changes: Mapping[str, str],
    starts: Iterable[Protocol],
    measured: Scores,
) -> Mapping[str, float]:
    """The effects of several changes at once from each of some rows, by encoder."""
    effects: dict[str, float] = {}
    for start in starts:
        end = replace(start, **changes)
        if end in measured and _has_choices(start, wanted, changes):
            effects[start.encoder] = measured[end] - measured[start]
    return _preferring(wanted.encoder, effects)


def _summed_effects(first: OtherChoice, second: OtherChoice) -> Mapping[str, float]:
    """The sums of two effects, on the encoders on which both were measured."""
    encoders = sorted(first.effects.keys() & second.effects.keys())
    return {
        encoder: first.effects[encoder] + second.effects[encoder]
        for encoder in encoders
    }


def choices_near(gap: float, choices: Iterable[OtherChoice]) -> list[OtherChoice]:
    """The choices that move a score by about the gap on some encoder, measured ones first.

    Among those that were measured, and among sums, the nearest to the gap come first.
    """
    allowed_miss = max(ALLOWED_MISS, abs(gap) / 2)
    near_choices: list[tuple[bool, float, OtherChoice]] = []
    for choice in choices:
        misses = [abs(effect - gap) for effect in choice.effects.values()]
        if min(misses) <= allowed_miss:
            near_choices.append((choice.is_sum, fmean(misses), choice))
    near_choices.sort(key=lambda item: item[:2])
    return [choice for _, _, choice in near_choices[:CHOICES_NEAR_GAP]]


# How a choice is made, and which traps show it


def _changed_names(
    wanted: Protocol, changes: Mapping[str, str], registry: Registry
) -> ChangedNames:
    """The names of method, task and score under the changed protocol, where they differ."""
    changed = replace(wanted, **changes)
    # A similarity function other than the cosine is a choice among the scores of a
    # record; a regression is another task.
    score_choices = [*SCORE_CHOICES]
    if changed.has_similarity:
        score_choices.append("scored_by")
    task_choices = [name for name in TASK_CHOICES if name not in score_choices]
    method_changes = _changes_among(("max_length", *METHOD_CHOICES), changes)
    task_changes = _changes_among(task_choices, changes)
    score_changes = _changes_among(score_choices, changes)

    method = _method_id(changed)
    task, score = None, None
    if task_changes:
        task = _nearest_task(changed, method, task_changes, registry)
    if score_changes:
        score = (changed.score, changed.aggregation)
    return ChangedNames(
        method=method if method_changes else None, task=task, score=score
    )


def _changes_among(names: Iterable[str], changes: Mapping[str, str]) -> list[str]:
    """The names of choices that are changed."""
    return [name for name in names if name in changes]


def _method_id(protocol: Protocol) -> str:
    """The id of the method of a protocol."""
    encoder = protocol.encoder
    if protocol.max_length:
        encoder = f"{encoder}:{protocol.max_length}"
    posts = tuple(protocol.post.split("+")[1:])
    return str(MethodId(encoder, protocol.pooling, posts, protocol.fit_on or None))


def _nearest_task(
    changed: Protocol, method: str, names: Sequence[str], registry: Registry
) -> str | None:
    """The task with the changed choices of these names that differs least in others."""
    wanted_choices = attrgetter("task", *names)
    differences_by_task: dict[str, int] = {}
    for task in registry.tasks.values():
        protocol = Protocol.from_score(method, task, changed.metric)
        if protocol is not None and wanted_choices(protocol) == wanted_choices(changed):
            differences_by_task[task.name] = len(changed.differences(protocol))
    return min(differences_by_task, key=differences_by_task.__getitem__, default=None)


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
    rows_of_trap: RowsByChoice, wanted: Protocol, changes: Mapping[str, str]
) -> bool:
    """Whether a trap is about all that changes, with rows of the wanted and of the other value."""
    for name, value in changes.items():
        rows = rows_of_trap.get(name, ())
        has_other = any(getattr(row, name) == value for row in rows)
        has_wanted = any(_has_choices(row, wanted, [name]) for row in rows)
        if not (has_other and has_wanted):
            return False
    return True
