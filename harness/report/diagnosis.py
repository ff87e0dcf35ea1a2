"""The answer of `harness explain --mine`: why a reader's number differs from the published one.

`harness.results.diagnosis` finds the explanations. Here they become at most ten lines of
a terminal, or all lines in a verbose answer, or JSON.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.core.interfaces import Trained
from harness.registry import Registry
from harness.report.next_steps import command_to_measure
from harness.report.sentences import signed
from harness.results.causes import Causes
from harness.results.diagnosis import Diagnosis, SeedSpread, Suggestion
from harness.results.numbers import ReportedNumber
from harness.results.protocols import UNKNOWN, Protocol
from harness.results.published import PublishedCell
from harness.results.reproduction import compose_method

ANSWER_WIDTH = 80  # columns
ANSWER_LINES = 10  # of an answer that is not verbose
ANSWER_INDENT = "   "
FEW_COLUMNS = 3  # up to which numbers are repeated; of more, only the differences are
MOST_EFFECTS = 2  # of a choice that a title names
LONGEST_ROW_ID = 30  # characters of a row's id that an answer shows


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
    explanations, with their sources, in as many lines as they take.

    Args:
        diagnosis: What is known of the difference.
        causes: The lines of other programs that set a choice.
        registry: Methods by name.
        search: The command that measures which choices give the first number; empty
            where the weights are not at hand.
        verbose: Whether everything is shown.
    """
    numbers = textwrap.wrap(
        _numbers_in_words(diagnosis.numbers),
        ANSWER_WIDTH,
        subsequent_indent=ANSWER_INDENT,
    )
    note = f"note: {' '.join(diagnosis.notes)}" if diagnosis.notes else ""
    verdict = _verdict(diagnosis)
    suggestions = list(diagnosis.suggestions)
    if verbose:
        suggestions += diagnosis.further_suggestions
    explanations = [
        _explanation(number, suggestion, diagnosis, causes, registry, verbose=verbose)
        for number, suggestion in enumerate(suggestions, start=1)
    ]
    explanation_lines: list[str] = []
    for explanation in explanations:
        explanation_lines += explanation.lines
    search_lines: list[str] = []
    if search and not diagnosis.nothing_is_wrong:
        hint = f"The weights are here; measured for sure: {search}"
        search_lines = _wrapped(hint, "", ANSWER_INDENT)

    if verbose:
        note_lines = textwrap.wrap(note, ANSWER_WIDTH)
        return [*numbers, *note_lines, *verdict, *explanation_lines, *search_lines]

    closing = [*search_lines, "--verbose has all notes, explanations and sources."]
    lines_left = ANSWER_LINES - len(numbers) - len(verdict) - len(closing)
    # All lines of the explanations are shown if they fit; a note has a line in any case.
    note_lines = _first_lines(note, max(1, lines_left - len(explanation_lines)))
    fitting_lines = _fitting_lines(explanations, lines_left - len(note_lines))
    return [*numbers, *note_lines, *verdict, *fitting_lines, *closing]


@dataclass(frozen=True)
class _Explanation:
    """The lines of one explanation: its title, then its details, each a few lines."""

    title: Sequence[str]
    details: Sequence[Sequence[str]]

    @property
    def lines(self) -> list[str]:
        """All of its lines."""
        lines = list(self.title)
        for detail in self.details:
            lines += detail
        return lines

    @property
    def short_lines(self) -> list[str]:
        """Its title and its first detail, which says what makes the number."""
        return _Explanation(self.title, self.details[:1]).lines


def _fitting_lines(explanations: Sequence[_Explanation], lines_left: int) -> list[str]:
    """The explanations that fit; the first that does not is shortened, and the last shown.

    It is shortened to its title and what makes the number, or to its title.
    """
    lines: list[str] = []
    for explanation in explanations:
        available = lines_left - len(lines)
        if len(explanation.lines) <= available:
            lines += explanation.lines
            continue
        if len(explanation.short_lines) <= available:
            lines += explanation.short_lines
        elif len(explanation.title) <= available:
            lines += explanation.title
        break
    return lines


