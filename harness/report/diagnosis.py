"""The answer of `harness explain --mine`: why a reader's number differs from the published one.

`harness.conclusions.diagnosis` finds the explanations. Here they become at most ten lines of
a terminal, or all lines in a verbose answer, or JSON.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Sequence
from typing import Any

from harness.conclusions.causes import Causes
from harness.conclusions.diagnosis import Diagnosis, Suggestion
from harness.conclusions.numbers import ReportedNumber
from harness.core.interfaces import Trained
from harness.core.terminal import INDENT, signed, wrapped
from harness.registry import Registry
from harness.report.sentences import (
    changes_in_words,
    command_to_measure,
    place_in_words,
)
from harness.results.reproduction import compose_method

ANSWER_WIDTH = 80  # columns
ANSWER_LINES = 10  # of an answer that is not verbose
DETAIL_INDENT = 2 * INDENT  # of a line below the title of an explanation
FEW_COLUMNS = 3  # up to which numbers are repeated; of more, only the differences are
MOST_EFFECTS = 2  # of a choice that a title names


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
    suggestions = diagnosis.explanations if verbose else diagnosis.suggestions
    explanations = []
    for number, suggestion in enumerate(suggestions, start=1):
        title = f"{number}. {_title(suggestion, diagnosis)} [{suggestion.certainty}]"
        details = _details(suggestion, causes, registry)
        if verbose:
            details += _sources(suggestion)
        explanations.append([title, *(f"{DETAIL_INDENT}{each}" for each in details)])
    numbers = textwrap.wrap(  # an id that is longer than a line is broken
        _numbers_in_words(diagnosis.numbers), ANSWER_WIDTH, subsequent_indent=INDENT
    )
    verdict = _verdict(diagnosis)
    closing = []
    if search and not diagnosis.nothing_is_wrong:
        closing = _lines([f"The weights are here; measured for sure: {search}"])
    if not verbose:
        closing.append("--verbose has all notes, explanations and sources.")
    lines_left = ANSWER_LINES - len(numbers) - len(verdict) - len(closing)
    # All lines of the explanations are shown if they fit; a note has a line in any case.
    shown = [line for texts in explanations for line in _lines(texts)]
    notes = textwrap.wrap(
        f"note: {' '.join(diagnosis.notes)}" if diagnosis.notes else "",
        ANSWER_WIDTH,
        max_lines=None if verbose else max(1, lines_left - len(shown)),
        placeholder=" ...",
    )
    if not verbose:
        shown = _fitting_lines(explanations, lines_left - len(notes))
    return [*numbers, *notes, *verdict, *shown, *closing]


def _lines(texts: Iterable[str]) -> list[str]:
    """The lines of texts, of 80 columns each."""
    return [line for text in texts for line in wrapped(text, ANSWER_WIDTH).split("\n")]


def _fitting_lines(explanations: Iterable[Sequence[str]], lines_left: int) -> list[str]:
    """The explanations that fit; the first that does not is shortened, and the last shown.

    Each is its title and its details, the first of which says what makes the number. It
    is shortened to its title and its first detail, or to its title.
    """
    shown: list[str] = []
    for texts in explanations:
        forms = [_lines(texts), _lines(texts[:2]), _lines(texts[:1])]
        available = lines_left - len(shown)
        fitting = [form for form in forms if len(form) <= available]
        if fitting:
            shown += fitting[0]
        if len(fitting) < len(forms):
            break
    return shown


def _numbers_in_words(numbers: Sequence[ReportedNumber]) -> str:
    """`sbert.t1/sbert-nli-base: sts13 71.64 for 76.53 (-4.89)`, yours for the published one."""
    row = numbers[0].published.row_id
    if len(numbers) > FEW_COLUMNS:
        gaps = [
            f"{number.published.column.id} {signed(number.gap)}" for number in numbers
        ]
        return f"{row}, yours minus the published: {', '.join(gaps)}"
    comparisons = []
    for number in numbers:
        fraction = " (taken as points)" if number.is_fraction else ""
        comparisons.append(
            f"{number.published.column.id} {number.points:.2f}{fraction} for "
            f"{number.published.score:.2f} ({signed(number.gap)})"
        )
    return f"{row}, yours for the published: {', '.join(comparisons)}"


def _verdict(diagnosis: Diagnosis) -> list[str]:
    """The columns that are not known, and what holds of the difference as a whole.

    Where the explanations say it there is no line.
    """
    lines = []
    if diagnosis.unknown_columns:
        columns = ", ".join(diagnosis.unknown_columns)
        lines.append(f"The row has no column {columns}.")
    if diagnosis.is_rounding:
        lines.append("Most likely nothing is wrong: rounding, or another processor.")
    elif diagnosis.distant_spread is not None:
        spread = diagnosis.distant_spread
        number = spread.number
        deviations = spread.deviations(number.points)
        side = "below" if deviations < 0 else "above"
        lines.append(
            f"No seed gives that: {number.published.column.id} is {abs(deviations):.0f} deviations "
            f"{side} the mean of {spread.seeds} seeds."
        )
    elif diagnosis.nothing_is_wrong:
        lines.append("Most likely nothing is wrong:")
    elif diagnosis.is_unknown and diagnosis.notes:
        lines.append("Beyond the note, nothing that is known here explains it.")
    elif diagnosis.is_unknown:
        lines.append("Nothing that is known here explains it.")
    elif all(each.certainty == "possible" for each in diagnosis.suggestions):
        lines.append("Nothing explains it for sure; what it may be:")
    return lines


def _title(suggestion: Suggestion, diagnosis: Diagnosis) -> str:
    """What an explanation is: a known cause, another seed, or another choice."""
    fits = f" (but not {', '.join(suggestion.misfits)})" if suggestion.misfits else ""
    if suggestion.cause is not None:
        return f"{suggestion.cause.title}{fits}"
    spread = suggestion.spread
    if spread is not None:
        number = spread.number
        return (
            f"Another seed: {spread.seeds} trainings gave {spread.mean.score:.2f} ± "
            f"{spread.sd:.2f} ({spread.mean.table.id}); yours is "
            f"{spread.deviations(number.points):+.1f} deviations from it, the paper's "
            f"{spread.deviations(number.published.score):+.1f}"
        )
    own = diagnosis.numbers[0].published
    changes = changes_in_words(suggestion.changes, own.protocol)
    printed = suggestion.printed_number
    if printed is None:
        effects = [
            f"{signed(effect)} on {encoder}"
            for encoder, effect in suggestion.effects.items()
        ]
        return f"{changes}: {', '.join(effects[:MOST_EFFECTS])}"
    if suggestion.about == ("model",):
        return f"Your numbers are those of {printed.row.name}, {printed.row_id}{fits}"
    if suggestion.is_printed:
        is_one = len(diagnosis.numbers) == 1
        subject = "Your number is" if is_one else "Your numbers are"
        is_same = bool(own.method) and printed.method == own.method
        unchanged = "same protocol" if is_same else "no difference is known"
        return f"{subject} printed in {place_in_words(printed)}{fits}: {changes or unchanged}"
    return (
        f"{changes}: {printed.value} in {place_in_words(printed)}, which leaves "
        f"{suggestion.unexplained:.2f}"
    )


def _details(suggestion: Suggestion, causes: Causes, registry: Registry) -> list[str]:
    """What makes the number, and a command or a look that shows whether it does."""
    cause, spread, printed = (
        suggestion.cause,
        suggestion.spread,
        suggestion.printed_number,
    )
    details = []
    if cause is not None:
        details.append(f"change: {cause.change}")
    lines = [causes.line(name, value) for name, value in suggestion.changes.items()]
    details += [f"made by: {line}" for line in lines if line][:1]
    if cause is not None:
        details.append(f"check: {cause.check}")
    elif spread is not None:
        method = compose_method(spread.mean.method, registry)
        source = method.encoder.source if method is not None else None
        if isinstance(source, Trained):
            details.append(f"check: harness train family {source.family}")
        else:
            details.append(
                "check: train with five seeds, and report mean and standard deviation"
            )
    elif printed is not None and printed.method:
        details.append(f"check: {command_to_measure(printed, registry)}")
    return details


def _sources(suggestion: Suggestion) -> list[str]:
    """The table and the public thread that the explanation rests on."""
    sources = []
    if suggestion.cause is not None:
        sources.append(f"source: {suggestion.cause.source}")
    printed = suggestion.printed_number
    if printed is None and suggestion.spread is not None:
        printed = suggestion.spread.mean
    if printed is not None:
        sources.append(f"source: {printed.place} ({printed.source})")
    return sources


def diagnosis_facts(
    diagnosis: Diagnosis, causes: Causes, registry: Registry
) -> dict[str, Any]:
    """The answer as JSON: the numbers, the notes, and every explanation with its evidence."""
    explanations = []
    for suggestion in diagnosis.explanations:
        printed = suggestion.printed_number
        explanations.append(
            {
                "about": list(suggestion.about),
                "certainty": suggestion.certainty,
                "explanation": _title(suggestion, diagnosis),
                "leaves": suggestion.unexplained,
                "printed": None if printed is None else printed.id,
                "details": _details(suggestion, causes, registry),
                "sources": _sources(suggestion),
            }
        )
    return {
        "numbers": [
            {
                "cell": number.published.id,
                "published": number.published.points,
                "mine": number.points,
                "difference": round(number.gap, 6),
            }
            for number in diagnosis.numbers
        ],
        "notes": list(diagnosis.notes),
        "verdict": " ".join(_verdict(diagnosis)),
        "explanations": explanations,
    }
