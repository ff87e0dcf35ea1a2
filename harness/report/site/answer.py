"""The page's first answer: what was reproduced, what is not exact, and what the rest waits for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from harness.core.files import sized
from harness.registry import Registry
from harness.results import claim_intervals
from harness.results.claim_tests import ClaimOutcome, ClaimResult, ClaimTests
from harness.results.claims import read_claims
from harness.results.conformance import compare, read_trials
from harness.results.index import Results
from harness.results.layout import QUESTIONS
from harness.results.next_steps import Recorded, next_steps
from harness.results.published import Table
from harness.results.references import read_references
from harness.results.reproduction import Reproduction, count
from harness.results.verdict import VERDICTS, CellState

STEPS = 8  # of what to get next


@dataclass(frozen=True)
class Tally:
    """How many of how many, in words."""

    number: str
    of: str
    what: str


@dataclass(frozen=True)
class PaperCount:
    """How much of a paper is published, runnable, measured, and by verdict."""

    paper: str
    counts: Mapping[str, int]


@dataclass(frozen=True)
class Waiting:
    """Commands that get what is missing, its size, and how many numbers wait for it."""

    get: Sequence[str]
    size: str
    numbers: int


@dataclass(frozen=True)
class Answer:
    """Everything that the page says first."""

    tallies: Sequence[Tally]
    verdicts: Sequence[str]
    papers: Sequence[PaperCount]
    inexact: Sequence[Reproduction]
    waiting: Sequence[Waiting]
    claims: Sequence[ClaimResult]


def answer(
    cells: Sequence[Mapping[str, Reproduction]],
    published: Sequence[Table],
    results: Results,
    registry: Registry,
    folder: Path,
    given: Path,
) -> Answer:
    """The answer, from the records of a folder and the files of another that people wrote."""
    every = [cell for table in cells for cell in table.values()]
    papers: dict[str, list[Reproduction]] = {}
    for cell in every:
        papers.setdefault(cell.cell.table.paper, []).append(cell)
    counted = [PaperCount(paper, count(own)) for paper, own in papers.items()]
    counted.sort(key=lambda one: (-one.counts["run"], -one.counts["runnable"]))
    claims = _claims(published, results, registry, folder, given)
    exact = (CellState.EXACT, CellState.CONSISTENT)
    steps = islice(next_steps(every, registry, Recorded(results, registry)), STEPS)
    total = count(every)
    return Answer(
        tallies=list(_tallies(total, claims, results, registry, given)),
        verdicts=[str(verdict) for verdict in VERDICTS if total[verdict]],
        papers=[*counted, PaperCount("all", total)],
        inexact=[cell for cell in every if cell.scores and cell.state not in exact],
        waiting=[Waiting(s.get, sized(s.bytes) if s.bytes else "", s.numbers) for s in steps],
        claims=claims,
    )


def _claims(
    published: Sequence[Table], results: Results, registry: Registry, folder: Path, given: Path
) -> list[ClaimResult]:
    """The claims with their outcomes; none without the file of claims."""
    path = given / QUESTIONS / "claims.toml"
    if not path.exists():
        return []
    tests = ClaimTests(results, registry, claim_intervals.read(folder))
    return [tests.test(claim) for claim in read_claims(path, published).resolved]


def _tallies(
    total: Mapping[str, int],
    claims: Sequence[ClaimResult],
    results: Results,
    registry: Registry,
    given: Path,
) -> Iterator[Tally]:
    """The four counts that stand on top."""
    held = [f"{total[v]} {v}" for v in VERDICTS if total[v]]
    differs = "none differs" if not total[CellState.DIFFERS] else ""
    words = ", ".join(filter(None, [*held, differs]))
    yield Tally(
        f"{total['run']:,}", f"of {total['published']:,}", f"published numbers measured: {words}"
    )
    if claims:
        outcomes = Counter(claim.outcome for claim in claims)
        fails, undecided = outcomes[ClaimOutcome.FAILS], outcomes[ClaimOutcome.UNDECIDED]
        tested = len(claims) - outcomes[ClaimOutcome.NOT_MEASURED]
        words = f"{fails} do not hold, {undecided} undecided"
        yield Tally(
            str(outcomes[ClaimOutcome.HOLDS]),
            f"of {tested}",
            f"tested claims of the papers hold for small models; {words}",
        )
    trials = read_trials(given)
    compared = [
        one
        for reference in read_references(given)
        for one in compare(reference, results.unread(), trials, registry)
        if one.agrees is not None
    ]
    if compared:
        agreeing = sum(one.agrees is True for one in compared)
        yield Tally(
            str(agreeing), f"of {len(compared)}", "scores of the authors' own programs are met"
        )
    cells = sum(map(len, results.by_cell.values()))
    methods, tasks = len(results.methods), len(results.by_task)
    yield Tally(f"{cells:,}", "", f"measured cells: {methods} methods on {tasks} tasks")
