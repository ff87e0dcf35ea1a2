"""What each choice of a protocol does to a score, by the rows that were measured both ways."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, product
from operator import attrgetter
from statistics import fmean

from harness.core.metrics.similarity import CORRELATION_SCORES, CORRELATIONS
from harness.core.types import AGGREGATIONS, MethodId
from harness.registry import Registry
from harness.results.index import Results
from harness.results.protocols import Protocol
from harness.results.questions import Trap

OF_METHOD, OF_TASK = ("pooling", "post", "fit_on"), ("text", "split", "scored_by")
OF_SCORE = ("metric", "aggregation")  # any record has them all
# What one choice changes; another post-processor and another corpus for it are one.
SINGLE = ("max_length", *OF_METHOD, *OF_TASK, *OF_SCORE)
FIELDS = [*((name,) for name in SINGLE), ("post", "fit_on")]
ROW = attrgetter("task", *OF_METHOD, *OF_TASK, *OF_SCORE)  # all but the encoder and its length
LEAST = 0.25  # points by which an effect may miss the gap, or half of the gap
NOTHING = 0.05  # points: what moves a score by less adds nothing to another choice
MOST = 10  # choices that come near a gap

Scores = Mapping[Protocol, float]


@dataclass(frozen=True)
class OtherChoice:
    """One choice other than a protocol's, or two, and by how many points it moves a score.

    `effects` are by encoder, on the row that differs `at` these fields: the nearest one measured
    with and without the choice. `low` and `high` bound the effects on all `rows` that were. An id,
    task or score is what it is `made_by`; the `traps` of these numbers show it. A sum adds two
    effects that were not measured together.
    """

    changes: Mapping[str, str]
    effects: Mapping[str, float]
    at: Mapping[str, str]
    low: float
    high: float
    rows: int
    made_by: str
    traps: tuple[int, ...]
    is_sum: bool = False

    @property
    def effect(self) -> float:
        """The mean over the encoders."""
        return fmean(self.effects.values())


def measured_scores(results: Results, registry: Registry, wanted: Protocol) -> Scores:
    """Every measured score of the wanted task, under every metric of the wanted kind."""
    metrics = CORRELATION_SCORES if wanted.metric in CORRELATIONS else (wanted.metric,)
    measured: dict[Protocol, float] = {}
    for method, name in results.by_cell:
        task = registry.tasks.get(name)
        if task is None or name.partition(".")[0] != wanted.task:
            continue
        single = len(results.subsets(name)) <= 1
        ways = ("",) if not wanted.aggregation else ("all",) if single else AGGREGATIONS
        for metric, way in product(metrics, ways):
            value = results.value(method, name, *filter(None, (metric, way))).mean
            protocol = Protocol.of(method, task, metric, way)
            if value is not None and protocol is not None:
                measured[protocol] = value
    return measured


def nearest_rows(wanted: Protocol, measured: Scores) -> Scores:
    """The nearest measured row to one that was not, and the nearest with a corpus of its kind."""
    often = Counter(protocol.encoder for protocol in measured)
    rows = [row for row in measured if row.metric == wanted.metric and wanted not in measured]
    rows.sort(
        key=lambda row: (distance(row, wanted), row.encoder != wanted.encoder, -often[row.encoder])
    )
    of_kind = [row for row in rows if is_of_kind(row.fit_on, wanted.fit_on)]
    return {row: measured[row] for row in (*rows[:1], *of_kind[:1])}


def other_choices(wanted: Protocol, row: Protocol) -> dict[str, str]:
    """What a row has in place of the wanted choices, whatever its encoder."""
    names = (name for name in wanted.differences(row) if name not in ("encoder", "max_length"))
    return {name: getattr(row, name) for name in names}


def distance(row: Protocol, wanted: Protocol) -> tuple[int, bool, bool, int]:
    """In how many choices a row differs; a fit corpus of the wanted kind is nearer than another."""
    differs_in, related = other_choices(wanted, row), is_of_kind(row.fit_on, wanted.fit_on)
    choices = len(differs_in) - (related or {"post", "fit_on"} <= differs_in.keys())
    other_family = row.post.partition(":")[0] != wanted.post.partition(":")[0]
    return choices, not related, other_family, len(differs_in)


def is_of_kind(corpus: str, wanted: str) -> bool:
    """Whether a fit corpus is another one of the wanted kind, as `snli-18k` is for `nli`."""
    return wanted != "" and wanted != corpus and wanted in corpus


def single_choices(
    wanted: Protocol, measured: Scores, registry: Registry, traps: Sequence[Trap]
) -> list[OtherChoice]:
    """Every other choice of which an effect was measured, that with the largest one first.

    It is that on the wanted encoder where it was measured there.
    """
    of_traps = [_protocols(trap, registry) for trap in traps]
    choices = []
    for fields in FIELDS:
        by_value: dict[tuple[str, ...], list[tuple[Protocol, float]]] = defaultdict(list)
        for start, end in _steps(wanted, measured, fields):
            chosen = tuple(getattr(end, name) for name in fields)
            by_value[chosen].append((start, measured[end] - measured[start]))
        for chosen, steps in by_value.items():
            changes = dict(zip(fields, chosen, strict=True))
            nearest, _ = min(steps, key=lambda step: distance(step[0], wanted))
            steps.sort(key=lambda step: step[0].max_length == wanted.max_length)  # its own last
            effects = {start.encoder: by for start, by in steps if ROW(start) == ROW(nearest)}
            every = [by for _, by in steps]
            choices.append(
                OtherChoice(
                    changes,
                    _on(wanted.encoder, effects),
                    other_choices(wanted, nearest),
                    min(every),
                    max(every),
                    len(every),
                    _made_by(wanted, changes, registry),
                    tuple(n for n, of in enumerate(of_traps, 1) if _shows(of, wanted, changes)),
                )
            )
    return sorted(choices, key=lambda choice: -abs(choice.effect))


def pairs_of_choices(
    wanted: Protocol, single: Iterable[OtherChoice], measured: Scores, registry: Registry
) -> Iterator[OtherChoice]:
    """Each two choices: measured together on the nearer row of both, or the sum of their effects.

    A sum needs an encoder on which both were measured.
    """
    rows: dict[tuple[str, ...], list[Protocol]] = defaultdict(list)
    for protocol in measured:
        rows[ROW(protocol)].append(protocol)
    moving = [choice for choice in single if abs(choice.effect) >= NOTHING]
    for first, second in combinations(moving, 2):
        kinds = [{"post" if n == "fit_on" else n for n in c.changes} for c in (first, second)]
        if kinds[0] & kinds[1]:
            continue
        changes, at = {**first.changes, **second.changes}, min(first.at, second.at, key=len)
        ends = {start: replace(start, **changes) for start in rows[ROW(replace(wanted, **at))]}
        together = {
            start.encoder: measured[end] - measured[start]
            for start, end in ends.items()
            if end in measured and _stands_for(start, wanted, changes)
        }
        effects, shared = _on(wanted.encoder, together), first.effects.keys() & second.effects
        added = {name: first.effects[name] + second.effects[name] for name in sorted(shared)}
        if every := [*(effects or added).values()]:
            yield OtherChoice(
                changes,
                effects or added,
                at if effects else {**first.at, **second.at},
                min(every),
                max(every),
                len(every),
                _made_by(wanted, changes, registry),
                tuple(sorted({*first.traps, *second.traps})),
                is_sum=not effects,
            )


def near(gap: float, choices: Iterable[OtherChoice]) -> list[OtherChoice]:
    """The choices that move a score by about the gap on some encoder, measured ones first."""
    missed = [(c, [abs(effect - gap) for effect in c.effects.values()]) for c in choices]
    close = [(c, fmean(by)) for c, by in missed if min(by) <= max(LEAST, abs(gap) / 2)]
    return [c for c, _ in sorted(close, key=lambda pair: (pair[0].is_sum, pair[1]))[:MOST]]


def _on(encoder: str, effects: Mapping[str, float]) -> Mapping[str, float]:
    """The effect on the encoder itself if it was measured, else on every other."""
    return {encoder: effects[encoder]} if encoder in effects else effects


def _made_by(wanted: Protocol, changes: Mapping[str, str], registry: Registry) -> str:
    """The method id, the task and the score of the changed protocol, those that differ."""
    other, changed = replace(wanted, **changes), changes.keys()
    encoder = ":".join(filter(None, (other.encoder, other.max_length)))
    posts = tuple(other.post.split("+")[1:])
    method = str(MethodId(encoder, other.pooling, posts, other.fit_on or None))
    made = [f"-m '{method}'"] if {"max_length", *OF_METHOD} & changed else []
    # A similarity function is a choice among the scores of one record.
    if of_task := {*OF_TASK} & changed - ({"scored_by"} if other.has_similarity else set()):
        same = attrgetter("task", *of_task)
        every = ((t.name, Protocol.of(method, t, other.metric)) for t in registry.tasks.values())
        tasks = {n: len(other.differences(p)) for n, p in every if p and same(p) == same(other)}
        made += [f"-t {name}" for name in sorted(tasks, key=tasks.__getitem__)[:1]]
    if {*OF_SCORE} & changed or (other.has_similarity and "scored_by" in changed):
        made.append(f"score {other.score} {other.aggregation}".rstrip())
    return ", ".join(made)


def _steps(
    wanted: Protocol, measured: Scores, fields: Sequence[str]
) -> Iterator[tuple[Protocol, Protocol]]:
    """Each two rows that differ in all these fields and no others; the first as wanted in them."""
    others = attrgetter(*(name for name in vars(wanted) if name not in fields))
    kept = attrgetter("task", *(name for name in OF_SCORE if name not in fields))
    groups: dict[tuple[str, ...], list[Protocol]] = defaultdict(list)
    for protocol in (row for row in measured if kept(row) == kept(wanted)):
        groups[others(protocol)].append(protocol)
    for group in groups.values():
        starts = [row for row in group if _stands_for(row, wanted, fields)]
        for start, end in product(starts, group):
            old = ((getattr(end, f), getattr(wanted, f), getattr(start, f)) for f in fields)
            if all(value not in before for value, *before in old):
                yield start, end


def _stands_for(protocol: Protocol, wanted: Protocol, fields: Iterable[str]) -> bool:
    """Whether it has the wanted values of these fields, or a fit corpus of the wanted kind."""
    pairs = ((name, getattr(protocol, name), getattr(wanted, name)) for name in fields)
    return all(v == due or (name == "fit_on" and is_of_kind(v, due)) for name, v, due in pairs)


def _protocols(trap: Trap, registry: Registry) -> Mapping[str, Sequence[Protocol]]:
    """The protocols of a trap's rows by the fields that it is about."""
    rows = ((row, registry.tasks.get(row.task)) for row in trap.rows)
    every = [Protocol.of(row.method, task, *row.score[:2]) for row, task in rows if task]
    return {name: [*filter(None, every)] for name in trap.about}


def _shows(
    trap: Mapping[str, Sequence[Protocol]], wanted: Protocol, changes: Mapping[str, str]
) -> bool:
    """Whether a trap is about all that changes, with rows of the old and of the new value."""
    return all(
        any(getattr(row, name) == value for row in trap.get(name, ()))
        and any(_stands_for(row, wanted, [name]) for row in trap[name])
        for name, value in changes.items()
    )
