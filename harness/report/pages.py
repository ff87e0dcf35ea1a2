"""The pages of conformance and of traps, the counts that README and other pages begin
with, and the table of the example plug-ins."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from harness.core.hardware import base_name
from harness.registry import Registry
from harness.report.first_table import first_table
from harness.report.markdown import Page, escape, table, texts
from harness.report.method_table import MethodTable, columns_of_tasks
from harness.report.next_steps import sources_of_records, waiting_numbers
from harness.report.replication import claims_by_size, encoders_of, outcomes_in_words
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
SCORE_HEAD = (
    "method",
    "task",
    "score",
    "theirs",
    "ours",
    "difference",
    "tolerance",
    "verdict",
)
REFERENCE_HEAD = (
    "reference",
    "program of",
    "scores",
    "compared",
    "equal",
    "largest difference",
)


def conformance_page(
    references: Sequence[tuple[Reference, Sequence[ReferenceScore]]], results: Results
) -> Page:
    """A line for each reference, then each with all of its scores."""
    summary: list[list[object]] = []
    sections: list[str] = []
    counts = {"authors": 0, "library": 0}
    for reference, scores in references:
        counts["authors" if reference.authors_of else "library"] += len(scores)
        summary.append(_reference_row(reference, scores))
        facts = _reference_in_words(reference)
        sections += [f"## {reference.file}", facts, comparison_table(scores)]
    introduction = texts()["conformance"].format(
        **counts, tolerance=REFERENCE_TOLERANCE, verdicts=TOLERANCES
    )
    parts = [introduction, table(REFERENCE_HEAD, summary, words=2), *sections]
    cells = [score.cell.what for _, scores in references for score in scores]
    return Page("Conformance", parts, results.select(cells))


def _reference_row(
    reference: Reference, scores: Sequence[ReferenceScore]
) -> list[object]:
    """A reference in the table of all: how many scores it has, and how many equal ours."""
    differences = [
        abs(score.difference) for score in scores if score.difference is not None
    ]
    return [
        f"`{reference.file}`",
        f"the authors of {reference.authors_of}"
        if reference.authors_of
        else "a library",
        len(scores),
        len(differences),
        sum(score.agrees is True for score in scores),
        f"{max(differences):.4f}" if differences else "",
    ]


def _reference_in_words(reference: Reference) -> str:
    """Program, scores and command of a reference, a bullet each."""
    version = f" ({reference.version})" if reference.version else ""
    bullets = [
        f"* Program: {reference.program}{version}",
        f"* Scores: {reference.what}",
        f"* Command: `{reference.command}`",
    ]
    if reference.reason:
        bullets.append(f"* Tolerance: {reference.reason}")
    return "\n".join(bullets)


def comparison_table(scores: Sequence[ReferenceScore]) -> str:
    """A line for each score; one that was not measured has its state in place of ours."""
    return table(SCORE_HEAD, [_score_row(score) for score in scores], words=3)


def _score_row(score: ReferenceScore) -> list[str]:
    method, task = score.cell.what
    if score.ours is None or score.difference is None:
        measured, difference, verdict = score.state, "", ""
    else:
        measured = f"{score.ours:.4f}"
        difference = (
            f"{round(score.difference, 4) + 0.0:+.4f}"  # 0.0 makes -0.0 positive
        )
        verdict = (
            score.state if score.agrees else f"{score.state}, beyond the tolerance"
        )
    return [
        f"`{method}`",
        f"`{task}`" if task else "training",
        score.score,
        f"{score.theirs:.4f}",
        measured,
        difference,
        f"{score.reference.tolerance_of(score.cell):g}",
        verdict,
    ]


def traps_page(results: Results, traps: Sequence[Trap]) -> Page:
    """All traps with their numbers; a row whose cell was not run says so."""
    parts = [texts()["traps"]]
    for number, trap in enumerate(traps, start=1):
        rows = []
        for row, score, gap in trap.values(results):
            difference = "" if gap is None else f"{gap:+.2f}"
            rows.append(
                [row.what, f"`{row.method}`", f"`{row.task}`", score, difference]
            )
        numbers = table(["", "method", "task", "score", "difference"], rows, words=3)
        parts += [f"## {number}. {trap.title}", trap.text, numbers]
    cells = [(row.method, row.task) for trap in traps for row in trap.rows]
    return Page("Protocol traps", parts, results.select(cells))


def examples_part(store: Store, registry: Registry) -> str:
    """A table of each encoder: the example plug-ins, and what comes with the harness.

    Its columns are those of the first table of the leaderboard.
    """
    results, scoring = Results.read(store), SCORINGS[0]
    tasks = [registry.tasks[scoring.task(base)] for base in SEVEN]
    headings = (*TASK_LABELS.values(), "Avg.")
    aggregated = columns_of_tasks(tasks, scoring.aggregation).values()
    columns = dict(zip(headings, aggregated, strict=True))
    tables = []
    for methods in methods_by_encoder(results.methods).values():
        method_table = MethodTable(
            methods=methods, columns=columns, results=results, registry=registry
        )
        tables.append(method_table.markdown())
    return "\n\n".join(tables)


@dataclass(frozen=True)
class Tally:
    """One of the counts that a page begins with.

    Attributes:
        number: How many there are.
        total: Out of how many, as `of 88`; empty where that says nothing.
        what: What is counted.
    """

    number: str
    total: str
    what: str


def tallies(folder: ResultsFolder) -> Iterator[Tally]:
    """Published numbers by their counts, claims, scores of other programs, measured cells."""
    yield _tally_of_published(folder)

    tested = [r for r in folder.claim_results if r.outcome != ClaimOutcome.NOT_MEASURED]
    for title, group in claims_by_size(tested, folder.encoder_sizes).items():
        yield claims_tally(title, group)

    by_authors: list[ReferenceScore] = []
    by_libraries: list[ReferenceScore] = []
    for reference, scores in folder.compared:
        known = [score for score in scores if score.agrees is not None]
        (by_authors if reference.authors_of else by_libraries).extend(known)
    if by_authors:
        yield _tally_of_scores("programs that papers' authors released", by_authors)
    if by_libraries:
        yield _tally_of_scores("libraries", by_libraries)

    records = folder.records
    seeds = sum(map(len, records.by_cell.values()))
    what = (
        f"measured cells: {len(records.methods)} methods on {len(records.by_task)} tasks, "
        f"{seeds:,} records over all seeds"
    )
    yield Tally(number=f"{len(records.by_cell):,}", total="", what=what)


def _tally_of_published(folder: ResultsFolder) -> Tally:
    """How many published numbers were measured, with their verdicts."""
    cells = folder.reproduced
    counts = count(cells)
    verdicts = [
        f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]
    ]
    if verdicts and not counts[CellState.DIFFERS]:
        verdicts.append("none differs")
    what = f"published numbers were measured here, by {different_scores(cells):,} different scores"
    if verdicts:
        what += f": {', '.join(verdicts)}"
    return Tally(
        number=f"{counts['run']:,}", total=f"of {counts['published']:,}", what=what
    )


def _tally_of_scores(programs: str, scores: Sequence[ReferenceScore]) -> Tally:
    """How many scores of other programs equal ours."""
    equal = [score for score in scores if score.agrees]
    what = f"scores of {programs} are reproduced"
    if equal:
        what += f": {equal_scores(equal)}"
    return Tally(number=str(len(equal)), total=f"of {len(scores)}", what=what)


def claims_tally(title: str, group: Sequence[ClaimResult]) -> Tally:
    """How many claims were tested on encoders of one size, and which, and what was found."""
    noun = "claim" if len(group) == 1 else "claims"
    encoders = f"{title[0].lower()}{title[1:]} ({encoders_of(group)})"
    what = f"{noun} of papers tested on {encoders}: {outcomes_in_words(group)}"
    return Tally(number=str(len(group)), total="", what=what)


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
    scores = set()
    for reproduction in cells:
        cell = reproduction.cell
        if reproduction.scores:
            scores.add((cell.method, tuple(cell.tasks), cell.metric, cell.aggregation))
    return len(scores)


def first_screen(folder: ResultsFolder) -> str:
    """What the README says first: a paper's rows, the counts, the papers with measured numbers."""
    cells = folder.reproduced
    counts = count(cells)
    runnable = counts["runnable"]
    inferred = sum(reproduction.cell.evidence == "inferred" for reproduction in cells)
    works = len({table.cite for table in folder.tables})
    numbers = (
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
    rows = measured_rows(folder, "results/tables/papers")
    return "\n\n".join([*rows, "\n".join(bullets), numbers, published_counts(folder)])


def counts_by_paper(folder: ResultsFolder) -> dict[str, Counter[str]]:
    """What `count` counts of each paper's published cells."""
    counts: dict[str, Counter[str]] = {}
    for published in folder.tables:
        counts_of_table = count(folder.reproductions(published).values())
        counts[published.paper] = (
            counts.get(published.paper, Counter()) + counts_of_table
        )
    return counts


def rows_and_counts(folder: ResultsFolder, tables: str) -> str:
    """A paper's rows, published and measured, then the counts of each paper."""
    return "\n\n".join([*measured_rows(folder, tables), published_counts(folder)])


def measured_rows(folder: ResultsFolder, tables: str) -> list[str]:
    """A paper's rows, published and measured; `tables` is the folder of the papers' pages."""
    shown = first_table(folder)
    return [] if shown is None else [shown.markdown(tables)]


def published_counts(folder: ResultsFolder) -> str:
    """The counts of each paper with a measured number, then of all papers."""
    total = count(folder.reproduced)
    verdicts = [str(verdict) for verdict in VERDICTS if total[verdict]]
    columns = ["run", *verdicts, "runnable", "published"]
    rows = []
    for paper, counts in counts_by_paper(folder).items():
        if counts["run"]:
            rows.append([escape(paper), *(counts[column] for column in columns)])
    rows.append(["all", *(total[column] for column in columns)])
    words = "not rehearsed"
    rehearsal = folder.rehearsal
    if rehearsal is not None:
        code = f"with the code of commit {rehearsal.commit[:12]}"
        if rehearsal.dirty:
            code += ", with uncommitted changes"
        words = f"{rehearsal.numbers:,} numbers rehearsed {code}, on stand-ins of the weights"
    return f"{table(['paper', *columns], rows)}\n\n`runnable`: {words}."


def unmeasured_tables(folder: ResultsFolder) -> str:
    """The published tables without a measured number, a line each, with what most numbers need."""
    present = sources_of_records(folder.records, folder.registry)
    lines = []
    for published in folder.tables:
        cells = folder.reproductions(published).values()
        counts = count(cells)
        if counts["run"]:
            continue
        name = escape(f"{published.paper}, {published.table}")
        line = f"* [{name}](tables/papers/{published.id}.md): {counts['published']} published"
        line += f", {counts['runnable']} runnable"
        waiting = waiting_numbers(cells, folder.registry, present)
        if waiting:
            commands, numbers = next(iter(waiting.items()))
            line += f"; {' and '.join(f'`{command}`' for command in commands)} for {numbers}"
        lines.append(line)
    return "\n".join(lines)
