"""What was reproduced: how README, leaderboard and page of results begin.

The published rows of which most was measured, what was not measured and which command
does it, the tables of the four papers, the counts, and a list of all published tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from harness.conclusions.folder import Conclusions
from harness.conclusions.standings import StandingKind
from harness.core.hardware import base_name
from harness.core.terminal import counted
from harness.report.claims import claims_by_size, outcomes_in_words
from harness.report.next_steps import sources_of_records, waiting_numbers
from harness.report.sentences import metric_in_words, states_in_words
from harness.report.table import ShownCell, ShownRow, ShownTable, row_of, table_of
from harness.results.differences import Outcome
from harness.results.index import DIGEST_DIGITS_SHOWN, MISSING, encoder_of_method
from harness.results.layout import PAPERS_ENCODER
from harness.results.published import PublishedNumber
from harness.results.reproduction import Reproduction, count
from harness.results.scorings import TASK_LABELS
from harness.results.verdict import CellState

# The tables of the four papers on the seven tasks, and the encoder of most of their rows.
PAPERS_TABLES = (
    "simcse.t5",
    "bert-flow.t2",
    "bert-whitening.t1",
    "sbert.t1",
    "bert-flow.t3",
    "bert-whitening.t2",
)
MOST_ROWS = 5  # of the table of other encoders

NumbersByTask = dict[str, Reproduction]  # of a row, by task without its text form


def front(folder: Conclusions) -> dict[str, Any]:
    """What templates say of a folder first; three pages have it."""
    contradicted = sum(
        any(standing.kind is StandingKind.CONTRADICTED for standing in standings)
        for standings in folder.standings.values()
    )
    return {
        "of_papers": rows_of_papers(folder),
        "outcome": outcome_of_papers(folder),
        "differing": differing(folder),
        "contradicted": contradicted,
        # The page of mteb's results is of the harness's own repository.
        "of_mteb": folder.path.with_name("docs").joinpath("contradictions.md").exists(),
        "missing": missing(folder),
        "measured_most": measured_most(folder),
        "tallies": tallies(folder),
    }


# Published rows above what was measured


def rows_of_papers(folder: Conclusions) -> ShownTable | None:
    """The rows of the four papers on BERT-base, in their tables of the seven tasks."""
    of_papers = []
    for numbers in _rows_on_seven_tasks(folder):
        number = next(iter(numbers.values())).number
        is_own = not number.row.quoted and _is_of_papers_encoder(number)
        if is_own and number.table.id in PAPERS_TABLES:
            of_papers.append((PAPERS_TABLES.index(number.table.id), numbers))
    of_papers.sort(key=lambda each: each[0])
    rows = []
    for _, numbers in of_papers:
        rows += _two_lines(numbers)
    return _on_seven_tasks(rows)


def measured_most(folder: Conclusions) -> ShownTable | None:
    """The rows of other encoders with most numbers that were measured on the seven tasks."""
    others = [
        numbers
        for numbers in _rows_on_seven_tasks(folder)
        if not _is_of_papers_encoder(next(iter(numbers.values())).number)
    ]
    rows = []
    for numbers in sorted(others, key=len, reverse=True)[:MOST_ROWS]:
        rows += _two_lines(numbers)
    return _on_seven_tasks(rows)


def _is_of_papers_encoder(number: PublishedNumber) -> bool:
    """Whether BERT-base itself reproduces a number, and nothing that was trained from it."""
    return base_name(encoder_of_method(number.method or "")) == PAPERS_ENCODER


def _rows_on_seven_tasks(folder: Conclusions) -> list[NumbersByTask]:
    """The measured Spearman correlations of each published row, by task in any text form."""
    numbers_by_row: dict[str, NumbersByTask] = {}
    for reproduction in folder.all_reproductions:
        number = reproduction.number
        task = str(number.task).partition(".")[0]
        if task not in TASK_LABELS:
            continue
        is_test = "test" in folder.registry.tasks[str(number.task)].scored
        if is_test and number.metric == "spearman" and reproduction.scores:
            row = numbers_by_row.setdefault(number.row_id, {})
            row.setdefault(task, reproduction)
    return [*numbers_by_row.values()]


def _two_lines(numbers: NumbersByTask) -> list[ShownRow]:
    """The printed numbers of a row, and below them the measured ones with their verdicts."""
    number = next(iter(numbers.values())).number
    name = ShownCell(f"{number.row.label}, {number.table.paper}")
    printed = [MISSING] * len(TASK_LABELS)
    measured = [ShownCell(MISSING)] * len(TASK_LABELS)
    for place, task in enumerate(TASK_LABELS):
        if task in numbers:
            reproduction = numbers[task]
            printed[place] = f"{reproduction.number.points:.2f}"
            text = f"{reproduction.measured:.2f}"
            measured[place] = ShownCell(text, state=str(reproduction.state))
    label = f"measured here: {states_in_words(numbers.values())}"
    return [
        row_of([name, *printed], "published"),
        row_of([label, *measured], "measured"),
    ]


def _on_seven_tasks(rows: list[ShownRow]) -> ShownTable | None:
    """A table of the seven tasks; None without rows."""
    head = [metric_in_words("spearman"), *TASK_LABELS.values()]
    return table_of(head, rows) if rows else None


# The four papers' numbers of BERT-base

FOUR_PAPERS = "the four papers (SBERT, BERT-flow, BERT-whitening, SimCSE)"


def _of_four_papers(folder: Conclusions) -> list[Reproduction]:
    """The numbers of the four papers that BERT-base reproduces.

    The papers' own tables count, and not those of issues and READMEs about them.
    """
    papers = {table.paper for table in folder.tables if table.id in PAPERS_TABLES}
    return [
        reproduction
        for reproduction in folder.all_reproductions
        if reproduction.number.table.paper in papers
        and _is_of_papers_encoder(reproduction.number)
    ]


def outcome_of_papers(folder: Conclusions) -> str:
    """How many of the four papers' numbers were measured on BERT-base, and their verdicts."""
    measured = [each for each in _of_four_papers(folder) if each.scores]
    if not measured:
        return ""
    return (
        f"{len(measured):,} numbers of {FOUR_PAPERS} on BERT-base were measured here: "
        f"{states_in_words(measured)}."
    )


