"""The pages of conformance and of traps, the counts that README and other pages begin with, and
the table of the example plug-ins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from harness.core.hardware import base_name
from harness.registry import Registry
from harness.report.markdown import Page, escape, table, texts
from harness.report.method_table import MethodTable, columns_of_tasks
from harness.report.replication import (
    TESTS_OF_NO_PAPER,
    caveats,
    claims_of_no_paper,
    claims_of_papers,
    outcomes_by_encoder,
)
from harness.results.claim_tests import ClaimOutcome, ClaimResult
from harness.results.conformance import REFERENCE_TOLERANCE, Reference, ReferenceScore
from harness.results.folder import ResultsFolder
from harness.results.index import Results, methods_by_encoder
from harness.results.questions import Trap
from harness.results.records import Store
from harness.results.reproduction import Reproduction, count
from harness.results.scorings import SCORINGS, SEVEN, TASK_LABELS
from harness.results.verdict import TOLERANCES, VERDICTS, CellState

CONFORMANCE_PAGE = "conformance.md"
TRAPS_PAGE = "protocols.md"
SCORE_HEAD = ("method", "task", "score", "theirs", "ours", "difference", "tolerance", "verdict")
REFERENCE_HEAD = ("reference", "program of", "scores", "compared", "equal", "largest difference")


def conformance_page(
    references: Sequence[tuple[Reference, Sequence[ReferenceScore]]], results: Results
) -> Page:
    """A line for each reference, then each with all of its scores."""
    summary: list[list[object]] = []
    sections: list[str] = []
    counts = {"authors": 0, "library": 0}
    for reference, compared in references:
        counts["authors" if reference.authors_of else "library"] += len(compared)
        differences = [abs(c.difference) for c in compared if c.difference is not None]
        whose = f"the authors of {reference.authors_of}" if reference.authors_of else "a library"
        equal = sum(score.agrees is True for score in compared)
        largest = f"{max(differences):.4f}" if differences else ""
        numbers = [len(compared), len(differences), equal, largest]
        summary.append([f"`{reference.file}`", whose, *numbers])
        version = f" ({reference.version})" if reference.version else ""
        about = [
            f"* Program: {reference.program}{version}",
            f"* Scores: {reference.what}",
            f"* Command: `{reference.command}`",
        ]
        if reference.reason:
            about.append(f"* Tolerance: {reference.reason}")
        sections += [f"## {reference.file}", "\n".join(about), comparison_table(compared)]
    introduction = texts()["conformance"].format(
        **counts, tolerance=REFERENCE_TOLERANCE, verdicts=TOLERANCES
    )
    parts = [introduction, table(REFERENCE_HEAD, summary, words=2), *sections]
    compared_cells = (score.cell.what for _, compared in references for score in compared)
    return Page("Conformance", parts, results.select(compared_cells))


def comparison_table(compared: Sequence[ReferenceScore]) -> str:
    """A line for each score; one that was not measured has its state in place of ours."""
    lines = []
    for score in compared:
        method, task = score.cell.what
        tolerance = f"{score.reference.tolerance_of(score.cell):g}"
        ours = [score.state, "", tolerance, ""]
        if score.ours is not None and score.difference is not None:
            difference = f"{round(score.difference, 4) + 0.0:+.4f}"
            outside = "" if score.agrees else ", beyond the tolerance"
            ours = [f"{score.ours:.4f}", difference, tolerance, f"{score.state}{outside}"]
        named = [f"`{method}`", f"`{task}`" if task else "training", score.score]
        lines.append([*named, f"{score.theirs:.4f}", *ours])
    return table(SCORE_HEAD, lines, words=3)


def traps_page(results: Results, traps: Sequence[Trap]) -> Page:
    """All traps with their numbers; a row whose cell was not run says so."""
    parts = [texts()["traps"]]
    for number, trap in enumerate(traps, start=1):
        rows = []
        for row, score, gap in trap.values(results):
            difference = "" if gap is None else f"{gap:+.2f}"
            rows.append([row.what, f"`{row.method}`", f"`{row.task}`", score, difference])
        shown = table(["", "method", "task", "score", "difference"], rows, words=3)
        parts += [f"## {number}. {trap.title}", trap.text, shown]
    shown_cells = ((row.method, row.task) for trap in traps for row in trap.rows)
    return Page("Protocol traps", parts, results.select(shown_cells))


def examples_part(store: Store, registry: Registry) -> str:
    """A table of each encoder: the example plug-ins, and what comes with the harness.

    Its columns are those of the first table of the leaderboard.
    """
    results, scoring = Results.read(store), SCORINGS[0]
    tasks = [registry.tasks[scoring.task(base)] for base in SEVEN]
    headings = (*TASK_LABELS.values(), "Avg.")
    aggregated = columns_of_tasks(tasks, scoring.aggregation).values()
    columns = dict(zip(headings, aggregated, strict=True))
    by_encoder = methods_by_encoder(results.methods).values()
    tables = [
        MethodTable(methods=methods, columns=columns, results=results, registry=registry)
        for methods in by_encoder
    ]
    return "\n\n".join(made.markdown() for made in tables)


@dataclass(frozen=True)
class Tally:
    """A count, the number that it is out of (`of 88`, or nothing), and what is counted."""

    number: str
    total: str
    what: str


def tallies(folder: ResultsFolder) -> Iterator[Tally]:
    """Published numbers by their counts, claims, scores of other programs, measured cells."""
    cells, records = folder.reproduced, folder.records
    counts = count(cells)
    verdicts = [f"{counts[v]} {v}" for v in VERDICTS if counts[v]]
    verdicts += ["none differs"] if verdicts and not counts[CellState.DIFFERS] else []
    what = f"published numbers were measured here, by {different_scores(cells):,} different scores"
    what += f": {', '.join(verdicts)}" if verdicts else ""
    yield Tally(f"{counts['run']:,}", f"of {counts['published']:,}", what)
    tested = [c for c in folder.claim_results if c.outcome != ClaimOutcome.NOT_MEASURED]
    of_papers = claims_of_papers(tested)
    if of_papers:
        yield claims_tally("claims of the papers hold here", of_papers)
    of_no_paper = claims_of_no_paper(tested)
    if of_no_paper:
        yield claims_tally(f"{TESTS_OF_NO_PAPER} hold here", of_no_paper)
    compared = [s for _, scores in folder.compared for s in scores if s.agrees is not None]
    for what, by_authors in (
        ("programs that papers' authors released", True),
        ("libraries", False),
    ):
        theirs = [s for s in compared if bool(s.reference.authors_of) == by_authors]
        if theirs:
            equal = [score for score in theirs if score.agrees]
            what = f"scores of {what} are reproduced"
            what += f": {equal_scores(equal)}" if equal else ""
            yield Tally(str(len(equal)), f"of {len(theirs)}", what)
    seeds, methods = sum(map(len, records.by_cell.values())), len(records.methods)
    what = f"measured cells: {methods} methods on {len(records.by_task)} tasks, {seeds:,} records"
    yield Tally(f"{len(records.by_cell):,}", "", f"{what} over all seeds")


def claims_tally(what: str, tested: Sequence[ClaimResult]) -> Tally:
    """How many of these claims hold, what became of the others, and on which encoders."""
    outcomes = Counter(claim.outcome for claim in tested)
    fails, undecided = outcomes[ClaimOutcome.FAILS], outcomes[ClaimOutcome.UNDECIDED]
    words = f"{fails} do not hold, {undecided} undecided."
    words += caveats(tested) + outcomes_by_encoder(tested)
    return Tally(str(outcomes[ClaimOutcome.HOLDS]), f"of {len(tested)}", f"{what}; {words}")


def equal_scores(scores: Sequence[ReferenceScore]) -> str:
    """How many scores of which encoder agree within which tolerance; no paper prints them."""
    counts: Counter[str] = Counter()
    for score in scores:
        encoder = base_name(score.cell.method.partition(".")[0])
        subject = f"`{encoder}`" if encoder else "trainings"
        tolerance = score.reference.tolerance_of(score.cell)
        counts[f"of {subject} within {tolerance:g} points"] += 1
    return ", ".join(f"{number} {words}" for words, number in counts.items())


def different_scores(cells: Collection[Reproduction]) -> int:
    """How many scores the published numbers are compared with; two papers may publish one."""
    run = (reproduction.cell for reproduction in cells if reproduction.scores)
    return len({(c.method, tuple(c.tasks), c.metric, c.aggregation) for c in run})


def first_screen(folder: ResultsFolder) -> str:
    """What the README says first: the counts, and the papers with measured numbers."""
    cells, works = folder.reproduced, len({table.cite for table in folder.tables})
    counts = count(cells)
    runnable = counts["runnable"]
    inferred = sum(reproduction.cell.evidence == "inferred" for reproduction in cells)
    published = (
        f"{len(cells):,} published numbers from {len(folder.tables)} tables of {works} works "
        f"(papers and repositories). {runnable:,} name the method and the protocol that should "
        f"reproduce them, of which {runnable - counts['run']:,} have not been run here and "
        f"{inferred:,} rest on an inferred protocol; {len(cells) - runnable:,} name the reason why "
        "none can."
    )
    bullets = []
    for tally in tallies(folder):
        number = f"{tally.number} {tally.total}" if tally.total else tally.number
        bullets.append(f"* **{number}** {tally.what}")
    return "\n\n".join([published, "\n".join(bullets), published_counts(folder, measured=True)])


def counts_by_paper(folder: ResultsFolder) -> dict[str, Counter[str]]:
    """What `count` counts of each paper's published cells."""
    counts: dict[str, Counter[str]] = {}
    for published in folder.tables:
        of_table = count(folder.reproductions(published).values())
        counts[published.paper] = counts.get(published.paper, Counter()) + of_table
    return counts


def published_counts(folder: ResultsFolder, measured: bool = False) -> str:
    """The counts of each paper, then of all; `measured` leaves out papers without a score."""
    counts = counts_by_paper(folder) | {"all": count(folder.reproduced)}
    columns = ["run", *(str(v) for v in VERDICTS if counts["all"][v]), "runnable", "published"]
    rows = [
        [escape(paper), *(of_paper[column] for column in columns)]
        for paper, of_paper in counts.items()
        if of_paper["run"] or paper == "all" or not measured
    ]
    words = "not rehearsed"
    rehearsal = folder.rehearsal
    if rehearsal is not None:
        code = f"with the code of commit {rehearsal.commit[:12]}"
        if rehearsal.dirty:
            code += ", with uncommitted changes"
        words = f"{rehearsal.numbers:,} numbers rehearsed {code}, on stand-ins of the weights"
    return f"{table(['paper', *columns], rows)}\n\n`runnable`: {words}."