def _numbers_in_words(numbers: Sequence[ReportedNumber]) -> str:
    """`sbert.t1/sbert-nli-base: sts13 71.64 for 76.53 (-4.89)`, yours for the published one."""
    row = numbers[0].cell.row_id
    if len(numbers) > FEW_COLUMNS:
        gaps = [f"{number.cell.column.id} {signed(number.gap)}" for number in numbers]
        return f"{row}, yours minus the published: {', '.join(gaps)}"
    comparisons = []
    for number in numbers:
        fraction = " (taken as points)" if number.is_fraction else ""
        comparisons.append(
            f"{number.cell.column.id} {number.points:.2f}{fraction} for {number.cell.score:.2f} "
            f"({signed(number.gap)})"
        )
    return f"{row}, yours for the published: {', '.join(comparisons)}"


def _first_lines(note: str, count: int) -> list[str]:
    """The beginning of a note in so many lines; none of an empty note."""
    return textwrap.wrap(note, ANSWER_WIDTH, max_lines=count, placeholder=" ...")


def _verdict(diagnosis: Diagnosis) -> list[str]:
    """The columns that are not known, and what holds of the difference as a whole."""
    if diagnosis.unknown_columns:
        columns = ", ".join(diagnosis.unknown_columns)
        return [f"The row has no column {columns}.", *_verdict_on_numbers(diagnosis)]
    return _verdict_on_numbers(diagnosis)


def _verdict_on_numbers(diagnosis: Diagnosis) -> list[str]:
    """What holds of the difference as a whole; nothing where the explanations say it."""
    if diagnosis.is_rounding:
        return ["Most likely nothing is wrong: rounding, or another processor."]
    if diagnosis.distant_spread is not None:
        return [_distance_in_words(diagnosis.numbers, diagnosis.distant_spread)]
    if diagnosis.nothing_is_wrong:
        return ["Most likely nothing is wrong:"]
    if diagnosis.is_unknown and diagnosis.notes:
        return ["Beyond the note, nothing that is known here explains it."]
    if diagnosis.is_unknown:
        return ["Nothing that is known here explains it."]
    if all(suggestion.certainty == "possible" for suggestion in diagnosis.suggestions):
        return ["Nothing explains it for sure; what it may be:"]
    return []


def _distance_in_words(numbers: Sequence[ReportedNumber], spread: SeedSpread) -> str:
    """How far the reader's number is from the mean over seeds."""
    number = _number_of_spread(numbers, spread)
    deviations = abs(spread.deviations(number.points))
    side = "below" if number.points < spread.mean else "above"
    return (
        f"No seed gives that: {number.cell.column.id} is {deviations:.0f} deviations {side} the "
        f"mean of {spread.seeds} seeds."
    )


def _number_of_spread(
    numbers: Sequence[ReportedNumber], spread: SeedSpread
) -> ReportedNumber:
    """The reader's number in the column whose seeds were measured."""
    column = spread.cell.column.id
    [number] = [number for number in numbers if number.cell.column.id == column]
    return number


def _explanation(
    number: int,
    suggestion: Suggestion,
    diagnosis: Diagnosis,
    causes: Causes,
    registry: Registry,
    *,
    verbose: bool,
) -> _Explanation:
    """One explanation: what it is and how sure, what makes the number, how to check it."""
    title = f"{number}. {_title(suggestion, diagnosis)} [{suggestion.certainty}]"
    details = [*_change(suggestion, causes), *_check(suggestion, registry)]
    if verbose:
        details += _source(suggestion)
    return _Explanation(
        title=_wrapped(title, "", ANSWER_INDENT),
        details=[
            _wrapped(detail, ANSWER_INDENT * 2, ANSWER_INDENT * 3) for detail in details
        ],
    )


def _wrapped(text: str, indent: str, further_indent: str) -> list[str]:
    """A text in lines of 80 columns, whose words and ids stay whole.

    The first line begins with `indent`, the others with `further_indent`.
    """
    return textwrap.wrap(
        text,
        ANSWER_WIDTH,
        initial_indent=indent,
        subsequent_indent=further_indent,
        break_long_words=False,
        break_on_hyphens=False,
    )


