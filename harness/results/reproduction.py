"""Published numbers against records: the scores that were measured, and the verdict on them.

`reproduce` compares one number. A number has no verdict if no method here reproduces it, if
it was not measured, or if it was measured with other weights, on other data or with
other settings; its state says which.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import fmean

from harness.core.errors import HarnessError
from harness.core.types import Method, MethodId, Record, ScorePath, score_at
from harness.data.tasks.loader import TARGETS
from harness.data.tasks.readers import OTHER_DATA, release_of
from harness.registry import Registry
from harness.results.index import Copy, Results, SeedScores, coverage, mean_over_tasks
from harness.results.origins import Origin, other_weights, unpinned_origins
from harness.results.published import MOST_DECIMALS, PublishedNumber, Table, score_path
from harness.results.records import CellName
from harness.results.verdict import CellState, Measured, Verdict, verdict

LEAST_DECIMALS = 2  # of a measured number that pages show


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """A published number, what was measured for it, and the verdict or state.

    Attributes:
        number: The published number.
        verdict: The verdict, or why there is none.
        scores: The measured scores in points, one a seed.
        unpinned: The encoder and the fit corpus, as far as they are not pinned.
        coverage: The lowest share of tokens with a word vector; None without word
            vectors.
        on_other_corpora: Of a number without scores: the scores of methods that differ
            from its method in a corpus alone, one a seed, by their ids.
    """

    number: PublishedNumber
    verdict: Verdict
    scores: tuple[float, ...] = ()
    unpinned: tuple[Origin, ...] = ()
    coverage: float | None = None
    on_other_corpora: Mapping[str, tuple[float, ...]] = field(default_factory=dict)

    @property
    def state(self) -> CellState:
        """The verdict, or why there is none."""
        return self.verdict.state

    @property
    def measured(self) -> float | None:
        """The mean over seeds, in points."""
        return fmean(self.scores) if self.scores else None

    @property
    def shown(self) -> str:
        """The measured mean, with about the decimals that are printed; empty without one."""
        if self.measured is None:
            return ""
        decimals = min(max(self.number.decimals, LEAST_DECIMALS), MOST_DECIMALS)
        return f"{self.measured:.{decimals}f}"


def count(reproductions: Collection[Reproduction]) -> Counter[str]:
    """How many numbers are `published`, `runnable`, `run`, and in each state.

    A number is runnable if it has a method here. Only those that were run are counted by
    state.
    """
    counts: Counter[str] = Counter()
    for reproduction in reproductions:
        counts["published"] += 1
        if (
            reproduction.number.why_not is None
            and reproduction.state is not CellState.NO_METHOD
        ):
            counts["runnable"] += 1
        if reproduction.scores:
            counts["run"] += 1
            counts[str(reproduction.state)] += 1
    return counts


def reproductions(
    table: Table, results: Results, registry: Registry
) -> dict[str, Reproduction]:
    """Every number of a table, by its id."""
    return {number.id: reproduce(number, results, registry) for number in table.numbers}


def reproduce(
    number: PublishedNumber, results: Results, registry: Registry
) -> Reproduction:
    """Compare a published number with the records of its method on its tasks."""
    if number.why_not is not None:
        return Reproduction(
            number=number, verdict=Verdict(CellState(number.why_not.state))
        )
    published = number.published
    method = compose_method(number.method, registry)
    path = score_path(number.metric, number.aggregation)
    by_task = [
        seed_scores(str(number.method), task, path, results, registry)
        for task in number.tasks
    ]
    records: list[Record] = []
    copies: list[Copy] = []
    for task in number.tasks:
        records += results.records(str(number.method), task)
        copies += results.copies(str(number.method), task)
    state = _why_no_score(method, by_task)
    if state is CellState.NOT_RUN:
        others = _on_other_corpora(number, path, results, registry)
        state = CellState.OTHER_CORPUS if others else state
        return Reproduction(
            number=number, verdict=Verdict(state), on_other_corpora=others
        )
    if state is not None:
        unpinned: tuple[Origin, ...] = ()
        if state is CellState.OTHER_WEIGHTS:
            unpinned = unpinned_origins(method, copies, registry)
        return Reproduction(number=number, verdict=Verdict(state), unpinned=unpinned)
    if published is None:
        return Reproduction(number=number, verdict=Verdict(CellState.NOT_PUBLISHED))
    mean = mean_over_tasks(by_task)
    if not mean.scores:  # no seed has a score of each task
        return Reproduction(number=number, verdict=Verdict(CellState.NOT_RUN))
    by_seed = tuple(mean.scores.values())
    if not mean.seeded:  # all seeds of a method without randomness have the same score
        by_seed = by_seed[:1]
    judgement = verdict(published, Measured(by_seed, mean.seeded))
    if judgement.state is CellState.UNDEFINED:
        return Reproduction(number=number, verdict=judgement)
    return Reproduction(
        number=number,
        verdict=judgement,
        scores=tuple(score for score in by_seed if score is not None),
        unpinned=unpinned_origins(method, copies, registry),
        coverage=coverage(records),
    )


def compose_method(identifier: str | None, registry: Registry) -> Method | None:
    """The method of an id; None without an id, or if the registry cannot compose it."""
    if not identifier:
        return None
    try:
        return registry.parse(identifier)
    except HarnessError:
        return None


def stale_cells(results: Results, registry: Registry) -> frozenset[CellName]:
    """The cells with a record that was measured with other settings than the method has now."""
    methods = {name: compose_method(name, registry) for name in results.methods}
    stale = []
    for (name, task), records in results.by_cell.items():
        method = methods[name]
        if method is not None and any(
            record.identity != method.identity for record in records
        ):
            stale.append((name, task))
    return frozenset(stale)


def seed_scores(
    identifier: str, task: str, path: ScorePath, results: Results, registry: Registry
) -> SeedScores:
    """The scores of a method on a task by seed.

    There are none, with the state that says why, if a record was measured with other
    settings, other weights, or on other data.

    Args:
        identifier: The method's id.
        task: The task's name.
        path: The path of the score in a record.
        results: The records.
        registry: Methods by name.
    """
    if (identifier, task) in results.stale:
        return SeedScores({}, state=CellState.STALE)
    records = results.records(identifier, task)
    if other_weights(identifier, results.copies(identifier, task), registry):
        return SeedScores({}, state=CellState.OTHER_WEIGHTS)
    releases = [release_of(task, record.digests.get("data")) for record in records]
    if OTHER_DATA in releases:
        return SeedScores({}, state=CellState.OTHER_DATA)
    scores = {record.seed: score_at(record.scores, path) for record in records}
    method = compose_method(identifier, registry)
    is_seeded = method is not None and method.seeded
    return SeedScores(scores, seeded=is_seeded or len(records) > 1)


def _why_no_score(
    method: Method | None, by_task: Sequence[SeedScores]
) -> CellState | None:
    """Why a number has no score to judge; None if it has a score on each of its tasks."""
    if method is None:
        return CellState.NO_METHOD
    states = {scores.state for scores in by_task if not scores.scores}
    if not by_task or CellState.NOT_RUN in states:
        return CellState.NOT_RUN
    for state in (CellState.OTHER_WEIGHTS, CellState.OTHER_DATA):
        if state in states:
            return state
    if states:
        return CellState.STALE
    return None


def _on_other_corpora(
    number: PublishedNumber, path: ScorePath, results: Results, registry: Registry
) -> dict[str, tuple[float, ...]]:
    """The scores of methods that differ from a number's in a corpus alone, by their ids.

    A post-processor was fitted on another one (the sentences of the task, `@target`, are
    no corpus here), or the encoder was trained on another one in place of the number's.
    """
    published_id = MethodId.parse(number.method or "")
    if published_id is None or not number.tasks:
        return {}
    candidates = [
        str(replace(published_id, encoder=name))
        for name in registry.in_place_of.get(published_id.encoder, ())
    ]
    no_corpora = (None, *TARGETS)
    if published_id.fit_on not in no_corpora:
        for identifier in results.by_parts.get(replace(published_id, fit_on=None), ()):
            corpus = identifier.partition("@")[2] or None
            if corpus not in (*no_corpora, published_id.fit_on):
                candidates.append(identifier)
    scores = {}
    for identifier in sorted(candidates):
        if not results.records(identifier, number.tasks[0]):
            continue
        by_task = [
            seed_scores(identifier, task, path, results, registry)
            for task in number.tasks
        ]
        by_seed = mean_over_tasks(by_task).scores.values()
        if by_seed and None not in by_seed:
            scores[identifier] = tuple(score for score in by_seed if score is not None)
    return scores


@dataclass(frozen=True)
class Rehearsal:
    """The last run of all published cells on stand-ins of their weights.

    Attributes:
        commit: The commit of its code. The version does not tell, since it is still the
            version of the last release.
        dirty: Whether the code had changes that were not committed.
        cells: How many cells there are.
        numbers: How many published numbers have cells that all ran.
        digest: The digest of the ids of all cells.
        failed: Why cells did not run, by their ids.
    """

    commit: str
    dirty: bool
    cells: int
    numbers: int
    digest: str
    failed: Mapping[str, str]
