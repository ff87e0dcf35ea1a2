"""How much was reproduced: the counts that README, leaderboard and page begin with.

`tallies` are sentences with a number each: published numbers, claims, scores of other
programs, measured cells. `first_screen`, `rows_and_counts` and `unmeasured_tables` are
parts of pages in Markdown.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from harness.core.hardware import base_name
from harness.report.first_table import first_table
from harness.report.markdown import escape, table
from harness.report.next_steps import sources_of_records, waiting_numbers
from harness.report.replication import claims_by_size, encoders_of, outcomes_in_words
from harness.results.claim_tests import ClaimOutcome, ClaimResult
from harness.results.conformance import ReferenceScore
from harness.results.folder import ResultsFolder
from harness.results.index import DIGEST_DIGITS_SHOWN, encoder_of_method
from harness.results.published import Table
from harness.results.reproduction import Reproduction, count
from harness.results.verdict import VERDICTS, CellState


@dataclass(frozen=True)
class Tally:
    """One of the counts that a page begins with.

    Attributes:
        number: How many there are.
        total: Out of how many, as `of 88`; empty where that says nothing.
        what: What is counted, as the rest of the sentence.
    """

    number: str
    total: str
    what: str


def tallies(folder: ResultsFolder) -> Iterator[Tally]:
    """Published numbers by their counts, claims, scores of other programs, measured cells."""
    yield _tally_of_published(folder)

    tested_claims = [
        result
        for result in folder.claim_results
        if result.outcome != ClaimOutcome.NOT_MEASURED
    ]
    for title, group in claims_by_size(tested_claims, folder.encoder_sizes).items():
        yield _tally_of_claims(title, group)

    scores_of_authors: list[ReferenceScore] = []
    scores_of_libraries: list[ReferenceScore] = []
    for reference, scores in folder.compared_references:
        compared_scores = [score for score in scores if score.agrees is not None]
        if reference.authors_of:
            scores_of_authors += compared_scores
        else:
            scores_of_libraries += compared_scores
    if scores_of_authors:
        programs = "programs or model code that papers' authors released"
        yield _tally_of_scores(programs, scores_of_authors)
    if scores_of_libraries:
        yield _tally_of_scores("libraries", scores_of_libraries)

    yield _tally_of_cells(folder)


def _tally_of_published(folder: ResultsFolder) -> Tally:
    """How many published numbers were measured, with their verdicts."""
    cells = folder.all_reproductions
    counts = count(cells)
    verdicts = [
        f"{counts[verdict]} {verdict}" for verdict in VERDICTS if counts[verdict]
    ]
    if verdicts and not counts[CellState.DIFFERS]:
        verdicts.append("none differs")
    scores = f"{different_scores(cells):,} different scores"
    subject = f"published numbers were measured here, by {scores}"
    if verdicts:
        subject += f": {', '.join(verdicts)}"
    return Tally(
        number=f"{counts['run']:,}", total=f"of {counts['published']:,}", what=subject
    )


def different_scores(cells: Collection[Reproduction]) -> int:
    """How many scores the published numbers are compared with; two papers may publish one."""
    scores = set()
    for reproduction in cells:
        cell = reproduction.cell
        if reproduction.scores:
            scores.add((cell.method, tuple(cell.tasks), cell.metric, cell.aggregation))
    return len(scores)


def _tally_of_claims(title: str, group: Sequence[ClaimResult]) -> Tally:
    """How many claims were tested on encoders of one size, and which, and what was found."""
    noun = "claim" if len(group) == 1 else "claims"
    encoders = f"{title[0].lower()}{title[1:]} ({encoders_of(group)})"
    subject = f"{noun} of papers tested on {encoders}: {outcomes_in_words(group)}"
    return Tally(number=str(len(group)), total="", what=subject)


def _tally_of_scores(programs: str, scores: Sequence[ReferenceScore]) -> Tally:
    """How many scores of other programs equal ours."""
    equal_scores = [score for score in scores if score.agrees]
    subject = f"scores of {programs} are reproduced"
    if equal_scores:
        subject += f": {_tolerances_in_words(equal_scores)}"
    return Tally(number=str(len(equal_scores)), total=f"of {len(scores)}", what=subject)


def _tolerances_in_words(scores: Sequence[ReferenceScore]) -> str:
    """How many scores of each encoder agree within each tolerance."""
    counts: Counter[str] = Counter()
    for score in scores:
        encoder = base_name(encoder_of_method(score.cell.method))
        subject = f"`{encoder}`" if encoder else "trainings"
        tolerance = score.reference.tolerance_of(score.cell)
        unit = "point" if tolerance == 1 else "points"
        counts[f"of {subject} within {tolerance:g} {unit}"] += 1
    return ", ".join(f"{number} {words}" for words, number in counts.items())


def _tally_of_cells(folder: ResultsFolder) -> Tally:
    """How many cells were measured, with their methods, tasks and seeds."""
    results = folder.records
    methods, tasks = len(results.methods), len(results.by_task)
    seeds = sum(len(records) for records in results.by_cell.values())
    return Tally(
        number=f"{len(results.by_cell):,}",
        total="",
        what=(
            f"measured cells: {methods} methods on {tasks} tasks, "
            f"{seeds:,} records over all seeds"
        ),
    )


# Parts of pages


def first_screen(folder: ResultsFolder) -> str:
    """What the README says first: a paper's rows, the counts, the papers with measured numbers."""
    bullets = []
    for tally in tallies(folder):
        number = f"{tally.number} {tally.total}" if tally.total else tally.number
        bullets.append(f"* **{number}** {tally.what}")
    parts = [
        *_measured_rows(folder, "results/tables/papers"),
        "\n".join(bullets),
        _published_in_words(folder),
        published_counts(folder),
    ]
    return "\n\n".join(parts)


