"""What each choice of a protocol does to a score, by the rows that were measured both ways.

A row is a measured score under its protocol. The effect of a choice is the difference
between two rows that differ in this choice alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from operator import attrgetter
from statistics import fmean

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
    *((name,) for name in (*METHOD_CHOICES, *TASK_CHOICES, *SCORE_CHOICES)),
    ("post", "fit_on"),
)
# All choices but the encoder and its maximum length, as a tuple.
choices_of = attrgetter("task", *METHOD_CHOICES, *TASK_CHOICES, *SCORE_CHOICES)

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
        for metric, aggregation in product(
            metrics, _aggregations(wanted, task, results)
        ):
            path = (metric, aggregation) if aggregation else (metric,)
            score = results.value(method, task_name, *path).mean
            protocol = Protocol.from_score(method, task, metric, aggregation)
            if score is not None and protocol is not None:
                scores[protocol] = score
    return scores


def _aggregations(wanted: Protocol, task: Task, results: Results) -> Sequence[str]:
    """The aggregations of a task's scores; of a single set all are one."""
    if not wanted.aggregation:
        return ("",)
    return AGGREGATIONS if len(results.subsets(task.name)) > 1 else ("all",)


def nearest_rows(wanted: Protocol, measured: Scores) -> Scores:
    """The nearest measured row to one that was not, and the nearest with a corpus of its kind."""
    if wanted in measured:
        return {}
    rows_by_encoder = Counter(protocol.encoder for protocol in measured)

    def order(row: Protocol) -> tuple[tuple[int, bool, bool, int], bool, int]:
        is_other_encoder = row.encoder != wanted.encoder
        return distance(row, wanted), is_other_encoder, -rows_by_encoder[row.encoder]

    rows = sorted((row for row in measured if row.metric == wanted.metric), key=order)
    with_corpus = [row for row in rows if is_corpus_of_kind(row.fit_on, wanted.fit_on)]
    return {row: measured[row] for row in (*rows[:1], *with_corpus[:1])}


def other_choices(wanted: Protocol, row: Protocol) -> dict[str, str]:
    """What a row has in place of the wanted choices, whatever its encoder."""
    names = wanted.differences(row)
    return {
        name: getattr(row, name)
        for name in names
        if name not in ("encoder", "max_length")
    }


def distance(row: Protocol, wanted: Protocol) -> tuple[int, bool, bool, int]:
    """How far a row is from a protocol, to be ordered by.

    First in how many choices it differs: a post-processor with its fit corpus is one,
    and a corpus of the wanted kind is none. Then whether the corpus is of another kind,
    then whether the post-processor is another one.
    """
    differences = other_choices(wanted, row)
    same_kind = is_corpus_of_kind(row.fit_on, wanted.fit_on)
    choices = len(differences)
    if same_kind or {"post", "fit_on"} <= differences.keys():
        choices -= 1
    other_post = row.post.partition(":")[0] != wanted.post.partition(":")[0]
    return choices, not same_kind, other_post, len(differences)


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
    trap_rows = [_rows_by_choice(trap, registry) for trap in traps]
    choices = []
    for names in SINGLE_CHOICES:
        steps_by_values: dict[tuple[str, ...], list[Step]] = defaultdict(list)
        for step in _steps(wanted, measured, names):
            values = tuple(getattr(step.end, name) for name in names)
            steps_by_values[values].append(step)
        for values, steps in steps_by_values.items():
            changes = dict(zip(names, values, strict=True))
            choices.append(_single_choice(wanted, changes, steps, registry, trap_rows))
    return sorted(choices, key=lambda choice: -abs(choice.effect))


def _single_choice(
    wanted: Protocol,
    changes: Mapping[str, str],
    steps: Sequence[Step],
    registry: Registry,
    trap_rows: Sequence[RowsByChoice],
) -> OtherChoice:
    """A choice by all steps that were measured of it."""
    nearest = min(steps, key=lambda step: distance(step.start, wanted)).start
    effects: dict[str, float] = {}
    # Of one encoder with several maximum lengths, the wanted length is the last and
    # counts.
    for step in sorted(
        steps, key=lambda step: step.start.max_length == wanted.max_length
    ):
        if choices_of(step.start) == choices_of(nearest):
            effects[step.start.encoder] = step.effect
    return OtherChoice(
        changes=changes,
        effects=_preferring(wanted.encoder, effects),
        differences=other_choices(wanted, nearest),
        lowest=min(step.effect for step in steps),
        highest=max(step.effect for step in steps),
        rows=len(steps),
        names=_changed_names(wanted, changes, registry),
        traps=tuple(
            number
            for number, rows in enumerate(trap_rows, start=1)
            if _shows(rows, wanted, changes)
        ),
    )


