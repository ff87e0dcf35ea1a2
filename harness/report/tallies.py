"""What was reproduced, in counts: what README, leaderboard and the page of results say first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from harness.report.paper_tables import summary
from harness.report.replication import caveats
from harness.results.claims import ClaimOutcome, ClaimResult
from harness.results.conformance import Comparison
from harness.results.folder import ResultsFolder
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


def first_screen(folder: ResultsFolder) -> str:
    """What README says first: the counts, and the papers of which something was measured."""
    compared = [one for _, scores in folder.compared for one in scores]
    counted = tallies(folder.reproduced, folder.claim_results, compared, folder.records)
    bullets = [f"* **{' '.join(filter(None, (t.number, t.of)))}** {t.what}" for t in counted]
    counts = published_counts(folder, measured=True)
    return "\n\n".join([_published_sentence(folder), "\n".join(bullets), counts])


def published_counts(folder: ResultsFolder, measured: bool = False) -> str:
    """The counts of each paper; with `measured` of those alone of which something was measured."""
    return summary([(table, folder.reproductions(table)) for table in folder.tables], measured)


def _published_sentence(folder: ResultsFolder) -> str:
    """How much the papers' tables hold, and of how much the protocol is known."""
    cells, works = folder.reproduced, len({table.cite for table in folder.tables})
    counts = count(cells)
    runnable = counts["runnable"]
    inferred = sum(one.cell.evidence == "inferred" for one in cells)
    return (
        f"{len(cells):,} published numbers from {len(folder.tables)} tables of {works} works "
        f"(papers and repositories). {runnable:,} name the method and the protocol that should "
        f"reproduce them, of which {runnable - counts['run']:,} have not been run here and "
        f"{inferred:,} rest on an inferred protocol; {len(cells) - runnable:,} name the reason why "
        "none can."
    )
