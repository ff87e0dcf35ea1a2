"""An answer to "why is my number another one?", in at most ten lines of a terminal."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from harness.core.interfaces import Trained
from harness.registry import Registry
from harness.report.next_steps import command_to_measure
from harness.report.sentences import signed
from harness.results.causes import Causes
from harness.results.diagnosis import (
    Diagnosis,
    PublishedNeighbour,
    SeedSpread,
    Suggestion,
)
from harness.results.published import PublishedCell
from harness.results.reproduction import compose_method
from harness.results.settings import PublishedNumber, ReportedNumber, Setting

ANSWER_WIDTH = 80  # columns
ANSWER_LINES = 10  # of an answer that is not verbose
ANSWER_INDENT = "   "
FEW_COLUMNS = 3  # columns whose numbers are repeated; of more only the differences


def answer_lines(
    diagnosis: Diagnosis,
    causes: Causes,
    registry: Registry,
    *,
    search: str = "",
    verbose: bool = False,
) -> list[str]:
    """The lines of an answer: the numbers, the row's note, and each explanation with its check.

    An answer has at most ten lines of 80 columns. A verbose one has all notes and
    explanations, with their sources, in as many lines as they take. `search` is the
    command that measures which choices give the first number, where the weights are at
    hand.
    """
    head = textwrap.wrap(
        _numbers_in_words(diagnosis.numbers),
        ANSWER_WIDTH,
        subsequent_indent=ANSWER_INDENT,
    )
    notes = [f"note: {' '.join(diagnosis.notes)}"] if diagnosis.notes else []
    verdict = _verdict(diagnosis)
    shown = (
        *diagnosis.suggestions,
        *(diagnosis.further_suggestions if verbose else ()),
    )
    explanations = [
        _explanation(number, suggestion, diagnosis, causes, registry, verbose=verbose)
        for number, suggestion in enumerate(shown, start=1)
    ]
    measured = []
    if search and not diagnosis.nothing_is_wrong:
        measured = _wrapped(
            f"The weights are here; measured for sure: {search}", "", ANSWER_INDENT
        )
    if verbose:
        wrapped_notes = [
            line for note in notes for line in textwrap.wrap(note, ANSWER_WIDTH)
        ]
        shown_lines = [line for part in explanations for line in part]
        return [*head, *wrapped_notes, *verdict, *shown_lines, *measured]
    closing = [*measured, "--verbose has all notes, explanations and sources."]
    room = ANSWER_LINES - len(head) - len(verdict) - len(closing)
    # The explanations come whole if they can; a note has a line in any case.
    lines_for_notes = max(1, room - sum(map(len, explanations)))
    shown_notes = _first_lines(notes, lines_for_notes)
    body = _fitting(explanations, room - len(shown_notes))
    return [*head, *shown_notes, *verdict, *body, *closing]


def _fitting(explanations: Sequence[Sequence[str]], room: int) -> list[str]:
    """The explanations that have room; of the first that has none, its title and what to change."""
    lines: list[str] = []
    for explanation in explanations:
        title = [line for line in explanation if not line.startswith(ANSWER_INDENT * 2)]
        change = _with_first_detail(title, explanation[len(title) :])
        part = next(
            (p for p in (explanation, change, title) if len(lines) + len(p) <= room), []
        )
        lines += part
        if part is not explanation:
            break
    return lines


def _with_first_detail(title: Sequence[str], details: Sequence[str]) -> Sequence[str]:
    """A title with the first of its details: the line that makes the number."""
    further = (
        i
        for i, line in enumerate(details)
        if i and not line.startswith(ANSWER_INDENT * 3)
    )
    return [*title, *details[: next(further, len(details))]]


def _numbers_in_words(numbers: Sequence[ReportedNumber]) -> str:
    """`sbert.t1/sbert-nli-base: sts13 71.64 for 76.53 (-4.89)`, yours for the published one."""
    cell = numbers[0].cell
    parts = []
    if len(numbers) > FEW_COLUMNS:
        gaps = ", ".join(f"{n.cell.column.id} {signed(n.gap)}" for n in numbers)
        return f"{cell.table.id}/{cell.row.id}, yours minus the published: {gaps}"
    for number in numbers:
        fraction = " (taken as points)" if number.is_fraction else ""
        parts.append(
            f"{number.cell.column.id} {number.points:.2f}{fraction} for {number.cell.value} "
            f"({signed(number.gap)})"
        )
    return f"{cell.table.id}/{cell.row.id}, yours for the published: {', '.join(parts)}"


def _first_lines(notes: Sequence[str], count: int) -> list[str]:
    """The beginning of the notes in so many lines."""
    if not notes:
        return []
    return textwrap.wrap(
        " ".join(notes), ANSWER_WIDTH, max_lines=count, placeholder=" ..."
    )


def _verdict(diagnosis: Diagnosis) -> list[str]:
    """What holds of the difference as a whole; nothing where the explanations say it."""
    if diagnosis.is_rounding:
        return ["Most likely nothing is wrong: rounding, or another processor."]
    if diagnosis.distant_spread is not None:
        return [_outside_in_words(diagnosis.numbers, diagnosis.distant_spread)]
    if diagnosis.nothing_is_wrong:
        return ["Most likely nothing is wrong:"]
    if diagnosis.is_unknown:
        return ["Nothing that is known here explains it."]
    if all(suggestion.certainty == "possible" for suggestion in diagnosis.suggestions):
        return ["Nothing explains it for sure; what it may be:"]
    return []


def _outside_in_words(numbers: Sequence[ReportedNumber], spread: SeedSpread) -> str:
    [number] = [n for n in numbers if n.cell.column.id == spread.cell.column.id]
    deviations = abs(spread.deviations(number.points))
    side = "below" if number.points < spread.mean else "above"
    return (
        f"No seed gives that: {number.cell.column.id} is {deviations:.0f} deviations {side} the "
        f"mean of {spread.seeds} seeds."
    )


def _explanation(
    number: int,
    suggestion: Suggestion,
    diagnosis: Diagnosis,
    causes: Causes,
    registry: Registry,
    *,
    verbose: bool,
) -> list[str]:
    """The lines of one explanation: what it is and how sure, what makes it, how to check it."""
    title = f"{number}. {_title(suggestion, diagnosis)} [{suggestion.certainty}]"
    lines = _wrapped(title, "", ANSWER_INDENT)
    details = [*_change(suggestion, causes), *_check(suggestion, registry)]
    if verbose:
        details += _source(suggestion)
    for detail in details:
        lines += _wrapped(detail, ANSWER_INDENT * 2, ANSWER_INDENT * 3)
    return lines


def _wrapped(text: str, first: str, others: str) -> list[str]:
    """A text in lines of 80 columns, whose words and ids stay whole."""
    return textwrap.wrap(
        text,
        ANSWER_WIDTH,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _title(suggestion: Suggestion, diagnosis: Diagnosis) -> str:
    if suggestion.cause is not None:
        return suggestion.cause.title
    if suggestion.spread is not None:
        return _spread_in_words(suggestion.spread, diagnosis.numbers)
    changes = _changes_in_words(suggestion.changes, diagnosis.setting)
    cell = suggestion.published_cell
    if cell is not None and not suggestion.unexplained:
        return f"Your number is printed in {_place(cell)}: {changes or 'same protocol'}"
    if cell is not None:
        return (
            f"{changes}: {cell.value} in {_place(cell)}, which leaves "
            f"{suggestion.unexplained:.2f}"
        )
    effects = sorted(suggestion.effects.items(), key=lambda item: -abs(item[1]))[:2]
    words = ", ".join(f"{signed(effect)} on {encoder}" for encoder, effect in effects)
    return f"{changes}: {words}"


def _changes_in_words(changes: Mapping[str, str], asked: Setting) -> str:
    """`aggregation wmean instead of all`."""
    return ", ".join(
        f"{name.replace('_', ' ')} {value} instead of {asked.choices.get(name, 'none')}"
        for name, value in changes.items()
    )


def neighbours_in_words(
    number: PublishedNumber, neighbours: Iterable[PublishedNeighbour]
) -> Iterator[str]:
    """Published numbers of one encoder that differ in one choice, each with that choice."""
    for changes, other in neighbours:
        words = _changes_in_words(changes, number.setting)
        yield f"{other.cell.value} with {words} ({_place(other.cell)})"


LONGEST_ROW_ID = 30  # characters of a row's id that an answer shows


def _place(printed: PublishedCell) -> str:
    """The published table in which a number is printed, and its row where the id is short."""
    is_short = len(printed.row.id) <= LONGEST_ROW_ID
    return f"{printed.table.id}/{printed.row.id}" if is_short else printed.table.id


def _spread_in_words(spread: SeedSpread, numbers: Sequence[ReportedNumber]) -> str:
    """Where the reader's number and the published one are among the seeds."""
    [number] = [n for n in numbers if n.cell.column.id == spread.cell.column.id]
    mine, theirs = (
        spread.deviations(number.points),
        spread.deviations(number.cell.score),
    )
    return (
        f"Another seed: {spread.seeds} trainings gave {spread.mean:.2f} ± {spread.sd:.2f} "
        f"({spread.cell.table.id}); yours is {mine:+.1f} deviations from it, the paper's "
        f"{theirs:+.1f}"
    )


