"""The check of a model's card: its claims are measured, and differences are explained.

`check_claims` measures each claim under the model's own modules and prompts. For a claim
that differs, or that holds without its printed digits, `FollowUp` looks for the choices
that give these digits (`choice_search`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from harness.core.errors import AssetMissing, HarnessError
from harness.evaluation.choice_search import ChoiceSearch
from harness.evaluation.encoding_choice import OWN_CHOICE, EncodingChoice
from harness.evaluation.measured_model import MeasuredModel
from harness.registry import Registry
from harness.results.cards import CardClaim
from harness.results.checked_claims import (
    CheckedClaim,
    FoundChoices,
    checked_claim,
    gives,
    score_of,
)


def check_claims(
    model: MeasuredModel, claims: Iterable[CardClaim], registry: Registry
) -> Iterator[CheckedClaim]:
    """Measure and judge each claim, under the model's own modules and prompts."""
    unmeasured_tasks: dict[str, CheckedClaim] = {}
    for claim in claims:
        if claim.why_not:
            yield CheckedClaim(claim, why_not=claim.why_not)
            continue
        if claim.task in unmeasured_tasks:
            yield replace(unmeasured_tasks[claim.task], claim=claim)
            continue
        try:
            scores = model.scores(OWN_CHOICE, registry.tasks[claim.task])
        except HarnessError as error:
            is_missing = isinstance(error, AssetMissing)
            unmeasured_tasks[claim.task] = CheckedClaim(
                claim, why_not=str(error), is_missing=is_missing
            )
            yield unmeasured_tasks[claim.task]
            continue
        yield checked_claim(claim, score_of(claim, scores))


# Claims that differ are followed up


class RunName(NamedTuple):
    """The facts that the claims of one run of a model have in common."""

    source: str
    model: str
    task: str
    split: str
    revision: str


@dataclass(frozen=True, eq=False)
class ClaimRun:
    """The judged claims of one run: numbers of one source for one task.

    A choice of the encoding has to give the digits of all of them.

    Attributes:
        name: The facts that its claims have in common.
        claims: Its claims, with what was measured for them.
    """

    name: RunName
    claims: list[CheckedClaim] = field(default_factory=list)

    @property
    def without_digits(self) -> list[CheckedClaim]:
        """The claims whose printed digits were not measured."""
        return [item for item in self.claims if not item.has_its_digits]

    @property
    def holding(self) -> list[CheckedClaim]:
        """The claims that hold with their digits, to a hundredth of a point."""
        return [item for item in self.claims if item.has_its_digits and item.is_fine]

    @property
    def all_hold(self) -> bool:
        """Whether all claims hold with their digits, to a hundredth of a point."""
        return len(self.holding) == len(self.claims)

    @property
    def some_differ(self) -> bool:
        """Whether a claim is not reproduced."""
        return any(item.differs for item in self.claims)


@dataclass
class FollowUp:
    """Explains claims that differ, one run after the other.

    Attributes:
        model: The model, which keeps what was measured of it.
        registry: The tasks.
        most_encodings: How many encodings are measured for a task at most; None for no
            limit.
        note: Is called with a sentence on how long each search takes at most.
        explained_by: The choices that explained earlier runs, by the source of these
            claims. They are tried first.
    """

    model: MeasuredModel
    registry: Registry
    most_encodings: int | None = None
    note: Callable[[str], None] = field(default=lambda _: None)
    explained_by: dict[str, list[EncodingChoice]] = field(default_factory=dict)

    def __call__(self, checked: Sequence[CheckedClaim]) -> tuple[CheckedClaim, ...]:
        """The claims; those whose digits were not measured have an explanation."""
        explanations: dict[CheckedClaim, FoundChoices] = {}
        runs = _runs(checked)
        for run in runs:
            unexplained = []
            for item in run.without_digits:
                explanation = _number_of_other_task(item, checked)
                if explanation is None:
                    unexplained.append(item)
                else:
                    explanations[item] = explanation
            if unexplained:
                explanations |= self._search(run, unexplained, runs)
        return tuple(
            replace(item, explanation=explanations.get(item)) for item in checked
        )

    def _search(
        self,
        run: ClaimRun,
        unexplained: Sequence[CheckedClaim],
        runs: Sequence[ClaimRun],
    ) -> Mapping[CheckedClaim, FoundChoices]:
        """The explanations that a search finds for claims of a run.

        Args:
            run: The run.
            unexplained: Its claims that have no explanation yet.
            runs: All runs, which decide how much is tried.
        """
        source = run.name.source
        search = ChoiceSearch(
            model=self.model,
            task=self.registry.tasks[run.name.task],
            registry=self.registry,
            most_encodings=self.most_encodings,
            likely_choices=self.explained_by.get(source, ()),
            note=self.note,
        )
        found_choices = search.explanations(
            [item.claim for item in unexplained],
            [item.claim for item in run.holding],
            depth=_search_depth(run, runs),
        )
        if search.explained_by is not None:
            self.explained_by.setdefault(source, []).append(search.explained_by)
        explanations = {}
        for item, explanation in zip(unexplained, found_choices, strict=True):
            is_found = explanation.measured is not None
            if not is_found and run.holding:
                explanations[item] = _as_changed(item, explanation, len(run.holding))
            elif is_found or item.differs:
                explanations[item] = explanation
            # Any other number holds but for its last digits, and needs no explanation.
        return explanations


