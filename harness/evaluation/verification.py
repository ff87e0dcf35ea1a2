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
from harness.results.card_numbers import CardNumber, FoundChoices


def check_numbers(
    model: VariantScores, numbers: Iterable[CardNumber], registry: Registry
) -> Iterator[CardNumber]:
    """Measure and judge each number, under the model's own modules and prompts."""
    failed_tasks: dict[str, CardNumber] = {}
    for number in numbers:
        failed = failed_tasks.get(number.task)
        if number.why_not:
            yield number
        elif failed is not None:
            yield replace(number, why_not=failed.why_not, is_missing=failed.is_missing)
        else:
            try:
                yield _check(number, model, registry)
            except HarnessError as error:
                is_missing = isinstance(error, AssetMissing)
                failed = replace(number, why_not=str(error), is_missing=is_missing)
                failed_tasks[number.task] = failed
                yield failed


def _check(number: CardNumber, model: VariantScores, registry: Registry) -> CardNumber:
    """Measure and judge a number; where it may be of either of two tasks, on both.

    It is measured under the settings of its run, where these are stated. If it holds on
    the second task alone, it is a number of that task.
    """
    try:
        variant = model.stated_variant(number.statement.settings)
    except UsageError as error:
        return replace(number, why_not=str(error))
    judged_on_tasks = []
    for task in filter(None, (number.task, number.or_task)):
        scores = model.scores(variant, registry.tasks[task])
        judged = replace(number, task=task).judged(number.score_in(scores))
        if judged.holds:
            return judged
        judged_on_tasks.append(judged)
    return judged_on_tasks[0]


# What explains a difference


def explained(
    numbers: Sequence[CardNumber], explainer: Explainer
) -> tuple[CardNumber, ...]:
    """The numbers; those whose digits were not measured have an explanation."""
    explanations: dict[CardNumber, FoundChoices] = {}
    judged = [number for number in numbers if number.verdict is not None]
    for _, group in groupby(sorted(judged, key=_run_of), _run_of):
        run = list(group)
        unexplained = []
        for number in run:
            other_row = None if number.has_its_digits else _other_row(number, judged)
            if other_row is not None:
                explanations[number] = other_row
            elif not number.has_its_digits:
                unexplained.append(number)
        if unexplained:
            explanations |= _explain_run(run, unexplained, explainer)
    return tuple(
        replace(number, explanation=explanations.get(number)) for number in numbers
    )


def _run_of(number: CardNumber) -> tuple[str, ...]:
    """The facts that the numbers of one run of a model have in common."""
    statement = number.statement
    return (
        statement.source,
        statement.model,
        number.task,
        statement.split,
        statement.revision,
        repr(statement.settings),
    )


def _explain_run(
    run: Sequence[CardNumber], unexplained: Sequence[CardNumber], explainer: Explainer
) -> dict[CardNumber, FoundChoices]:
    """The explanations of numbers of a run that are not reproduced to their digits."""
    holding = [number for number in run if number.has_its_digits and number.is_fine]
    found = explainer.search(
        explainer.registry.tasks[run[0].task],
        unexplained,
        holding,
        only_small=bool(holding) or not any(number.differs for number in run),
    )
    explanations = {}
    for number, explanation in zip(unexplained, found, strict=True):
        is_found = explanation.measured is not None
        if not is_found and holding:
            reason = f"{len(holding)} other numbers of this run are reproduced, this one is not"
            explanation = replace(explanation, reason=reason)
        # A number that holds but for its last digits needs no explanation.
        if is_found or number.differs or holding:
            explanations[number] = explanation
    return explanations


def _other_row(number: CardNumber, judged: Sequence[CardNumber]) -> FoundChoices | None:
    """The explanation that the number was measured for another task of the card."""
    if not number.is_fine:
        return None
    for other in judged:
        is_other_row = other.task != number.task and other.score == number.score
        if is_other_row and number.is_given_by(other.measured, DIGITS_OF_EXPLANATIONS):
            statement = other.statement
            names = [statement.data_set, statement.split, statement.metric]
            place = " ".join(name for name in names if name)
            return FoundChoices(
                words=(f"the number of {place} in its place",),
                measured=other.measured,
                tried=len(judged),
            )
    return None
