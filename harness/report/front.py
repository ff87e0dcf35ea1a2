"""What was reproduced: how README, leaderboard and page of results begin.

`Front` has a published table that was measured, what was not measured and which command
does it, the tables of the four papers, and the counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from harness.core.hardware import base_name
from harness.report.claims import claims_by_size, outcomes_in_words
from harness.report.markdown import escape
from harness.report.next_steps import sources_of_records, waiting_numbers
from harness.report.papers import VERDICT_MARKS, printed_number
from harness.report.sentences import metric_in_words, number_of
from harness.report.table import (
    MISSING_NUMBER,
    NO_BREAK_SPACE,
    ShownCell,
    ShownRow,
    ShownTable,
    row_of,
    table_of,
)
from harness.results import published
from harness.results.claim_tests import ClaimOutcome
from harness.results.conformance import ReferenceScore
from harness.results.encoder_sizes import EncoderSize
from harness.results.folder import ResultsFolder
from harness.results.index import DIGEST_DIGITS_SHOWN, encoder_of_method
from harness.results.reproduction import Reproduction, count
from harness.results.scorings import TASK_LABELS
from harness.results.verdict import VERDICTS, CellState

# The tables of the four papers on the seven tasks, and the encoder of most of their rows.
PAPERS_TABLES = (
    "sbert.t1",
    "bert-flow.t2",
    "bert-flow.t3",
    "bert-whitening.t1",
    "bert-whitening.t2",
    "simcse.t5",
)
PAPERS_ENCODER = "bert-base"
FEWEST_TASKS = 5  # of the seven, for a row of the first table
TALLY_HEAD = ("what was compared", "how many", "what came of it")


@dataclass(frozen=True)
class FirstTable:
    """Rows of one published table, each above what was measured here."""

    paper_table: published.Table
    table: ShownTable

    def title_in(self, tables: str) -> str:
        """Its title in Markdown; `tables` is the folder of the pages of published tables."""
        title = f"[{escape(self.paper_table.title)}]({tables}/{self.paper_table.id}.md)"
        return f"{title}, published and measured here:"


# The measured cells of a row, by the name of the task.
MeasuredCells = Mapping[str, Reproduction]


@dataclass(frozen=True)
class Front:
    """What was reproduced of a results folder; each part is made when a page asks for it."""

    folder: ResultsFolder

    # The first table

    @cached_property
    def first(self) -> FirstTable | None:
        """The published table with most rows that were measured on most of the seven tasks.

        Of tables with as many such rows it is the one with the largest model. None where
        no row was measured.
        """
        best: tuple[int, int] | None = None
        first = None
        for table in self.folder.tables:
            cells_by_row = self._measured_cells(table)
            rows = [
                row for row in table.rows if len(cells_by_row[row.id]) >= FEWEST_TASKS
            ]
            rows.sort(key=self._size_rank)
            rank = (-len(rows), self._size_rank(rows[0])) if rows else (0, 0)
            if rows and (best is None or rank < best):
                best, first = rank, _first_table(table, rows, cells_by_row)
        return first

    def _size_rank(self, row: published.Row) -> int:
        """The size of a row's encoder as a number; the largest encoders have 0."""
        encoder = base_name(encoder_of_method(str(row.method)))
        return list(EncoderSize).index(self.folder.encoder_sizes[encoder])

    def _measured_cells(self, table: published.Table) -> Mapping[str, MeasuredCells]:
        """The measured cells of each row on the seven tasks, by the row's id.

        They are under the metric of the table, on the test splits. A task in another
        text form counts as the task.
        """
        cells_by_row: dict[str, dict[str, Reproduction]] = {
            row.id: {} for row in table.rows
        }
        for reproduction in self.folder.reproductions(table).values():
            cell = reproduction.cell
            task, _, form_or_split = str(cell.task).partition(".")
            is_scored_task = task in TASK_LABELS and form_or_split not in (
                "dev",
                "train",
            )
            if is_scored_task and cell.metric == table.metric and reproduction.scores:
                cells_by_row[cell.row.id][task] = reproduction
        return cells_by_row

    # The four papers

    @cached_property
    def missing(self) -> str:
        """That no number of the four papers was measured on BERT-base, and what measures them."""
        papers = {
            table.cite for table in self.folder.tables if table.id in PAPERS_TABLES
        }
        measured = runnable = 0
        for reproduction in self.folder.all_reproductions:
            cell = reproduction.cell
            encoder = base_name(encoder_of_method(cell.method or ""))
            if cell.table.cite in papers and encoder == PAPERS_ENCODER:
                measured += bool(reproduction.scores)
                runnable += bool(
                    reproduction.scores or reproduction.state is CellState.NOT_RUN
                )
        if not runnable:
            return ""
        if measured:
            return (
                f"{measured:,} of {runnable:,} numbers of the four papers (SBERT, BERT-flow, "
                "BERT-whitening, SimCSE) on BERT-base were measured here."
            )
        return (
            "No number of the four papers (SBERT, BERT-flow, BERT-whitening, SimCSE) has been "
            "measured here on BERT-base: its weights could not be downloaded where these results "
            f"were made. Where they can, `harness fetch {PAPERS_ENCODER}` and `make reproduce "
            f"PROFILE=papers` measure {runnable:,} of them."
        )

    @cached_property
    def papers(self) -> Sequence[ShownTable]:
        """The tables of the four papers: each row with its measured numbers, or why not."""
        tables = {table.id: table for table in self.folder.tables}
        return [
            _paper_table(tables[name], self.folder)
            for name in PAPERS_TABLES
            if name in tables
        ]

    @cached_property
    def inexact(self) -> Sequence[Reproduction]:
        """The measured numbers that are not exact."""
        exact = (CellState.EXACT, CellState.CONSISTENT)
        return [
            number
            for number in self.folder.all_reproductions
            if number.scores and number.state not in exact
        ]

    # Counts

    @cached_property
    def total(self) -> Counter[str]:
        """What `count` counts of all published numbers."""
        return count(self.folder.all_reproductions)

    @cached_property
    def verdicts(self) -> Sequence[str]:
        """The verdicts that some number has."""
        return [str(verdict) for verdict in VERDICTS if self.total[verdict]]

    @cached_property
    def counts_by_paper(self) -> Mapping[str, Counter[str]]:
        """What `count` counts of each paper's published numbers."""
        counts: dict[str, Counter[str]] = {}
        for table in self.folder.tables:
            counts_of_table = count(self.folder.reproductions(table).values())
            counts[table.paper] = counts.get(table.paper, Counter()) + counts_of_table
        return counts

    @cached_property
    def counts(self) -> ShownTable:
        """The counts of each paper with a measured number, then of all papers."""
        columns = ["run", *self.verdicts, "runnable", "published"]
        counts_by_name = {
            paper: counts
            for paper, counts in self.counts_by_paper.items()
            if counts["run"]
        }
        counts_by_name["all"] = self.total
        rows = []
        for name, counts in counts_by_name.items():
            rows.append([name, *(counts[column] for column in columns)])
        return table_of(["paper", *columns], rows)

    @cached_property
    def tallies(self) -> ShownTable:
        """What was compared with what, how many there are, and what came of it."""
        return table_of(TALLY_HEAD, self._tallies(), texts=3)

    def _tallies(self) -> Iterator[tuple[str, str, str]]:
        found = [f"{self.total[verdict]} {verdict}" for verdict in self.verdicts]
        if found and not self.total[CellState.DIFFERS]:
            found.append("none differs")
        scores = number_of(self._different_scores(), "different score")
        yield (
            "published numbers with scores measured here",
            f"{self.total['run']:,} of {self.total['published']:,}",
            f"{', '.join(found)}; by {scores}" if found else "",
        )
        tested = [
            result
            for result in self.folder.claim_results
            if result.outcome != ClaimOutcome.NOT_MEASURED
        ]
        for title, group in claims_by_size(tested, self.folder.encoder_sizes).items():
            size = f"{title[0].lower()}{title[1:]}"
            yield (
                f"claims of papers, tested on {size}",
                str(len(group)),
                outcomes_in_words(group),
            )
        authors: list[ReferenceScore] = []
        libraries: list[ReferenceScore] = []
        for reference, reference_scores in self.folder.compared_references:
            compared = [score for score in reference_scores if score.agrees is not None]
            group_of_scores = authors if reference.authors_of else libraries
            group_of_scores += compared
        if authors:
            yield _tally_of_scores("programs or model code of papers' authors", authors)
        if libraries:
            yield _tally_of_scores("libraries", libraries)
        results = self.folder.records
        records = sum(len(records) for records in results.by_cell.values())
        yield (
            "measured cells, a method on a task",
            f"{len(results.by_cell):,}",
            f"{number_of(len(results.methods), 'method')} on "
            f"{number_of(len(results.by_task), 'task')}, {records:,} records over all seeds",
        )

    def _different_scores(self) -> int:
        """How many scores the published numbers are compared with; two papers may publish one."""
        scores = set()
        for reproduction in self.folder.all_reproductions:
            cell = reproduction.cell
            if reproduction.scores:
                scores.add((cell.method, cell.tasks, cell.metric, cell.aggregation))
        return len(scores)

    @cached_property
    def published(self) -> str:
        """How many numbers are published, and how many have a method and a protocol."""
        cells = self.folder.all_reproductions
        works = len({table.cite for table in self.folder.tables})
        runnable = self.total["runnable"]
        inferred = sum(number.cell.evidence == "inferred" for number in cells)
        return (
            f"{len(cells):,} published numbers from {len(self.folder.tables)} tables of {works} "
            f"works (papers and repositories). {runnable:,} name the method and the protocol that "
            f"should reproduce them, of which {runnable - self.total['run']:,} have not been run "
            f"here and {inferred:,} rest on an inferred protocol; {len(cells) - runnable:,} name "
            "the reason why none can."
        )

    @cached_property
    def rehearsal(self) -> str:
        """How many of the runnable numbers were run with stand-ins, and with which code."""
        rehearsal = self.folder.rehearsal
        if rehearsal is None:
            return "`runnable`: not rehearsed."
        changes = ", with uncommitted changes" if rehearsal.dirty else ""
        return (
            f"`runnable`: {rehearsal.numbers:,} numbers were run on stand-ins of the weights, with "
            f"the code of commit {rehearsal.commit[:DIGEST_DIGITS_SHOWN]}{changes}."
        )

    # What is not measured

    @cached_property
    def waiting(self) -> Mapping[tuple[str, ...], int]:
        """How many numbers wait for which commands, the most first."""
        return self.waiting_of(self.folder.all_reproductions)

    def waiting_of(
        self, numbers: Sequence[Reproduction]
    ) -> Mapping[tuple[str, ...], int]:
        """How many of some numbers wait for which commands, the most first."""
        present = sources_of_records(self.folder.records, self.folder.registry)
        return waiting_numbers(numbers, self.folder.registry, present)

    @cached_property
    def unmeasured(self) -> Sequence[str]:
        """The published tables without a measured number, each with what most of it needs."""
        lines = []
        for table in self.folder.tables:
            cells = [*self.folder.reproductions(table).values()]
            if any(cell.scores for cell in cells):
                continue
            counts = count(cells)
            name = escape(f"{table.paper}, {table.table}")
            line = (
                f"[{name}](tables/papers/{table.id}.md): {counts['published']} published, "
                f"{counts['runnable']} runnable"
            )
            waiting = self.waiting_of(cells)
            if waiting:
                commands, numbers = next(iter(waiting.items()))
                line += f"; {' and '.join(f'`{command}`' for command in commands)} for {numbers}"
            lines.append(line)
        return lines


