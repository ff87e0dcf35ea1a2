"""The page of public threads: what `harness explain --mine` answers to each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.diagnosis import answer_lines
from harness.report.markdown import MISSING_NUMBER, Page, escape, table, texts
from harness.results.folder import ResultsFolder
from harness.results.threads import UNKNOWN_CAUSE, Thread, rank_of_cause

THREADS_PAGE = "threads.md"
THREAD_HEAD = (
    "thread",
    "published row",
    "the reader's numbers",
    "cause",
    "place of the cause",
)
NO_ROW = "no such row"
CAUSE_ABSENT = "not named"
CAUSE_UNKNOWN = "answered as unknown"


@dataclass(frozen=True)
class AnsweredThread:
    """A question of a public thread, and the answer of the harness.

    Attributes:
        thread: The question, with the cause that is known by now.
        lines: The answer; none where the numbers are in no table here.
        place: The rank of the cause in the answer, or why it has none, in words.
    """

    thread: Thread
    lines: Sequence[str]
    place: str


def answered_threads(folder: ResultsFolder) -> tuple[AnsweredThread, ...]:
    """Every thread of a results folder with the answer to it."""
    return tuple(_answer(thread, folder) for thread in folder.threads)


def _answer(thread: Thread, folder: ResultsFolder) -> AnsweredThread:
    if not thread.row:
        return AnsweredThread(thread=thread, lines=(), place=NO_ROW)
    diagnosis = folder.diagnose(thread.row, thread.mine)
    rank = rank_of_cause(thread, diagnosis)
    if rank is None:
        place = CAUSE_ABSENT
    elif thread.cause == UNKNOWN_CAUSE:
        place = CAUSE_UNKNOWN
    else:
        place = str(rank)
    lines = answer_lines(diagnosis, folder.causes, folder.registry)
    return AnsweredThread(thread=thread, lines=lines, place=place)


def summary(threads: Sequence[AnsweredThread]) -> str:
    """How many threads are answered, in one sentence."""
    counts = Counter(answered.place for answered in threads)
    count_of_first = counts["1"] + counts[CAUSE_UNKNOWN]
    count_of_second_or_third = counts["2"] + counts["3"]
    return (
        f"Of {len(threads)} questions, {count_of_first} have the known cause first, or the answer "
        f"that it is not known; {count_of_second_or_third} have it second or third, "
        f"{counts[CAUSE_ABSENT]} do not name it, and {counts[NO_ROW]} ask about numbers that are "
        "in no table here."
    )


def threads_page(folder: ResultsFolder) -> Page:
    """A table of the threads, then each with its answer."""
    threads = answered_threads(folder)
    rows = [_row(answered) for answered in threads]
    parts = [
        texts()["threads"],
        summary(threads),
        table(THREAD_HEAD, rows, word_columns=len(THREAD_HEAD)),
    ]
    for answered in threads:
        if answered.lines:
            parts += _section(answered)
    title = "Public threads and their answers"
    return Page(title=title, parts=parts, records=folder.records)


def _row(answered: AnsweredThread) -> list[str]:
    """A line of the table; the numbers of a thread without a row here are in its own words."""
    thread = answered.thread
    row = MISSING_NUMBER
    numbers = escape(thread.mine)
    if thread.row:
        row = f"`{thread.row}`"
        numbers = f"`{thread.mine}`"
    return [escape(thread.source), row, numbers, escape(thread.cause), answered.place]


def _section(answered: AnsweredThread) -> list[str]:
    thread = answered.thread
    command = f"$ harness explain {thread.row} --mine {thread.mine}"
    terminal = "\n".join([command, *answered.lines])
    cause = f"{escape(thread.cause)} ({escape(thread.evidence)})"
    return [
        f"## {escape(thread.source)}: {escape(thread.row)}",
        f"Cause: {cause}. Its place in the answer: {answered.place}.",
        f"```text\n{terminal}\n```",
    ]
