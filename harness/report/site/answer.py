"""The page's first answer: what was reproduced, what is not exact, and what the rest waits for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from harness.core.files import sized
from harness.registry import Registry
from harness.report.tallies import Tally, tallies
from harness.results.claim_tests import ClaimResult
from harness.results.conformance import Comparison
from harness.results.index import Results
from harness.results.next_steps import Recorded, next_steps
from harness.results.reproduction import Reproduction, count
from harness.results.verdict import VERDICTS, CellState

STEPS = 8  # of what to get next


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
    claims: Sequence[ClaimResult],
    compared: Sequence[Comparison],
    results: Results,
    registry: Registry,
) -> Answer:
    """The answer, from reproduced cells, tested claims, scores of other programs, and records."""
    every = [cell for table in cells for cell in table.values()]
    papers: dict[str, list[Reproduction]] = {}
    for cell in every:
        papers.setdefault(cell.cell.table.paper, []).append(cell)
    counted = [PaperCount(paper, count(own)) for paper, own in papers.items()]
    counted.sort(key=lambda one: (-one.counts["run"], -one.counts["runnable"]))
    exact = (CellState.EXACT, CellState.CONSISTENT)
    steps = islice(next_steps(every, registry, Recorded(results, registry)), STEPS)
    total = count(every)
    return Answer(
        tallies=list(tallies(every, claims, compared, results)),
        verdicts=[str(verdict) for verdict in VERDICTS if total[verdict]],
        papers=[*counted, PaperCount("all", total)],
        inexact=[cell for cell in every if cell.scores and cell.state not in exact],
        waiting=[Waiting(s.get, sized(s.bytes) if s.bytes else "", s.numbers) for s in steps],
        claims=claims,
    )