def _title(suggestion: Suggestion, diagnosis: Diagnosis) -> str:
    """What an explanation is: a known cause, another seed, or another choice."""
    fits = f" (but not {', '.join(suggestion.misfits)})" if suggestion.misfits else ""
    if suggestion.cause is not None:
        return f"{suggestion.cause.title}{fits}"
    if suggestion.spread is not None:
        return _spread_in_words(suggestion.spread, diagnosis.numbers)
    changes = changes_in_words(suggestion.changes, diagnosis.numbers[0].cell.protocol)
    cell = suggestion.printed_cell
    if cell is None:
        effects = [
            f"{signed(effect)} on {encoder}"
            for encoder, effect in suggestion.effects.items()
        ]
        return f"{changes}: {', '.join(effects[:MOST_EFFECTS])}"
    if suggestion.about == ("model",):
        return f"Your numbers are those of {cell.row.name}, {cell.row_id}{fits}"
    if suggestion.is_printed:
        subject = (
            "Your number is" if len(diagnosis.numbers) == 1 else "Your numbers are"
        )
        how = changes or _no_difference(suggestion, diagnosis)
        return f"{subject} printed in {_place(cell)}{fits}: {how}"
    return (
        f"{changes}: {cell.value} in {_place(cell)}, which leaves "
        f"{suggestion.unexplained:.2f}"
    )


def _no_difference(suggestion: Suggestion, diagnosis: Diagnosis) -> str:
    """Whether a row with the reader's numbers has the same protocol, or only may have it."""
    cell = diagnosis.numbers[0].cell
    other = suggestion.printed_cell
    if other is not None and cell.method and other.method == cell.method:
        return "same protocol"
    return "no difference is known"


def changes_in_words(changes: Mapping[str, str], protocol: Protocol) -> str:
    """The changes of a protocol: `aggregation wmean instead of all`."""
    words = []
    for name, value in changes.items():
        own_value = getattr(protocol, name).removesuffix(UNKNOWN)
        new, old = (text.removeprefix("+") or "none" for text in (value, own_value))
        words.append(f"{name.replace('_', ' ')} {new} instead of {old}")
    return ", ".join(words)


def neighbours_in_words(
    number: PublishedCell, neighbours: Iterable[PublishedCell]
) -> Iterator[str]:
    """Published numbers of one encoder that differ in one choice, each with that choice."""
    for other in neighbours:
        changes = number.protocol.changes(other.protocol)
        words = changes_in_words(changes, number.protocol)
        yield f"{other.value} with {words} ({_place(other)})"


def _place(cell: PublishedCell) -> str:
    """The published table in which a number is printed, and its row where the id is short."""
    if len(cell.row.id) > LONGEST_ROW_ID:
        return cell.table.id
    return cell.row_id


def _spread_in_words(spread: SeedSpread, numbers: Sequence[ReportedNumber]) -> str:
    """Where the reader's number and the published one are among the seeds."""
    number = _number_of_spread(numbers, spread)
    deviations_of_reader = spread.deviations(number.points)
    deviations_of_paper = spread.deviations(number.cell.score)
    return (
        f"Another seed: {spread.seeds} trainings gave {spread.mean:.2f} ± {spread.sd:.2f} "
        f"({spread.cell.table.id}); yours is {deviations_of_reader:+.1f} deviations from it, "
        f"the paper's {deviations_of_paper:+.1f}"
    )


def _change(suggestion: Suggestion, causes: Causes) -> Iterator[str]:
    """The line of another program that makes the number."""
    if suggestion.cause is not None:
        yield f"change: {suggestion.cause.change}"
    for name, value in suggestion.changes.items():
        line = causes.line(name, value)
        if line:
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
    elif suggestion.printed_cell is not None and suggestion.printed_cell.method:
        yield f"check: {command_to_measure(suggestion.printed_cell, registry)}"


def _source(suggestion: Suggestion) -> Iterator[str]:
    """The table or the public thread that the explanation rests on."""
    if suggestion.cause is not None:
        yield f"source: {suggestion.cause.source}"
    cell = suggestion.printed_cell
    if cell is None and suggestion.spread is not None:
        cell = suggestion.spread.cell
    if cell is not None:
        yield f"source: {cell.place} ({cell.source})"


def diagnosis_facts(
    diagnosis: Diagnosis, causes: Causes, registry: Registry
) -> dict[str, Any]:
    """The answer as JSON: the numbers, the notes, and every explanation with its evidence."""
    explanations = []
    for suggestion in (*diagnosis.suggestions, *diagnosis.further_suggestions):
        cell = suggestion.printed_cell
        details = [*_change(suggestion, causes), *_check(suggestion, registry)]
        explanations.append(
            {
                "about": list(suggestion.about),
                "certainty": suggestion.certainty,
                "explanation": _title(suggestion, diagnosis),
                "leaves": suggestion.unexplained,
                "printed": None if cell is None else cell.id,
                "details": details,
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
