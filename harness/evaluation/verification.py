"""The check of a model's card: its numbers are measured, and differences are explained.

`check_numbers` measures each number under the model's own modules and prompts. The numbers
of one source for one task are a run: one setting has to give the digits of all of them,
for which `explained` searches.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import groupby

from harness.core.errors import AssetMissing, HarnessError, UsageError
from harness.evaluation.search import DIGITS_OF_EXPLANATIONS, Explainer
from harness.evaluation.variants import VariantScores
from harness.registry import Registry
from harness.results.cards import CardNumber
from harness.results.checked_numbers import (
    CheckedNumber,
    FoundChoices,
    checked_number,
    gives,
    score_of,
)


def check_numbers(
    model: VariantScores, numbers: Iterable[CardNumber], registry: Registry
) -> Iterator[CheckedNumber]:
    """Measure and judge each number, under the model's own modules and prompts."""
    failed_tasks: dict[str, CheckedNumber] = {}
    for number in numbers:
        if number.why_not:
            yield CheckedNumber(number, why_not=number.why_not)
        elif number.task in failed_tasks:
            yield replace(failed_tasks[number.task], number=number)
        else:
            try:
                yield _check(number, model, registry)
            except HarnessError as error:
                failed_tasks[number.task] = CheckedNumber(
                    number,
                    why_not=str(error),
                    is_missing=isinstance(error, AssetMissing),
                )
                yield failed_tasks[number.task]


def _check(
    number: CardNumber, model: VariantScores, registry: Registry
) -> CheckedNumber:
    """Measure and judge a number; where it may be of either of two tasks, on both.

    It is measured under the settings of its run, where these are stated. If it holds on
    the second task alone, it is a number of that task.
    """
    try:
        variant = model.stated_variant(number.statement.settings)
    except UsageError as error:
        return CheckedNumber(number, why_not=str(error))
    checked_on_tasks = []
    for task in filter(None, (number.task, number.or_task)):
        scores = model.scores(variant, registry.tasks[task])
        on_task = replace(number, task=task)
        checked_on_tasks.append(checked_number(on_task, score_of(on_task, scores)))
        if checked_on_tasks[-1].holds:
            return checked_on_tasks[-1]
    return checked_on_tasks[0]


# What explains a difference


def explained(
    checked: Sequence[CheckedNumber], explainer: Explainer
) -> tuple[CheckedNumber, ...]:
    """The numbers; those whose digits were not measured have an explanation."""
    explanations: dict[CheckedNumber, FoundChoices] = {}
    judged = [item for item in checked if item.verdict is not None]
    for _, group in groupby(sorted(judged, key=_run_of), _run_of):
        run = list(group)
        open_items = []
        for item in run:
            other_row = None if item.has_its_digits else _other_row(item, judged)
            if other_row is not None:
                explanations[item] = other_row
            elif not item.has_its_digits:
                open_items.append(item)
        if open_items:
            explanations |= _explain_run(run, open_items, explainer)
    return tuple(replace(item, explanation=explanations.get(item)) for item in checked)


def _run_of(item: CheckedNumber) -> tuple[str, ...]:
    """The facts that the numbers of one run of a model have in common."""
    statement = item.number.statement
    return (
        statement.source,
        statement.model,
        item.number.task,
        statement.split,
        statement.revision,
        repr(statement.settings),
    )


def _explain_run(
    run: Sequence[CheckedNumber],
    open_items: Sequence[CheckedNumber],
    explainer: Explainer,
) -> dict[CheckedNumber, FoundChoices]:
    """The explanations of numbers of a run that are not reproduced to their digits."""
    holding = [item for item in run if item.has_its_digits and item.is_fine]
    found = explainer.search(
        explainer.registry.tasks[run[0].number.task],
        [item.number for item in open_items],
        [item.number for item in holding],
        only_small=bool(holding) or not any(item.differs for item in run),
    )
    explanations = {}
    for item, explanation in zip(open_items, found, strict=True):
        is_found = explanation.measured is not None
        if not is_found and holding:
            reason = f"{len(holding)} other numbers of this run are reproduced, this one is not"
            explanation = replace(explanation, reason=reason)
        # A number that holds but for its last digits needs no explanation.
        if is_found or item.differs or holding:
            explanations[item] = explanation
    return explanations


def _other_row(
    item: CheckedNumber, judged: Sequence[CheckedNumber]
) -> FoundChoices | None:
    """The explanation that the number was measured for another task of the card."""
    if not item.is_fine:
        return None
    for other in judged:
        is_other_task = other.number.task != item.number.task
        is_same_score = other.number.score == item.number.score
        has_its_digits = gives(item.number, other.measured, DIGITS_OF_EXPLANATIONS)
        if is_other_task and is_same_score and has_its_digits:
            statement = other.number.statement
            names = [statement.data_set, statement.split, statement.metric]
            place = " ".join(name for name in names if name)
            return FoundChoices(
                words=(f"the number of {place} in its place",),
                measured=other.measured,
                tried=len(judged),
            )
    return None
