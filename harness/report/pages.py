"""Further pages: conformance, traps of protocols, public threads, contradicted numbers.

Each is a question to the results folder; `templates` has the words.
"""

from __future__ import annotations

from collections import Counter

from harness.conclusions.conformance import REFERENCE_TOLERANCE, ReferenceScore
from harness.conclusions.folder import Conclusions
from harness.conclusions.standings import StandingKind
from harness.conclusions.threads import UNKNOWN_CAUSE, Thread, rank_of_cause
from harness.core.digests import digest_of_repr
from harness.core.terminal import signed
from harness.report.diagnosis import answer_lines
from harness.report.table import rendered
from harness.results.index import MISSING
from harness.results.records import CellName
from harness.results.verdict import CellState


def conformance_page(folder: Conclusions) -> str:
    """A line for each reference, then each with all of its scores."""
    if not folder.compared_references:
        return ""
    overview = []
    by_origin: Counter[bool] = Counter()  # by whether authors released the program
    cells: list[CellName] = []
    for reference, scores in folder.compared_references:
        program = "a library"
        if reference.authors_of:
            program = f"the authors of {reference.authors_of}"
        gaps = [
            abs(score.difference) for score in scores if score.difference is not None
        ]
        equal = sum(score.agrees is True for score in scores)
        largest = f"{max(gaps):.4f}" if gaps else ""
        overview.append(
            [f"`{reference.file}`", program, len(scores), len(gaps), equal, largest]
        )
        by_origin[bool(reference.authors_of)] += len(scores)
        cells += [score.cell.subject for score in scores]
    return rendered(
        "conformance.md",
        title="Conformance",
        of_authors=by_origin[True],
        of_libraries=by_origin[False],
        tolerance=REFERENCE_TOLERANCE,
        overview=overview,
        references=[
            (reference, map(_score_row, scores))
            for reference, scores in folder.compared_references
        ],
        digest=folder.records.select(cells).digest,
    )


def _score_row(score: ReferenceScore) -> list[str]:
    """A score of another program and ours; one that was not measured has its state."""
    method, task = score.cell.subject
    measured, difference, verdict = score.state, "", ""
    if score.ours is not None and score.difference is not None:
        measured = f"{score.ours:.4f}"
        difference = signed(score.difference, 4)
        verdict = score.state
        if not score.agrees and verdict != CellState.INCONCLUSIVE:
            verdict += ", beyond the tolerance"
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


def traps_page(folder: Conclusions) -> str:
    """All traps with their numbers; a row whose cell was not run says so."""
    if not folder.traps:
        return ""
    traps = []
    cells: list[CellName] = []
    for trap in folder.traps:
        rows = []
        for row, score, difference in trap.values(folder.records):
            shown = "" if difference is None else signed(difference)
            rows.append([row.what, f"`{row.method}`", f"`{row.task}`", score, shown])
        traps.append((trap, rows))
        cells += [(row.method, row.task) for row in trap.rows]
    return rendered(
        "traps.md",
        title="Protocol traps",
        traps=traps,
        digest=folder.records.select(cells).digest,
    )


def answer(thread: Thread, folder: Conclusions) -> tuple[str, list[str]]:
    """What `harness explain --mine` answers to a thread, after the place of the known cause.

    The place is the rank of the cause in the answer, or why it has none, in words.
    """
    if not thread.row:
        return "no such row", []
    diagnosis = folder.diagnose(thread.row, thread.mine)
    rank = rank_of_cause(thread, diagnosis)
    place = "not named" if rank is None else str(rank)
    if rank is not None and thread.cause == UNKNOWN_CAUSE:
        place = "answered as unknown"
    return place, answer_lines(diagnosis, folder.causes, folder.registry)


def threads_made_from(folder: Conclusions) -> str:
    """The digests of the records, and of the other data that the answers rest on.

    A change of the code is not seen here: a test makes the page and compares it with the
    committed one.
    """
    other = digest_of_repr((folder.threads, folder.causes, folder.tables))
    return f"Records: sha256 `{folder.records.digest}`. Other files: sha256 `{other}`"


def threads_page(folder: Conclusions) -> str:
    """A table of the threads, then each with its answer."""
    answers = [(thread, *answer(thread, folder)) for thread in folder.threads]
    rows = []
    for thread, place, _ in answers:
        row, numbers = MISSING, thread.mine
        if thread.row:
            row, numbers = f"`{thread.row}`", f"`{thread.mine}`"
        rows.append([thread.source, row, numbers, thread.cause, place])
    return rendered(
        "threads.md",
        title="Public threads and their answers",
        places=Counter(place for _, place, _ in answers),
        rows=rows,
        answers=answers,
        made_from=threads_made_from(folder),
    )


def contradicted_page(folder: Conclusions) -> str:
    """The published numbers that another table contradicts, with the number that does."""
    found = [
        (folder.published_numbers[number], standing)
        for number, standings in folder.standings.items()
        for standing in standings
        if standing.kind is StandingKind.CONTRADICTED
    ]
    if not found:
        return ""
    found.sort(key=lambda each: (-abs(each[1].difference), each[0].id))
    return rendered(
        "contradicted.md",
        title="Contradicted numbers",
        rows=[
            [
                f"`{number.id}`",
                number.shown,
                f"`{standing.other.id}`",
                standing.other.shown,
                signed(standing.difference),
            ]
            for number, standing in found
        ],
        digest="",
    )
