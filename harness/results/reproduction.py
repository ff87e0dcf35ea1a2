"""Published cells against records, and what tables say of the weights and costs behind these."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from harness.assets.places import asset_named, assets_of, pinned_by
from harness.core.errors import HarnessError
from harness.core.interfaces import EncoderConfig, Hub
from harness.core.scores import ScorePath, score_at
from harness.core.types import Method, Record
from harness.registry import Registry
from harness.results.index import Results, SeedScores, mean_over_tasks, methods_by_encoder
from harness.results.protocols import SEVEN, Scoring
from harness.results.published import PublishedCell, Table, score_path
from harness.results.verdict import CellState, Measured, Verdict, verdict
from harness.tasks.loader import TARGETS

# General files have a vector for 88 to 99 % of the tokens of the STS, transfer and embedded tasks
# (the smallest, of 15,000 words, for 88 % of SST-2); a subset made for another task for 46 to 79 %.
LOW = 0.85
# A file that holds other words than its reader takes them for has hardly any: below this share a
# cell fails unless the user allows it.
MIN_COVERAGE = 0.2

MEASURED_AS = "measured_as"  # a fact of a record that stands for a registered encoder's: its own id


@dataclass(frozen=True)
class Reproduction:
    """A published cell, its measured scores (one a seed), and the verdict or state.

    `copies` name the copies that were measured of weights and corpora that nothing pins, and the
    ids of those that are called otherwise than the published cell's method,
    `coverage` is the lowest share of the tokens that have a vector, of word vectors.
    """

    cell: PublishedCell
    scores: tuple[float, ...]
    verdict: Verdict
    copies: tuple[str, ...] = ()
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


def reproductions(table: Table, results: Results, registry: Registry) -> dict[str, Reproduction]:
    """Every cell of a table, by its id."""
    return {cell.id: reproduce(cell, results, registry) for cell in table.cells}


def reproduce(cell: PublishedCell, results: Results, registry: Registry) -> Reproduction:
    """One published cell against the records of its method and tasks."""
    method, published = composed(cell.method, registry), cell.published
    if (why := cell.why_not) is not None:
        return Reproduction(cell, (), Verdict(CellState(why.state)))
    path = score_path(cell.metric, cell.aggregation)
    measured = [seed_scores(str(cell.method), t, path, results, registry) for t in cell.tasks]
    lacking = _lacking(cell, method, measured, results)
    if lacking is not None or published is None:
        return Reproduction(cell, (), Verdict(lacking or CellState.NOT_PUBLISHED))
    mean = mean_over_tasks(measured)
    if not mean.scores:  # no seed has a score of each task
        return Reproduction(cell, (), Verdict(CellState.NOT_RUN))
    scores = tuple(mean.scores.values())[: None if mean.seeded else 1]
    judged = verdict(published, Measured(scores, mean.seeded))
    if judged.state is CellState.UNDEFINED:
        return Reproduction(cell, (), judged)
    every = [record for task in cell.tasks for record in results.records(str(cell.method), task)]
    return Reproduction(
        cell,
        tuple(score for score in scores if score is not None),
        judged,
        notes_on(method, every, registry),
        coverage(every),
    )


def composed(identifier: str | None, registry: Registry) -> Method | None:
    """The method of an id, if there is one that the registry can compose."""
    try:
        return registry.parse(identifier) if identifier else None
    except HarnessError:
        return None


def is_stale(records: Iterable[Record], method: Method | None) -> bool:
    """Whether a record was measured with other settings than the method has now."""
    described = repr(method)
    return method is not None and any(record.repr != described for record in records)


def seed_scores(
    identifier: str, task: str, path: ScorePath, results: Results, registry: Registry
) -> SeedScores:
    """The scores of a cell by seed; none where its records are of other settings."""
    records, method = results.records(identifier, task), composed(identifier, registry)
    if is_stale(records, method):
        return SeedScores({}, state=CellState.STALE)
    seeded = len(records) > 1 or (method is not None and method.seeded)
    return SeedScores({record.seed: score_at(record.scores, path) for record in records}, seeded)


def _lacking(
    cell: PublishedCell, method: Method | None, measured: Sequence[SeedScores], results: Results
) -> CellState | None:
    """Why a cell has no score to judge; None if it has one."""
    if method is None:
        return CellState.NO_METHOD
    states = {task.state for task in measured if not task.scores}
    if measured and CellState.NOT_RUN not in states:
        return CellState.STALE if states else None
    chain, _, corpus = str(cell.method).partition("@")
    if corpus not in ("", *TARGETS):  # it may have been fitted on a corpus of another name
        for other in results.by_task.get(cell.task or "", ()):
            other_chain, _, fitted_on = other.partition("@")
            if other_chain == chain and fitted_on not in (corpus, *TARGETS):
                return CellState.OTHER_CORPUS
    return CellState.NOT_RUN


def coverage(records: Iterable[Record]) -> float | None:
    """The lowest share among records; None where none was counted, as of other encoders."""
    shares = (record.facts.get("coverage") for record in records)
    return min((share for share in shares if share is not None), default=None)


def low_coverage(records: Iterable[Record]) -> float | None:
    """The lowest share among records that is too low; None where none is, or was counted."""
    share = coverage(records)
    return share if share is not None and share < LOW else None


def percentage(share: float) -> str:
    """A share as people read it; only the whole is 100 %."""
    return "over 99 %" if 0.995 <= share < 1 else f"{100 * share:.0f} %"


def coverage_note(shares: Mapping[str, float]) -> str:
    """What tables say of the shares of their tasks, by heading; nothing where all are whole."""
    least, most = (pick(shares, key=lambda name: shares[name], default="") for pick in (min, max))
    if not least or shares[least] == 1:
        return ""
    first, last = percentage(shares[least]), percentage(shares[most])
    span = first if first == last else f"{first} ({least}) to {last}"
    left = ": a score is of what is left of the sentences" if shares[least] < LOW else ""
    return f"{span} of the tokens have a vector{left}"


def coverage_notes(results: Results, methods: Sequence[str], tasks: Mapping[str, str]) -> str:
    """What a table of methods and tasks (by heading) says of each of its word vectors."""
    notes: dict[str, str] = {}
    for encoder, group in methods_by_encoder(methods).items():
        every = {
            heading: coverage(
                r for method in group for r in results.by_cell.get((method, task), ())
            )
            for heading, task in tasks.items()
        }
        note = coverage_note({name: share for name, share in every.items() if share is not None})
        notes |= {encoder: note} if note else {}
    return "; ".join(f"`{encoder}`: {note}" for encoder, note in notes.items()) + "." * bool(notes)


def source_of(config: EncoderConfig, records: Iterable[Record]) -> str:
    """Where the weights come from, and whether nothing pins them.

    A copy given by hand of what a commit alone pins is unpinned: its records name no such commit.
    """
    source = config.source
    commit = source.revision if isinstance(source, Hub) and not source.sha256 else None
    if commit and any(record.facts.get("revision") != commit for record in records):
        return f"a copy by hand of {source}, unpinned"
    downloaded = isinstance(source, Hub) or assets_of(config)
    unpinned = bool(downloaded) and pinned_by(config) == "unpinned"
    return str(source).removesuffix(", unpinned") + ", unpinned" * unpinned


def notes_on(
    method: Method | None, records: Iterable[Record], registry: Registry
) -> tuple[str, ...]:
    """A footnote for an unpinned encoder, an unpinned fit corpus, and each other id."""
    if method is None:
        return ()
    records = tuple(records)
    others = dict.fromkeys(str(r.facts[MEASURED_AS]) for r in records if MEASURED_AS in r.facts)
    notes = {method.encoder.name.partition(":")[0]: source_of(method.encoder, records)}
    if corpus := registry.corpora.get(method.fit_on or ""):
        asset = asset_named(corpus.asset)
        notes[f"@{corpus.name}"] = asset.source + ", unpinned" * (asset.pinned == "unpinned")
    unpinned = (f"{name}: {note}" for name, note in notes.items() if note.endswith("unpinned"))
    return (*unpinned, *(f"measured as {other}, of the same weights" for other in others))


def milliseconds(results: Results, method: str, protocol: Scoring) -> float | None:
    """Milliseconds a distinct sentence over the records of the protocol's tasks."""
    records = _records(results, method, protocol)
    clocks: list[Any] = [r.timings.get(name) for r in records for name in ("encode", "apply")]
    sentences: list[Any] = [record.facts.get("distinct_sentences") for record in records]
    if not records or None in clocks or None in sentences:
        return None
    return 1000 * math.fsum(clocks) / sum(sentences) or None  # a clock that stood still


def beside_others(results: Results, method: str, protocol: Scoring) -> bool:
    """Whether other processes of the run worked beside one that measured a record."""
    return any(r.facts.get("workers", 1) > 1 for r in _records(results, method, protocol))


def _records(results: Results, method: str, protocol: Scoring) -> list[Record]:
    tasks = [protocol.task(task) for task in SEVEN]
    return [record for task in tasks for record in results.by_cell.get((method, task), ())]


def post_processing(method: str) -> str:
    """The post-processors of a method, without their arguments and what they were fitted on."""
    posts = method.partition("@")[0].split("+")[1:]
    return " + ".join(post.partition(":")[0] for post in posts) or "as encoded"