def _published_in_words(folder: ResultsFolder) -> str:
    """How many numbers are published, how many name a method and a protocol, and why others not."""
    cells = folder.all_reproductions
    counts = count(cells)
    works = len({paper_table.cite for paper_table in folder.tables})
    runnable = counts["runnable"]
    not_run = runnable - counts["run"]
    not_runnable = len(cells) - runnable
    inferred = sum(reproduction.cell.evidence == "inferred" for reproduction in cells)
    return (
        f"{len(cells):,} published numbers from {len(folder.tables)} tables of {works} works "
        f"(papers and repositories). {runnable:,} name the method and the protocol that should "
        f"reproduce them, of which {not_run:,} have not been run here and "
        f"{inferred:,} rest on an inferred protocol; {not_runnable:,} name the reason why "
        "none can."
    )


def rows_and_counts(folder: ResultsFolder, tables: str) -> str:
    """A paper's rows, published and measured, then the counts of each paper.

    Args:
        folder: The results.
        tables: The folder of the pages of published tables, as links name it.
    """
    return "\n\n".join([*_measured_rows(folder, tables), published_counts(folder)])


def _measured_rows(folder: ResultsFolder, tables: str) -> list[str]:
    """The first table, if something was measured for it."""
    first = first_table(folder)
    return [] if first is None else [first.markdown(tables)]


def counts_by_paper(folder: ResultsFolder) -> dict[str, Counter[str]]:
    """What `count` counts of each paper's published cells."""
    counts: dict[str, Counter[str]] = {}
    for paper_table in folder.tables:
        counts_of_table = count(folder.reproductions(paper_table).values())
        counts_so_far = counts.get(paper_table.paper, Counter())
        counts[paper_table.paper] = counts_so_far + counts_of_table
    return counts


def published_counts(folder: ResultsFolder) -> str:
    """The counts of each paper with a measured number, then of all papers."""
    total = count(folder.all_reproductions)
    verdicts = [str(verdict) for verdict in VERDICTS if total[verdict]]
    columns = ["run", *verdicts, "runnable", "published"]
    rows = []
    for paper, counts in counts_by_paper(folder).items():
        if counts["run"]:
            rows.append([escape(paper), *(counts[column] for column in columns)])
    rows.append(["all", *(total[column] for column in columns)])
    counts_table = table(["paper", *columns], rows)
    return f"{counts_table}\n\n`runnable`: {_rehearsal_in_words(folder)}."


def _rehearsal_in_words(folder: ResultsFolder) -> str:
    """How many of the runnable numbers were run with stand-ins, and with which code."""
    rehearsal = folder.rehearsal
    if rehearsal is None:
        return "not rehearsed"
    code = f"with the code of commit {rehearsal.commit[:DIGEST_DIGITS_SHOWN]}"
    if rehearsal.dirty:
        code += ", with uncommitted changes"
    return (
        f"{rehearsal.numbers:,} numbers rehearsed {code}, on stand-ins of the weights"
    )


def unmeasured_tables(folder: ResultsFolder) -> str:
    """The published tables without a measured number, a line each."""
    lines = []
    for paper_table in folder.tables:
        cells = folder.reproductions(paper_table).values()
        if not any(cell.scores for cell in cells):
            lines.append(_unmeasured_line(paper_table, cells, folder))
    return "\n".join(lines)


def _unmeasured_line(
    paper_table: Table, cells: Collection[Reproduction], folder: ResultsFolder
) -> str:
    """A table with its counts, and the commands that get what most of its numbers need."""
    counts = count(cells)
    name = escape(f"{paper_table.paper}, {paper_table.table}")
    line = (
        f"* [{name}](tables/papers/{paper_table.id}.md): {counts['published']} published, "
        f"{counts['runnable']} runnable"
    )
    present = sources_of_records(folder.records, folder.registry)
    waiting = waiting_numbers(cells, folder.registry, present)
    if waiting:
        commands = max(waiting, key=waiting.__getitem__)
        commands_in_words = " and ".join(f"`{command}`" for command in commands)
        line += f"; {commands_in_words} for {waiting[commands]}"
    return line
