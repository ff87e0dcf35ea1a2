"""The answer of `harness explain --mine`: why a reader's number differs from the published one.

`harness.conclusions.diagnosis` finds the readings. Here they become at most ten lines of a
terminal, or all lines in a verbose answer, or JSON. The first line is the answer; what to
change and to check comes next, then other readings, the numbers again, and a note.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any

from harness.conclusions.causes import Causes
from harness.conclusions.diagnosis import Diagnosis
from harness.conclusions.numbers import ReportedNumber
from harness.conclusions.readings import Suggestion
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
    """The lines of an answer: what it is, what to change, what else it may be, and the numbers.

    An answer has at most ten lines of 80 columns, and no sentence of it is cut; a command
    is a line of its own, however long, so that it can be copied. A verbose answer has all
    notes and readings, with their sources, in as many lines as they take.

    Args:
        diagnosis: What is known of the difference.
        causes: The lines of other programs that set a choice.
        registry: Methods by name.
        search: The command that measures which choices give the numbers; empty
            where the weights are not at hand.
        verbose: Whether everything is shown.
    """
    verdict = _verdict(diagnosis)
    shown = diagnosis.suggestions
    if verbose:
        shown = (*diagnosis.faults, *diagnosis.explanations)
    paragraphs = [[verdict]] if verdict else []
    for suggestion in shown:
        title = f"{_title(suggestion, diagnosis)} [{suggestion.certainty}]"
        details = _details(suggestion, diagnosis, causes, registry)
        if suggestion is shown[0] and diagnosis.distant and not diagnosis.is_sure:
            details.append(_beyond_seeds(diagnosis).strip())
        if verbose:
            details += _sources(suggestion)
        paragraphs.append([title, *(f"{INDENT}{each}" for each in details)])
    first, *others = paragraphs or [[""]]
    numbers = _lines([_numbers_in_words(diagnosis.numbers)])
    closing = []
    if diagnosis.unknown_columns:
        columns = ", ".join(diagnosis.unknown_columns)
        closing.append(f"The row has no column {columns}{_columns_instead(diagnosis)}.")
    if search and not diagnosis.nothing_is_wrong:
        closing.append("The weights are here; measured for sure:")
    closing = _lines(closing)
    if search and not diagnosis.nothing_is_wrong:
        closing.append(f"{INDENT}{search}")
    notes = " ".join(diagnosis.notes)
    if verbose:
        texts = [text for paragraph in paragraphs for text in paragraph]
        note = _lines([f"note: {notes}"] if notes else [])
        return [*_lines(texts), *numbers, *note, *closing]
    closing.append("--verbose has all notes, readings and sources.")
    available = ANSWER_LINES - len(closing)
    answer = _fitting([first], available)
    rest = available - len(answer)
    if len(numbers) <= rest:
        rest -= len(numbers)
    else:
        numbers = []
    answer += _fitting(others, rest)
    note = _fitting_note(notes, available - len(answer) - len(numbers))
    return [*answer, *numbers, *note, *closing]


def _lines(texts: Iterable[str]) -> list[str]:
    """The lines of texts, of 80 columns each."""
    lines = []
    for text in texts:
        for line in wrapped(text, ANSWER_WIDTH).split("\n"):
            # A word that is longer than a line is an id or a command, which is broken.
            while len(line) > ANSWER_WIDTH:
                lines.append(line[:ANSWER_WIDTH])
                line = INDENT + line[ANSWER_WIDTH:]
            lines.append(line)
    return lines


def _fitting(paragraphs: Iterable[Sequence[str]], available: int) -> list[str]:
    """The paragraphs that fit: each whole, with its first detail, or its title alone."""
    shown: list[str] = []
    for texts in paragraphs:
        forms = [_lines(texts[:count]) for count in (len(texts), 2, 1)]
        fitting = [form for form in forms if len(form) <= available - len(shown)]
        if fitting:
            shown += fitting[0]
    return shown


SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z“`])")


def _fitting_note(notes: str, available: int) -> list[str]:
    """As many whole sentences of the notes as fit; none if the first does not."""
    if not notes:
        return []
    sentences = SENTENCE_END.split(notes)
    for count in range(len(sentences), 0, -1):
        lines = _lines([f"note: {' '.join(sentences[:count])}"])
        if len(lines) <= available:
            return lines
    return []


def _numbers_in_words(numbers: Sequence[ReportedNumber]) -> str:
    """`Yours for sbert.t1/sbert-nli-base: sts13 71.64 for 76.53 (-4.89).`"""
    row = numbers[0].published.row_id
    if len(numbers) > FEW_COLUMNS:
        gaps = [
            f"{number.published.column.id} {signed(number.gap)}" for number in numbers
        ]
        return f"Yours minus {row}: {', '.join(gaps)}."
    comparisons = []
    for number in numbers:
        fraction = " (taken as points)" if number.is_fraction else ""
        comparisons.append(
            f"{number.published.column.id} {number.points:.2f}{fraction} for "
            f"{number.published.score:.2f} ({signed(number.gap)})"
        )
    return f"Yours for {row}: {', '.join(comparisons)}."


def _columns_instead(diagnosis: Diagnosis) -> str:
    """Columns of the row that are the unknown ones with other subsets: `sts13-smt` for `sts13`."""
    row = diagnosis.numbers[0].published.row
    found = [
        column
        for name in diagnosis.unknown_columns
        for column in row.values
        if column.startswith(f"{name}-")
    ]
    return f", but {', '.join(found)}, which is of other subsets" if found else ""


def _verdict(diagnosis: Diagnosis) -> str:
    """What holds of the difference as a whole; empty where the first reading says it."""
    if diagnosis.is_rounding and not diagnosis.faults and not diagnosis.explanations:
        return "Nothing is wrong: these are the paper's numbers up to rounding."
    if diagnosis.is_rounding and diagnosis.faults:
        return ""
    if diagnosis.is_unknown:
        beyond = ", beyond its notes," if diagnosis.notes else ""
        told = f"Not known: nothing that is known here{beyond} explains the difference."
        return f"{told}{_beyond_seeds(diagnosis)}"
    return ""


def _beyond_seeds(diagnosis: Diagnosis) -> str:
    """A sentence on the number that is furthest from all trainings; empty without one."""
    spread = diagnosis.distant
    if spread is None:
        return ""
    deviations = spread.deviations(spread.number.points)
    side = "below" if deviations < 0 else "above"
    return (
        f" No seed gives {spread.number.published.column.id}: it is {abs(deviations):.0f} "
        f"deviations {side} the mean of {spread.seeds}."
    )


def _capitalised(text: str) -> str:
    """A text that begins with a capital, as a sentence does; a name stays as it is."""
    return text[:1].upper() + text[1:]


def _title(suggestion: Suggestion, diagnosis: Diagnosis) -> str:
    """What a reading is: a fault, a known cause, another seed, or another choice."""
    fits = f" (but not {', '.join(suggestion.misfits)})" if suggestion.misfits else ""
    is_part = len(suggestion.columns) < len(diagnosis.rest)
    if suggestion.fault:
        rest = ""
        if diagnosis.is_rounding and suggestion is diagnosis.faults[-1:][0]:
            rest = "; the other columns are the paper's up to rounding"
        return _capitalised(f"{suggestion.fault}{rest}")
    if suggestion.cause is not None:
        only = f"{', '.join(suggestion.columns)}: " if is_part and not fits else ""
        return f"{only}{_capitalised(suggestion.cause.title)}{fits}"
    spread = suggestion.spread
    if spread is not None:
        number = spread.number
        wrong = "nothing is wrong, " if diagnosis.nothing_is_wrong else ""
        column = number.published.column.id
        return (
            f"Another seed: {wrong}{spread.seeds} trainings gave {column} "
            f"{spread.mean.score:.2f} ± {spread.sd:.2f} ({spread.mean.table.id}), yours is "
            f"{spread.deviations(number.points):+.1f} deviations from it, the paper's "
            f"{spread.deviations(number.published.score):+.1f}{fits}"
        )
    own = diagnosis.numbers[0].published
    # A choice may differ in some columns alone, and not in the first.
    different = {
        name: value
        for name, value in suggestion.changes.items()
        if getattr(own.protocol, name) != value
    }
    changes = changes_in_words(different, own.protocol)
    if suggestion.method:
        what = changes or "the row's own protocol, so that the paper's numbers differ"
        return _capitalised(
            f"{what}: {suggestion.method} gives your {', '.join(suggestion.columns)} "
            f"here{fits}"
        )
    printed = suggestion.printed_number
    if printed is None:
        effects = [
            f"{signed(effect)} on {encoder}"
            for encoder, effect in suggestion.effects.items()
        ]
        return _capitalised(f"{changes}: {', '.join(effects[:MOST_EFFECTS])}")
    if suggestion.about == ("model",):
        return f"Your numbers are those of {printed.row.name}, {printed.row_id}{fits}"
    if suggestion.is_printed:
        is_one = len(diagnosis.numbers) == 1
        subject = "your number is" if is_one else "your numbers are"
        is_same = bool(own.method) and printed.method == own.method
        unchanged = "the same protocol" if is_same else "no difference is known"
        return _capitalised(
            f"{changes or unchanged}: {subject} printed in {place_in_words(printed)}{fits}"
        )
    return _capitalised(
        f"{changes}: {printed.value} in {place_in_words(printed)}, which leaves "
        f"{suggestion.unexplained:.2f}{fits}"
    )


def _details(
    suggestion: Suggestion, diagnosis: Diagnosis, causes: Causes, registry: Registry
) -> list[str]:
    """What makes the number, and a command or a look that shows whether it does."""
    cause, spread, printed = (
        suggestion.cause,
        suggestion.spread,
        suggestion.printed_number,
    )
    details = []
    if cause is not None:
        details.append(f"change: {cause.change}")
    row_id = diagnosis.numbers[0].published.row_id
    changes = dict(suggestion.changes)
    if suggestion.about == ("aggregation",) and not changes:
        changes = {"aggregation": diagnosis.numbers[0].published.aggregation or "all"}
    lines = [causes.line(name, value, row_id) for name, value in changes.items()]
    word = "the paper's" if suggestion.fault else "made by"
    details += [f"{word}: {line}" for line in lines if line][:1]
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
    elif suggestion.method:
        tasks = [
            number.published.task
            for number in diagnosis.rest
            if number.published.task
            and number.published.column.id in suggestion.columns
        ]
        details.append(f"check: harness run -m '{suggestion.method}' -t {tasks[0]}")
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
    for suggestion in (*diagnosis.faults, *diagnosis.explanations):
        printed = suggestion.printed_number
        explanations.append(
            {
                "about": list(suggestion.about),
                "certainty": suggestion.certainty,
                "explanation": _title(suggestion, diagnosis),
                "leaves": suggestion.unexplained,
                "printed": None if printed is None else printed.id,
                "details": _details(suggestion, diagnosis, causes, registry),
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
        "verdict": _verdict(diagnosis),
        "explanations": explanations,
    }
