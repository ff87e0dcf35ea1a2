"""The numbers of a model's card, measured, and the search for what differing ones meant.

`check_numbers` measures each number under the model's own modules and prompts, as cells of
a run. The numbers of one source for one task are a row: one protocol has to give the
digits of all of them, for which `explained` searches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import groupby

from harness.conclusions.cards import BatchEffect, CardNumber, FoundChoices
from harness.conclusions.found_protocols import RowSearch
from harness.core.errors import AssetMissing, HarnessError
from harness.core.terminal import counted
from harness.core.types import Task
from harness.encoders.config import FunctionConfig, FunctionEncoder
from harness.evaluation.neighbours import choices_of_scores
from harness.evaluation.protocol import Target
from harness.evaluation.row_search import DIGITS, search_row
from harness.evaluation.search import Search

# Settings that move few sentences, or last digits alone: what else may differ where all
# numbers of a run hold but for their last digits.
SMALL_SETTINGS = ("max_length", "dtype", "unit_length")

# Texts that are encoded alone and in one batch, and the share of their largest number by
# which the order of sums moves a vector in float32.
COMPARED_TEXTS = 64
ROUNDING_OF_BATCHES = 1e-4


def check_numbers(
    search: Search, numbers: Sequence[CardNumber]
) -> Iterator[CardNumber]:
    """Measure and judge each number, under the model's own modules and prompts.

    It is measured under the settings of its run, where these are stated. One that may be
    of either of two tasks and holds on the second alone is a number of that task.
    """
    tasks = search.registry.tasks
    cells = []
    for number in numbers:
        if not number.why_not:
            with suppress(HarnessError):  # which is told of the number
                protocol = search.model.stated(number.statement.settings)
                task = tasks[number.task]
                cells.append((protocol.method(task), task))
    search.measure(cells)
    for number in numbers:
        if number.why_not:
            yield number
            continue
        judged: list[CardNumber] = []
        try:
            protocol = search.model.stated(number.statement.settings)
            for name in filter(None, (number.task, number.or_task)):
                score = number.score_in(search.scores(protocol, tasks[name]))
                judged.insert(0, replace(number, task=name).judged(score))
                if judged[0].holds:
                    break
            yield judged[0] if judged[0].holds else judged[-1]
        except HarnessError as error:
            is_missing = isinstance(error, AssetMissing)
            yield replace(number, why_not=str(error), is_missing=is_missing)


def batch_effect(search: Search, task: Task) -> BatchEffect | None:
    """What the batch does to vectors of a task's first texts; None within rounding.

    It is looked for where the library or a function of the user encodes: the passes
    that are run here give a text the same vector in every batch.
    """
    config, modules = search.model.method.encoder, search.model.modules
    is_of_library = modules is not None and modules.is_of_library
    if not is_of_library and not isinstance(config, FunctionConfig):
        return None
    loaded = search.encoder(config).loaded
    if not isinstance(loaded, FunctionEncoder):
        return None
    sentences = dict.fromkeys(search.loader.texts(task).pairs.sentences)
    texts = [*sentences][:COMPARED_TEXTS]
    gap = loaded.batch_gap(texts)
    if gap <= ROUNDING_OF_BATCHES:
        return None
    return BatchEffect(task=task.name, texts=len(texts), largest=gap)


# What differing numbers meant


def explained(search: Search, numbers: Sequence[CardNumber]) -> list[CardNumber]:
    """The numbers; those whose digits were not measured have an explanation.

    Where no number of a source holds, one protocol is looked for that gives all of its
    tasks. Else the numbers of each task are a row of their own.
    """
    judged = [number for number in numbers if number.verdict is not None]
    explanations: dict[CardNumber, FoundChoices] = {}
    for _, source in groupby(sorted(judged, key=_source_of), _source_of):
        of_source = [*source]
        tasks = {number.task for number in of_source}
        if len(tasks) > 1 and not any(number.holds for number in of_source):
            explanations |= _explain_source(search, of_source)
    for _, run in groupby(sorted(judged, key=_run_of), _run_of):
        left = [number for number in run if number not in explanations]
        if left:
            explanations |= _explain_run(search, left, judged)
    return [replace(each, explanation=explanations.get(each)) for each in numbers]


def _source_of(number: CardNumber) -> tuple[str, ...]:
    """The facts that the numbers of one source have in common."""
    statement = number.statement
    return statement.source, statement.model, repr(statement.settings)


def _run_of(number: CardNumber) -> tuple[str, ...]:
    """The facts that the numbers of one run of a model on a task have in common."""
    statement = number.statement
    return (*_source_of(number), number.task, statement.split, statement.revision)


def _explain_source(
    search: Search, numbers: Sequence[CardNumber]
) -> dict[CardNumber, FoundChoices]:
    """The protocol that gives all numbers of a source; nothing if none was found."""
    row = _row(search, numbers)
    stated = search.model.stated(numbers[0].statement.settings)
    found = search_row(search, row, stated=stated)
    if not found.is_found:
        return {}
    return {
        number: _choices_for(found, target.column)
        for number, target in zip(numbers, row, strict=True)
    }


def _explain_run(
    search: Search, run: Sequence[CardNumber], judged: Sequence[CardNumber]
) -> dict[CardNumber, FoundChoices]:
    """The explanations of the numbers of a run that are not reproduced to their digits.

    A number may be another row's, or another score of the same vectors. What is left is
    looked for together: a setting has to give the numbers that hold, too.
    """
    explanations: dict[CardNumber, FoundChoices] = {}
    left = []
    stated = search.model.stated(run[0].statement.settings)
    for number in run:
        if number.has_its_digits:
            continue
        other_row = _other_row(number, judged)
        if other_row is not None:
            explanations[number] = other_row
            continue
        row = _row(search, [number])
        found = search_row(
            search, row, stated=stated, choices=[*choices_of_scores(row)]
        )
        if found.given:
            explanations[number] = _choices_for(found, row[0].column)
        else:
            left.append(number)
    if not left:
        return explanations
    holding = [number for number in run if number.has_its_digits and number.is_fine]
    row, choices = _row(search, left, holding), None
    if holding or all(number.holds for number in left):
        every_choice = search.choices(row, depth=0)
        choices = [each for each in every_choice if each.setting in SMALL_SETTINGS]
    found = search_row(search, row, stated=stated, choices=choices)
    for number, target in zip(left, row, strict=False):
        explanation = _choices_for(
            found, target.column, len(holding), search.most_encodings
        )
        # A number that holds but for its last digits needs no explanation.
        if explanation.measured is not None or number.differs or holding:
            explanations[number] = explanation
    return explanations


def _row(
    search: Search, numbers: Sequence[CardNumber], holding: Sequence[CardNumber] = ()
) -> list[Target]:
    """Numbers of a run as columns of a row, called by their places."""
    return [
        Target(
            column=str(index),
            task=search.registry.tasks[number.task],
            similarity=number.similarity,
            correlation=number.correlation,
            aggregation=number.aggregation,
            readings=number.readings,
            is_fixed=index >= len(numbers),
        )
        for index, number in enumerate((*numbers, *holding))
    ]


def _choices_for(
    found: RowSearch, column: str, holding: int = 0, most_encodings: int | None = None
) -> FoundChoices:
    """What a search has found for a number.

    Args:
        found: What was found for its row.
        column: The number's column.
        holding: How many numbers of the row hold.
        most_encodings: How many encodings were allowed; None for any number.
    """
    if found.given:
        first = found.given[0]
        return FoundChoices(
            words=tuple(choice.words for choice in first.choices),
            measured=first.scores[column],
            tried=found.tried,
            is_chance=not found.is_found,
        )
    reason = "nothing that was tried gives it"
    if found.encodings == most_encodings:
        encodings = counted(found.encodings, "encoding")
        reason = f"no choice among the first {encodings} gives it"
    if holding:
        reason = f"{holding} other numbers of this run are reproduced, this one is not"
    return FoundChoices(tried=found.tried, reason=reason)


def _other_row(number: CardNumber, judged: Iterable[CardNumber]) -> FoundChoices | None:
    """The explanation that the number was measured for another task of the card."""
    if not number.is_fine:
        return None
    judged = [*judged]
    for other in judged:
        is_other_row = other.task != number.task and other.score == number.score
        if is_other_row and number.is_given_by(other.measured, DIGITS):
            statement = other.statement
            names = [statement.data_set, statement.split, statement.metric]
            place = " ".join(name for name in names if name)
            return FoundChoices(
                words=(f"the number of {place} in its place",),
                measured=other.measured,
                tried=len(judged),
            )
    return None