def differing(folder: Conclusions) -> ShownTable | None:
    """The four papers' numbers that differ from what was measured, each with the reason.

    A number that another table quotes stands here once, where it was first printed.
    """
    inherited = {
        average.id for misprint in folder.misprints for average in misprint.averages
    }
    differ = {
        reproduction.number.id: reproduction
        for reproduction in _of_four_papers(folder)
        if reproduction.state is CellState.DIFFERS
    }
    rows = []
    quotations = 0
    for reproduction in differ.values():
        number = reproduction.number
        if any(
            standing.kind is StandingKind.QUOTED and standing.other.id in differ
            for standing in folder.standings.get(number.id, ())
        ):
            quotations += 1
            continue
        reason = number.row.differs or "not explained"
        if number.is_misprint:
            reason = number.notes[0]
        elif number.id in inherited:
            reason = "the mean of its row, with a misprint in it"
        place = f"{number.place}: {number.row.label}, {number.column.label}"
        rows.append([place, reason, number.shown, reproduction.shown])
    if quotations:
        repeated = f"and, in tables that quote them, {counted(quotations, 'number')}"
        rows.append([repeated, "as above", "", ""])
    head = ("what differs", "why", "printed", "measured")
    return table_of(head, rows, texts=2) if rows else None


def missing(folder: Conclusions) -> str:
    """What measures the four papers' numbers of BERT-base that were not measured."""
    of_papers = _of_four_papers(folder)
    is_measured = any(reproduction.scores for reproduction in of_papers)
    present = sources_of_records(folder.records, folder.registry)
    waiting = waiting_numbers(of_papers, folder.registry, present)
    if not waiting:
        return ""
    sentences = []
    if not is_measured:
        sentences.append(
            f"No number of {FOUR_PAPERS} has been measured here on BERT-base."
        )
    counts = [
        f"{len(numbers):,} after {' and '.join(f'`{each}`' for each in commands)}"
        for commands, numbers in waiting.items()
    ]
    not_run = sum(each.state is CellState.NOT_RUN for each in of_papers)
    without_needs = not_run - sum(map(len, waiting.values()))
    if without_needs:
        counts.insert(0, f"{without_needs:,} that take hours and need nothing else")
    sentences.append(
        "Where `harness fetch` has got the data of the tasks, `make reproduce "
        f"PROFILE=papers` measures {'more' if is_measured else 'some'}: {', '.join(counts)}."
    )
    return " ".join(sentences)