def _first_table(
    table: published.Table,
    rows: Sequence[published.Row],
    cells_by_row: Mapping[str, MeasuredCells],
) -> FirstTable:
    """Rows with two decimals, and the verdicts that their numbers have."""
    lines: list[ShownRow] = []
    for row in rows:
        numbers = cells_by_row[row.id]
        printed = [MISSING_NUMBER] * len(TASK_LABELS)
        measured = [ShownCell(MISSING_NUMBER)] * len(TASK_LABELS)
        for place, task in enumerate(TASK_LABELS):
            if task in numbers:
                printed[place] = f"{numbers[task].cell.points:.2f}"
                measured[place] = _measured_cell(numbers[task])
        verdicts = dict.fromkeys(str(number.state) for number in numbers.values())
        lines.append(row_of([f"{row.label}, published", *printed], "published"))
        label = f"measured here: {', '.join(verdicts)}"
        lines.append(row_of([label, *measured], "measured"))
    head = table_of([metric_in_words(table.metric), *TASK_LABELS.values()], [])
    return FirstTable(table, ShownTable(columns=head.columns, rows=lines))


def _paper_table(table: published.Table, folder: ResultsFolder) -> ShownTable:
    """The published numbers of each row with the measured ones below, or why there are none."""
    reproductions = folder.reproductions(table)
    rows: list[ShownRow] = []
    labels = [row.label for row in table.rows]
    for row in table.rows:
        numbers = [
            reproductions.get(f"{table.id}/{row.id}/{column.id}")
            for column in table.columns
        ]
        states = dict.fromkeys(
            str(number.state) for number in numbers if number and not number.scores
        )
        name = row.label if labels.count(row.label) == 1 else row.name
        printed = [printed_number(number.cell) if number else "" for number in numbers]
        rows.append(row_of([name, *printed, ", ".join(states)], "published"))
        if any(number and number.scores for number in numbers):
            cells = [_measured_cell(number, marked=True) for number in numbers]
            rows.append(row_of(["measured here", *cells, ""], "measured"))
    head = ["row", *(column.label for column in table.columns), "measured here"]
    shown = table_of(head, [])
    return ShownTable(
        columns=shown.columns,
        rows=rows,
        title=table.paper,
        about=table.title,
        key=table.id,
    )


