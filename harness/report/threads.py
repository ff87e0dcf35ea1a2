"""The page of public threads: what `harness explain --mine` answers to each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from harness.report.diagnosis import answer_lines
from harness.report.markdown import Page, escape, table, texts
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


@dataclass(frozen=True)
class AnsweredThread:
    """A thread, its answer in lines, and the place of its cause in words."""

    thread: Thread
    lines: Sequence[str]
    place: str


def answered_threads(folder: ResultsFolder) -> tuple[AnsweredThread, ...]:
    """Every thread of a results folder with the answer to it."""
    return tuple(_answered(thread, folder) for thread in folder.threads)


def _answered(thread: Thread, folder: ResultsFolder) -> AnsweredThread:
    if not thread.row:
        return AnsweredThread(thread=thread, lines=(), place=NO_ROW)
    diagnosis = folder.diagnose(thread.row, thread.mine)
    rank = rank_of_cause(thread, diagnosis)
    if rank is None:
        place = CAUSE_ABSENT
    elif thread.cause == UNKNOWN_CAUSE:
        place = "answered as unknown"
    else:
        place = str(rank)
    lines = answer_lines(diagnosis, folder.causes, folder.registry)
    return AnsweredThread(thread=thread, lines=lines, place=place)


def summary(threads: Sequence[AnsweredThread]) -> str:
    """How many threads are answered, in one sentence."""
    places = Counter(answered.place for answered in threads)
    first = places["1"] + places["answered as unknown"]
    later = places["2"] + places["3"]
    absent = places[CAUSE_ABSENT]
    return (
        f"Of {len(threads)} questions, {first} have the known cause first, or the answer that it "
        f"is not known; {later} have it second or third, {absent} do not name it, and "
        f"{places[NO_ROW]} ask about numbers that are in no table here."
    )


def threads_page(folder: ResultsFolder) -> Page:
    """A table of the threads, then each with its answer."""
    threads = answered_threads(folder)
    rows = [_row(answered) for answered in threads]
    parts = [
        texts()["threads"],
        summary(threads),
        table(THREAD_HEAD, rows, words=len(THREAD_HEAD)),
    ]
    for answered in threads:
        if answered.lines:
            parts += _section(answered)
    title = "Public threads and their answers"
    return Page(title=title, parts=parts, records=folder.records)


def _row(answered: AnsweredThread) -> list[str]:
    """A line of the table; the numbers of a thread without a row here are in its own words."""
    thread = answered.thread
    row, mine = "–", escape(thread.mine)
    if thread.row:
        row, mine = f"`{thread.row}`", f"`{thread.mine}`"
    return [escape(thread.source), row, mine, escape(thread.cause), answered.place]


def _section(answered: AnsweredThread) -> list[str]:
    thread = answered.thread
    command = f"harness explain {thread.row} --mine {thread.mine}"
    shown = "\n".join([f"$ {command}", *answered.lines])
    return [
        f"## {escape(thread.source)}: {escape(thread.row)}",
        f"Cause: {escape(thread.cause)} ({escape(thread.evidence)}). Its place in the answer: "
        f"{answered.place}.",
        f"```text\n{shown}\n```",
    ]
