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
from harness.report.table import ShownCell, ShownTable, row_of, table_of
from harness.results.differences import Outcome
from harness.results.index import DIGEST_DIGITS_SHOWN, MISSING, encoder_of_method
from harness.results.reproduction import Reproduction, count
from harness.results.scorings import TASK_LABELS

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
MOST_ROWS = 6  # of the first table


def front(folder: Conclusions) -> dict[str, Any]:
    """What templates say of a folder first."""
    return {
        "measured_most": measured_most(folder),
        "missing": missing(folder),
        "tallies": tallies(folder),
    }


def measured_most(folder: Conclusions) -> ShownTable | None:
    """The published rows with most numbers that were measured on the seven tasks.

    Each is above what was measured, with the task in any text form. None where nothing
    was measured.
    """
    numbers_by_row: dict[tuple[str, str], dict[str, Reproduction]] = {}
    for reproduction in folder.all_reproductions:
        number = reproduction.number
        task = str(number.task).partition(".")[0]
        if task not in TASK_LABELS:
            continue
        is_test = "test" in folder.registry.tasks[str(number.task)].scored
        if is_test and number.metric == "spearman" and reproduction.scores:
            row = numbers_by_row.setdefault((number.table.id, number.row.id), {})
            row.setdefault(task, reproduction)
    most_first = sorted(numbers_by_row.values(), key=len, reverse=True)
    rows = []
    for numbers in most_first[:MOST_ROWS]:
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
        verdicts = dict.fromkeys(
            str(reproduction.state) for reproduction in numbers.values()
        )
        rows.append(row_of([name, *printed], "published"))
        label = f"measured here: {', '.join(verdicts)}"
        rows.append(row_of([label, *measured], "measured"))
    head = [metric_in_words("spearman"), *TASK_LABELS.values()]
    return table_of(head, rows) if rows else None


def missing(folder: Conclusions) -> str:
    """What was measured on BERT-base of the four papers' numbers, and what measures the others.

    The papers' own tables count, and not those of issues and READMEs about them.
    """
    papers = {table.paper for table in folder.tables if table.id in PAPERS_TABLES}
    of_papers = [
        reproduction
        for reproduction in folder.all_reproductions
        if reproduction.number.table.paper in papers
        and base_name(encoder_of_method(reproduction.number.method or ""))
        == PAPERS_ENCODER
    ]
    measured = sum(bool(reproduction.scores) for reproduction in of_papers)
    present = sources_of_records(folder.records, folder.registry)
    waiting = waiting_numbers(of_papers, folder.registry, present)
    four = "the four papers (SBERT, BERT-flow, BERT-whitening, SimCSE)"
    sentences = [f"{measured:,} numbers of {four} on BERT-base were measured here."]
    if not measured and waiting:
        sentences = [
            f"No number of {four} has been measured here on BERT-base: its weights could not "
            "be downloaded where these results were made."
        ]
    elif not measured:
        return ""
    if waiting:
        counts = [
            f"{len(numbers):,} after {' and '.join(f'`{each}`' for each in commands)}"
            for commands, numbers in waiting.items()
        ]
        sentences.append(
            "Where `harness fetch` has got the data of the tasks, `make reproduce "
            f"PROFILE=papers` measures {'more' if measured else 'some'}: {', '.join(counts)}."
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
