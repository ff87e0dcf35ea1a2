"""Published cells against records: the scores that were measured, and the verdict on them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from harness.core.errors import HarnessError
from harness.core.identity import describes
from harness.core.scores import ScorePath, score_at
from harness.core.types import Method, MethodId, Record
from harness.registry import Registry
from harness.results.index import Results, SeedScores, mean_over_tasks
from harness.results.origins import Origin, unpinned_origins
from harness.results.published import PublishedCell, Table, score_path
from harness.results.verdict import CellState, Measured, Verdict, verdict
from harness.tasks.loader import TARGETS
from harness.tasks.releases import OTHER_DATA, release_of

# General files have a vector for 88 to 99 % of the tokens of the STS, transfer and
# embedded tasks (the smallest, of 15,000 words, for 88 % of SST-2); a subset made for
# another task for 46 to 79 %.
LOW_COVERAGE = 0.85
# A file that holds other words than its reader takes them for has hardly any: below
# this share a cell fails unless the user allows it.
MIN_COVERAGE = 0.2

# A fact of a record that is shown under a registered encoder's id: the id it was
# measured under.
MEASURED_AS = "measured_as"


@dataclass(frozen=True, kw_only=True)
class Reproduction:
    """A published cell, what was measured for it, and the verdict or state.

    Attributes:
        cell: The published cell.
        verdict: The verdict, or why there is none.
        scores: The measured scores in points, one a seed.
        unpinned: The encoder and the corpus behind the scores, where nothing pins them.
        measured_as: The ids that the scores were measured under, where they differ from
            the cell's.
        coverage: The lowest share of the tokens that have a vector; None without word
            vectors.
    """

    cell: PublishedCell
    verdict: Verdict
    scores: tuple[float, ...] = ()
    unpinned: tuple[Origin, ...] = ()
    measured_as: tuple[str, ...] = ()
    coverage: float | None = None

    @property
    def state(self) -> CellState:
        """The verdict, or why there is none."""
        return self.verdict.state

    @property
    def measured(self) -> float | None:
        """The mean over seeds, in points."""
        return fmean(self.scores) if self.scores else None


def count(cells: Collection[Reproduction]) -> Counter[str]:
    """Published cells: all, `runnable` (a method here), `run` (measured), and those by state."""
    run = [cell for cell in cells if cell.scores]
    named = [cell for cell in cells if cell.cell.why_not is None]
    runnable = sum(cell.state is not CellState.NO_METHOD for cell in named)
    sizes = Counter({"published": len(cells), "runnable": runnable, "run": len(run)})
    return sizes + Counter(str(cell.state) for cell in run)


def reproductions(
    table: Table, results: Results, registry: Registry
) -> dict[str, Reproduction]:
    """Every cell of a table, by its id."""
    return {cell.id: reproduce(cell, results, registry) for cell in table.cells}


def reproduce(
    cell: PublishedCell, results: Results, registry: Registry
) -> Reproduction:
    """Compare a published cell with the records of its method on its tasks."""
    if cell.why_not is not None:
        return Reproduction(cell=cell, verdict=Verdict(CellState(cell.why_not.state)))
    method = compose_method(cell.method, registry)
    path = score_path(cell.metric, cell.aggregation)
    measured = [
        seed_scores(str(cell.method), task, path, results, registry)
        for task in cell.tasks
    ]
    published = cell.published
    why_none = _why_no_score(cell, method, measured, results)
    if why_none is not None or published is None:
        return Reproduction(
            cell=cell, verdict=Verdict(why_none or CellState.NOT_PUBLISHED)
        )
    mean = mean_over_tasks(measured)
    if not mean.scores:  # no seed has a score of each task
        return Reproduction(cell=cell, verdict=Verdict(CellState.NOT_RUN))
    by_seed = tuple(mean.scores.values())
    if not mean.seeded:  # seeds of a method without randomness repeat one score
        by_seed = by_seed[:1]
    judged = verdict(published, Measured(by_seed, mean.seeded))
    if judged.state is CellState.UNDEFINED:
        return Reproduction(cell=cell, verdict=judged)
    records = [
        record
        for task in cell.tasks
        for record in results.records(str(cell.method), task)
    ]
    ids = [
        str(record.facts[MEASURED_AS])
        for record in records
        if MEASURED_AS in record.facts
    ]
    return Reproduction(
        cell=cell,
        verdict=judged,
        scores=tuple(score for score in by_seed if score is not None),
        unpinned=unpinned_origins(method, records, registry),
        measured_as=tuple(dict.fromkeys(ids)),
        coverage=coverage(records),
    )


def compose_method(identifier: str | None, registry: Registry) -> Method | None:
    """The method of an id, if there is one that the registry can compose."""
    try:
        return registry.parse(identifier) if identifier else None
    except HarnessError:
        return None


def is_stale(records: Iterable[Record], method: Method | None) -> bool:
    """Whether a record was measured with other settings than the method has now."""
    if method is None:
        return False
    identities = {record.identity for record in records}
    return not all(describes(identity, method) for identity in identities)


def seed_scores(
    identifier: str, task: str, path: ScorePath, results: Results, registry: Registry
) -> SeedScores:
    """The scores of a cell by seed; none where its records are of other settings."""
    records, method = (
        results.records(identifier, task),
        compose_method(identifier, registry),
    )
    if is_stale(records, method):
        return SeedScores({}, state=CellState.STALE)
    if any(
        release_of(task, record.digests.get("data")) == OTHER_DATA for record in records
    ):
        return SeedScores({}, state=CellState.OTHER_DATA)
    seeded = len(records) > 1 or (method is not None and method.seeded)
    return SeedScores(
        {record.seed: score_at(record.scores, path) for record in records}, seeded
    )


def _why_no_score(
    cell: PublishedCell,
    method: Method | None,
    measured: Sequence[SeedScores],
    results: Results,
) -> CellState | None:
    """Why a cell has no score to judge; None if it has one."""
    if method is None:
        return CellState.NO_METHOD
    states = {scores.state for scores in measured if not scores.scores}
    if measured and CellState.NOT_RUN not in states:
        if CellState.OTHER_DATA in states:
            return CellState.OTHER_DATA
        return CellState.STALE if states else None
    if _has_other_corpus(cell, results):
        return CellState.OTHER_CORPUS
    return CellState.NOT_RUN


def _has_other_corpus(cell: PublishedCell, results: Results) -> bool:
    """Whether the cell was measured with a map that is fitted on a corpus of another name."""
    wanted = MethodId.parse(cell.method or "")
    if wanted is None or wanted.fit_on in (None, *TARGETS):
        return False
    chain = str(cell.method).partition("@")[0]
    for identifier in results.by_task.get(cell.task or "", ()):
        other_chain, _, corpus = identifier.partition("@")
        if other_chain == chain and corpus not in (wanted.fit_on, *TARGETS):
            return True
    return False


def coverage(records: Iterable[Record]) -> float | None:
    """The lowest share of tokens with a vector; None for records of other encoders."""
    shares = (record.facts.get("coverage") for record in records)
    return min((share for share in shares if share is not None), default=None)


def low_coverage(records: Iterable[Record]) -> float | None:
    """The lowest share of tokens with a vector if it is too low, else None."""
    share = coverage(records)
    return share if share is not None and share < LOW_COVERAGE else None