def _change(suggestion: Suggestion, causes: Causes) -> Iterator[str]:
    """The line of another program that makes the number."""
    if suggestion.cause is not None:
        yield f"change: {suggestion.cause.change}"
    for name, value in suggestion.changes.items():
        if line := causes.line(name, value):
            yield f"made by: {line}"
            return


def _check(suggestion: Suggestion, registry: Registry) -> Iterator[str]:
    """A command, or a look, that shows whether the explanation holds."""
    if suggestion.cause is not None:
        yield f"check: {suggestion.cause.check}"
    elif suggestion.spread is not None:
        method = compose_method(suggestion.spread.cell.method, registry)
        source = method.encoder.source if method is not None else None
        if isinstance(source, Trained):
            yield f"check: harness train family {source.family}"
        else:
            yield "check: train with five seeds, and report mean and standard deviation"
    elif suggestion.published_cell is not None and suggestion.published_cell.method:
        yield f"check: {command_to_measure(suggestion.published_cell, registry)}"


def _source(suggestion: Suggestion) -> Iterator[str]:
    """The table or the public thread that the explanation rests on."""
    if suggestion.cause is not None:
        yield f"source: {suggestion.cause.source}"
    printed = suggestion.published_cell or (
        suggestion.spread.cell if suggestion.spread else None
    )
    if printed is not None:
        yield f"source: {printed.place} ({printed.source})"


def diagnosis_facts(
    diagnosis: Diagnosis, causes: Causes, registry: Registry
) -> dict[str, Any]:
    """The answer as JSON: the numbers, the notes, and every explanation with its evidence."""
    explanations = []
    for suggestion in (*diagnosis.suggestions, *diagnosis.further_suggestions):
        printed = suggestion.published_cell
        explanations.append(
            {
                "about": list(suggestion.about),
                "certainty": suggestion.certainty,
                "explanation": _title(suggestion, diagnosis),
                "leaves": suggestion.unexplained,
                "printed": printed.id if printed is not None else None,
                "details": [
                    *_change(suggestion, causes),
                    *_check(suggestion, registry),
                ],
                "sources": [*_source(suggestion)],
            }
        )
    return {
        "numbers": [
            {
                "cell": number.cell.id,
                "published": number.cell.points,
                "mine": number.points,
                "difference": round(number.gap, 6),
            }
            for number in diagnosis.numbers
        ],
        "notes": list(diagnosis.notes),
        "verdict": " ".join(_verdict(diagnosis)),
        "explanations": explanations,
    }
