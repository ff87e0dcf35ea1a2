"""What was reproduced, in a few counts: the first that the page of results and README say."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from harness.results.claim_tests import ClaimOutcome, ClaimResult
from harness.results.conformance import Comparison
from harness.results.index import Results
from harness.results.verdict import VERDICTS, CellState


@dataclass(frozen=True)
class Tally:
    """How many of how many, and of what."""

    number: str
    of: str
    what: str


def tallies(
    counts: Mapping[str, int],
    claims: Sequence[ClaimResult],
    compared: Sequence[Comparison],
    results: Results,
) -> Iterator[Tally]:
    """Published numbers by their counts, claims, scores of other programs, measured cells."""
    held = [f"{counts[v]} {v}" for v in VERDICTS if counts[v]]
    differs = [] if counts[CellState.DIFFERS] or not held else ["none differs"]
    words = f": {', '.join([*held, *differs])}" if held else ""
    of = f"of {counts['published']:,}"
    yield Tally(f"{counts['run']:,}", of, f"published numbers were measured here{words}")
    outcomes = Counter(claim.outcome for claim in claims)
    if tested := len(claims) - outcomes[ClaimOutcome.NOT_MEASURED]:
        fails, undecided = outcomes[ClaimOutcome.FAILS], outcomes[ClaimOutcome.UNDECIDED]
        words = f"{fails} do not hold, {undecided} undecided"
        what = f"tested claims of the papers hold for small models; {words}"
        yield Tally(str(outcomes[ClaimOutcome.HOLDS]), f"of {tested}", what)
    if decided := [one for one in compared if one.agrees is not None]:
        agreeing = sum(one.agrees is True for one in decided)
        what = "scores of the authors' own programs and of other libraries are reproduced"
        yield Tally(str(agreeing), f"of {len(decided)}", what)
    cells = sum(map(len, results.by_cell.values()))
    methods, tasks = len(results.methods), len(results.by_task)
    yield Tally(f"{cells:,}", "", f"measured cells: {methods} methods on {tasks} tasks")


def bullets(every: Sequence[Tally]) -> str:
    """The counts as a list in Markdown."""
    return "\n".join(f"* **{' '.join(filter(None, (t.number, t.of)))}** {t.what}" for t in every)