def _preferring(encoder: str, effects: Mapping[str, float]) -> Mapping[str, float]:
    """The effect on the encoder itself if it was measured, else the effects on all others."""
    return {encoder: effects[encoder]} if encoder in effects else effects


def _steps(wanted: Protocol, measured: Scores, names: Sequence[str]) -> Iterator[Step]:
    """Each two rows that differ in the choices of these names, all of them and no others."""
    fixed = attrgetter("task", *(name for name in SCORE_CHOICES if name not in names))
    other_fields = attrgetter(*(name for name in vars(wanted) if name not in names))
    wanted_values = fixed(wanted)
    groups: dict[tuple[str, ...], list[Protocol]] = defaultdict(list)
    for row in measured:
        if fixed(row) == wanted_values:
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
    """Every two choices, measured together or, where they were not, as the sum of two effects."""
    rows_by_choices: dict[tuple[str, ...], list[Protocol]] = defaultdict(list)
    for row in measured:
        rows_by_choices[choices_of(row)].append(row)
    moving = [choice for choice in single if abs(choice.effect) >= NEGLIGIBLE]
    for first, second in combinations(moving, 2):
        if _subjects(first) & _subjects(second):
            continue
        changes = {**first.changes, **second.changes}
        # Together they were measured at the row that is nearer to the protocol.
        differences = min(first.differences, second.differences, key=len)
        starts = rows_by_choices[choices_of(replace(wanted, **differences))]
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
    """The effects of several changes at once, by encoder."""
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
    """The choices that move a score by about the gap on some encoder, measured ones first."""
    allowed = max(ALLOWED_MISS, abs(gap) / 2)
    near: list[tuple[bool, float, OtherChoice]] = []
    for choice in choices:
        misses = [abs(effect - gap) for effect in choice.effects.values()]
        if min(misses) <= allowed:
            near.append((choice.is_sum, fmean(misses), choice))
    near.sort(key=lambda item: item[:2])
    return [choice for *_, choice in near[:CHOICES_NEAR_GAP]]


# How a choice is made, and which traps show it


def _changed_names(
    wanted: Protocol, changes: Mapping[str, str], registry: Registry
) -> ChangedNames:
    """The names of method, task and score under the changed protocol, where they differ."""
    changed = replace(wanted, **changes)
    encoder = (
        f"{changed.encoder}:{changed.max_length}"
        if changed.max_length
        else changed.encoder
    )
    posts = tuple(changed.post.split("+")[1:])
    method = str(MethodId(encoder, changed.pooling, posts, changed.fit_on or None))
    # A similarity function is a choice among the scores of one record; a regression is
    # a task.
    score_choices = {*SCORE_CHOICES}
    if changed.has_similarity:
        score_choices.add("scored_by")
    changes_method = not changes.keys().isdisjoint(("max_length", *METHOD_CHOICES))
    changes_score = not changes.keys().isdisjoint(score_choices)
    task_changes = [
        name for name in TASK_CHOICES if name in changes.keys() - score_choices
    ]
    return ChangedNames(
        method=method if changes_method else None,
        task=_nearest_task(changed, method, task_changes, registry)
        if task_changes
        else None,
        score=(changed.score, changed.aggregation) if changes_score else None,
    )


def _nearest_task(
    changed: Protocol, method: str, names: Sequence[str], registry: Registry
) -> str | None:
    """The task with the changed choices of these names that differs least in others."""
    wanted_choices = attrgetter("task", *names)
    differences: dict[str, int] = {}
    for task in registry.tasks.values():
        protocol = Protocol.from_score(method, task, changed.metric)
        if protocol is not None and wanted_choices(protocol) == wanted_choices(changed):
            differences[task.name] = len(changed.differences(protocol))
    return min(differences, key=differences.__getitem__, default=None)


# Of a trap, the protocols of its rows by the choices that it is about.
RowsByChoice = Mapping[str, Sequence[Protocol]]


def _rows_by_choice(trap: Trap, registry: Registry) -> RowsByChoice:
    """The protocols of a trap's rows, for each choice that the trap is about."""
    protocols = []
    for row in trap.rows:
        task = registry.tasks.get(row.task)
        protocol = (
            Protocol.from_score(row.method, task, *row.score[:2]) if task else None
        )
        if protocol is not None:
            protocols.append(protocol)
    return dict.fromkeys(trap.about, protocols)


def _shows(
    trap_rows: RowsByChoice, wanted: Protocol, changes: Mapping[str, str]
) -> bool:
    """Whether a trap is about all that changes, with rows of the wanted and of the other value."""
    for name, value in changes.items():
        rows = trap_rows.get(name, ())
        has_other = any(getattr(row, name) == value for row in rows)
        has_wanted = any(_has_choices(row, wanted, [name]) for row in rows)
        if not (has_other and has_wanted):
            return False
    return True
