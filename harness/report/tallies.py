"""What was reproduced, in a few counts: what the page of results and README say first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from harness.report.replication import caveats
from harness.results.claims import ClaimOutcome, ClaimResult
from harness.results.conformance import Comparison
from harness.results.index import Results
from harness.results.reproduction import Reproduction, count
from harness.results.verdict import VERDICTS, CellState


@dataclass(frozen=True)
class Tally:
    """How many of how many, and of what."""

    number: str
    of: str
    what: str


def tallies(
    cells: Collection[Reproduction],
    claims: Sequence[ClaimResult],
    compared: Sequence[Comparison],
    results: Results,
) -> Iterator[Tally]:
    """Published numbers by their counts, claims, scores of other programs, measured cells."""
    counts = count(cells)
    held = [f"{counts[v]} {v}" for v in VERDICTS if counts[v]]
    differs = [] if counts[CellState.DIFFERS] or not held else ["none differs"]
    words = f": {', '.join([*held, *differs])}" if held else ""
    of, scores = f"of {counts['published']:,}", different_scores(cells)
    what = f"published numbers were measured here, by {scores:,} different scores{words}"
    yield Tally(f"{counts['run']:,}", of, what)
    tested = [claim for claim in claims if claim.outcome != ClaimOutcome.NOT_MEASURED]
    if tested:
        outcomes = Counter(claim.outcome for claim in tested)
        fails, undecided = outcomes[ClaimOutcome.FAILS], outcomes[ClaimOutcome.UNDECIDED]
        words = f"{fails} do not hold, {undecided} undecided.{caveats(tested)}"
        what = f"claims of the papers hold for small models; {words}"
        yield Tally(str(outcomes[ClaimOutcome.HOLDS]), f"of {len(tested)}", what)
    decided = [one for one in compared if one.agrees is not None]
    for what, own in (("programs that papers' authors released", True), ("libraries", False)):
        agrees = [one.agrees is True for one in decided if bool(one.reference.authors_of) == own]
        if agrees:
            yield Tally(str(sum(agrees)), f"of {len(agrees)}", f"scores of {what} are reproduced")
    records, methods = sum(map(len, results.by_cell.values())), len(results.methods)
    what = f"measured cells: {methods} methods on {len(results.by_task)} tasks, {records:,} records"
    yield Tally(f"{len(results.by_cell):,}", "", f"{what} over all seeds")


def different_scores(cells: Collection[Reproduction]) -> int:
    """How many scores stand beside published numbers; two papers may publish the same one."""
    run = (one.cell for one in cells if one.scores)
    return len({(c.method, tuple(c.tasks), c.metric, c.aggregation) for c in run})


def bullets(every: Sequence[Tally]) -> str:
    """The counts as a list in Markdown."""
    return "\n".join(f"* **{' '.join(filter(None, (t.number, t.of)))}** {t.what}" for t in every)