def _search_depth(run: ClaimRun, runs: Sequence[ClaimRun]) -> int:
    """How many choices of the encoding are tried at once for a run.

    With 0, no choice is tried that moves many sentences: a number of the run holds, or
    none differs. With 1, all numbers of another run of the same source hold, so that most
    choices are known to be right.
    """
    if run.holding or not run.some_differ:
        return 0
    for other_run in runs:
        is_same_source = other_run.name.source == run.name.source
        if other_run is not run and is_same_source and other_run.all_hold:
            return 1
    return 2


def _runs(checked: Sequence[CheckedClaim]) -> list[ClaimRun]:
    """The judged claims by run, in the order of their first claims."""
    run_by_name: dict[RunName, ClaimRun] = {}
    for item in checked:
        if item.verdict is None:
            continue
        statement = item.claim.statement
        name = RunName(
            source=statement.source,
            model=statement.model,
            task=item.claim.task,
            split=statement.split,
            revision=statement.revision,
        )
        run = run_by_name.setdefault(name, ClaimRun(name))
        run.claims.append(item)
    return list(run_by_name.values())


# Explanations without a search


def _number_of_other_task(
    item: CheckedClaim, checked: Sequence[CheckedClaim]
) -> FoundChoices | None:
    """The explanation that the claimed number was measured for another task of the card.

    None if no other task has the number.
    """
    if not item.is_fine:
        return None
    for other_item in checked:
        is_other_task = other_item.claim.task != item.claim.task
        is_same_score = other_item.claim.score == item.claim.score
        has_digits = gives(item.claim, other_item.measured)
        if is_other_task and is_same_score and has_digits:
            statement = other_item.claim.statement
            words = [statement.data_set, statement.split, statement.metric]
            cell = " ".join(word for word in words if word)
            return FoundChoices(
                words=(f"the number of {cell} in its place",),
                measured=other_item.measured,
                tried=len(checked),
            )
    return None


def _as_changed(
    item: CheckedClaim, explanation: FoundChoices, holding_count: int
) -> FoundChoices:
    """The explanation that a number was changed in the card.

    It is given if nothing else gives the number, and if other numbers of its run have
    their digits.
    """
    reason = (
        f"{holding_count} other numbers of the same run have their digits, "
        "this one was changed"
    )
    return replace(explanation, reason=f"{reason}{_exchanged_digits(item)}")


def _exchanged_digits(item: CheckedClaim) -> str:
    """A remark that two digits of the measured score were exchanged; empty if they were not."""
    decimals = len(item.reading.partition(".")[2])
    claimed, measured = item.reading, f"{item.measured:.{decimals}f}"
    if len(claimed) != len(measured):
        return ""
    differing = [
        position
        for position, digit in enumerate(claimed)
        if digit != measured[position]
    ]
    if len(differing) != 2:
        return ""
    first, second = differing
    if (claimed[first], claimed[second]) != (measured[second], measured[first]):
        return ""
    return f": {measured} with two digits exchanged"