def _measured_cell(number: Reproduction | None, *, marked: bool = False) -> ShownCell:
    """A measured number, with the mark of its verdict if wanted; empty without one."""
    if number is None or number.measured is None:
        return ShownCell("")
    mark = f"{NO_BREAK_SPACE}{VERDICT_MARKS[number.state]}" if marked else ""
    return ShownCell(f"{number.measured:.2f}", mark=mark, state=str(number.state))


def _tally_of_scores(
    programs: str, scores: Sequence[ReferenceScore]
) -> tuple[str, str, str]:
    """How many scores of other programs equal ours, and within which tolerances."""
    equal = [score for score in scores if score.agrees]
    tolerances = sorted({score.reference.tolerance_of(score.cell) for score in equal})
    found = ""
    if equal:
        lowest, highest = tolerances[0], tolerances[-1]
        span = f"{lowest:g}" if lowest == highest else f"{lowest:g} to {highest:g}"
        found = f"within the tolerance of each, {span} points"
    losses = sum(score.score == "loss" for score in equal)
    starts = sum(score.score == "before" for score in equal)
    if losses or starts:
        found += f"; losses: {losses}, from before a training: {starts}"
    inconclusive = sum(score.state == CellState.INCONCLUSIVE for score in scores)
    if inconclusive:
        found += f"; inconclusive: {inconclusive}"
    return f"scores of {programs}", f"{len(equal)} of {len(scores)}", found
