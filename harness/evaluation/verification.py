"""Is a model's card true? Its claims are measured, and those that differ are followed up.

Each claim is measured under the model's own modules and prompts. Where one differs, or
holds but without its printed digits, `FollowUp` looks for the choices that give these
digits (`choice_search`).
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


# Follow up what differs


class RunName(NamedTuple):
    """What the claims of one run of a model have in common."""

    source: str
    model: str
    task: str
    split: str
    revision: str


@dataclass(frozen=True, eq=False)
class ClaimRun:
    """The judged claims of one run: numbers of one source for one task.

    A choice of the encoding has to give the digits of all of them.
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
    """Looks for what gives the digits of claims that differ, a run after the other.

    Attributes:
        model: The model, which keeps what was measured of it.
        registry: The tasks.
        most_encodings: How many encodings are measured of a task at most; None is no
            bound.
        note: Is told how long each search takes at most.
        explained_by: The choices that explained earlier runs, by source: they are tried
            first.
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
                number_of_other_task = _number_of_other_task(item, checked)
                if number_of_other_task is None:
                    unexplained.append(item)
                else:
                    explanations[item] = number_of_other_task
            if unexplained:
                explanations |= self._searched(run, unexplained, runs)
        return tuple(
            replace(item, explanation=explanations.get(item)) for item in checked
        )

    def _searched(
        self,
        run: ClaimRun,
        unexplained: Sequence[CheckedClaim],
        runs: Sequence[ClaimRun],
    ) -> Mapping[CheckedClaim, FoundChoices]:
        """What a search finds for the claims of a run that are still unexplained."""
        source = run.name.source
        search = ChoiceSearch(
            model=self.model,
            task=self.registry.tasks[run.name.task],
            registry=self.registry,
            most_encodings=self.most_encodings,
            first=self.explained_by.get(source, ()),
            note=self.note,
        )
        found = search.explanations(
            [item.claim for item in unexplained],
            [item.claim for item in run.holding],
            depth=_search_depth(run, runs),
        )
        if search.explained_by is not None:
            self.explained_by.setdefault(source, []).append(search.explained_by)
        explanations = {}
        for item, explanation in zip(unexplained, found, strict=True):
            is_found = explanation.measured is not None
            if not is_found and run.holding:
                explanation = _as_changed(item, explanation, len(run.holding))
            # A number that holds but for its last digits, and that nothing explains,
            # needs no explanation.
            if is_found or item.differs or run.holding:
                explanations[item] = explanation
        return explanations


def _search_depth(run: ClaimRun, runs: Sequence[ClaimRun]) -> int:
    """How many choices of the encoding are tried at once for a run.

    None that moves many sentences if a number of the run holds, or if none differs; one
    if another run of the same source holds as a whole: then most choices are known to
    be right.
    """
    if run.holding or not run.some_differ:
        return 0
    for other in runs:
        if other is not run and other.name.source == run.name.source and other.all_hold:
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
    """That the claimed number is what was measured for another task of the card."""
    if not item.is_fine:
        return None
    for other in checked:
        is_other_task = other.claim.task != item.claim.task
        is_same_score = other.claim.score == item.claim.score
        if is_other_task and is_same_score and gives(item.claim, other.measured):
            statement = other.claim.statement
            place = f"{statement.data_set} {statement.split} {statement.metric}"
            words = f"the number of {' '.join(place.split())} in its place"
            return FoundChoices(
                words=(words,), measured=other.measured, tried=len(checked)
            )
    return None


def _as_changed(
    item: CheckedClaim, explanation: FoundChoices, holding_count: int
) -> FoundChoices:
    """That a number was changed: nothing gives it, and others of its run have their digits."""
    reason = (
        f"{holding_count} other numbers of the same run have their digits, "
        "this one was changed"
    )
    return replace(explanation, reason=f"{reason}{_exchanged_digits(item)}")


def _exchanged_digits(item: CheckedClaim) -> str:
    """That two digits of the measured score were exchanged, if that gives the claimed number."""
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