def tallies(folder: Conclusions) -> ShownTable:
    """What was compared with what, how many there are, and what came of it."""
    head = ("what was compared", "how many", "what came of it")
    return table_of(head, _tallies(folder), texts=3)


def _tallies(folder: Conclusions) -> Iterator[tuple[str, str, str]]:
    numbers, results = folder.all_reproductions, folder.records
    total = count(numbers)
    works = {table.cite for table in folder.tables}
    inferred = sum(
        reproduction.number.evidence == "inferred" for reproduction in numbers
    )
    runnable = (
        f"{total['runnable']:,} name the method and the protocol that should reproduce them, "
        f"{inferred:,} of these an inferred protocol; the others name the reason why none can"
    )
    rehearsal = folder.rehearsal
    yield (
        f"published numbers from {len(folder.tables)} tables of {len(works)} works",
        f"{len(numbers):,}",
        runnable,
    )
    if rehearsal is not None:
        yield (
            "of them run on stand-ins of the weights",
            f"{rehearsal.numbers:,}",
            f"with the code of commit {rehearsal.commit[:DIGEST_DIGITS_SHOWN]}",
        )
    standings: Counter[StandingKind] = Counter()
    for of_number in folder.standings.values():
        standings.update({standing.kind for standing in of_number})
    of_two_kinds = sum(
        len({standing.kind for standing in of_number}) > 1
        for of_number in folder.standings.values()
    )
    words = ", ".join(f"{count} {kind}" for kind, count in standings.most_common())
    if of_two_kinds:
        words += f"; {of_two_kinds} of them under two of these words"
    yield ("of them printed by another table, too", f"{len(folder.standings):,}", words)
    measured = [each.number for each in numbers if each.scores]
    scores = {
        (number.method, number.tasks, number.metric, number.aggregation)
        for number in measured
    }
    yield (
        "of them with scores measured here",
        f"{len(measured):,}",
        f"{_verdicts(numbers)}; by {counted(len(scores), 'different score')}",
    )
    tested = [
        result
        for result in folder.claim_results
        if result.outcome != Outcome.NOT_MEASURED
    ]
    for title, group in claims_by_size(tested, folder.encoder_sizes).items():
        size = f"{title[0].lower()}{title[1:]}"
        yield (
            f"claims of papers, tested on {size}",
            str(len(group)),
            outcomes_in_words(result.outcome for result in group),
        )
    for programs, is_by_authors in (
        ("programs or model code of papers' authors", True),
        ("libraries", False),
    ):
        compared = [
            score
            for reference, scores_of_reference in folder.compared_references
            for score in scores_of_reference
            if bool(reference.authors_of) == is_by_authors and score.agrees is not None
        ]
        equal = [score for score in compared if score.agrees]
        tolerances = [score.reference.tolerance_of(score.cell) for score in compared]
        if compared:
            yield (
                f"scores of {programs}",
                f"{len(equal)} of {len(compared)}",
                f"each within its tolerance (at most {max(tolerances):g} in points)",
            )
    records = sum(len(records) for records in results.by_cell.values())
    yield (
        "measured cells, a method on a task",
        f"{len(results.by_cell):,}",
        f"{counted(len(results.methods), 'method')} on "
        f"{counted(len(results.by_task), 'task')}, {records:,} records over all seeds",
    )


def _verdicts(numbers: Iterable[Reproduction]) -> str:
    """The verdicts of those that were measured."""
    return states_in_words(number for number in numbers if number.scores)


def published_tables(folder: Conclusions) -> list[list[object]]:
    """A row for every published table with its counts, of which most was measured first.

    A number that waits needs commands; those that most numbers of the table need are
    shown.
    """
    present = sources_of_records(folder.records, folder.registry)
    rows = []
    for table in folder.tables:
        numbers = folder.reproductions(table).values()
        counts = count(numbers)
        needs = ""
        waiting = waiting_numbers(numbers, folder.registry, present)
        if waiting:
            commands, of_commands = next(iter(waiting.items()))
            needs = " and ".join(f"`{command}`" for command in commands)
            needs += f" for {len(of_commands)}"
        page = f"tables/papers/{table.id}.md"
        name = ShownCell(f"{table.paper}, {table.table}", link=page)
        of_counts = [counts[word] for word in ("published", "runnable", "run")]
        rows.append((counts["run"], [name, *of_counts, _verdicts(numbers), needs]))
    rows.sort(key=lambda row: -row[0])
    return [cells for _, cells in rows]
