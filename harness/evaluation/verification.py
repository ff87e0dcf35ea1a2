"""Is a model's card true? Its claims measured, and those that differ followed up.

Each claim is measured under the model's own modules and prompts. Where one differs, or
holds but without its printed digits, `follow_up` looks for the choices that give these
digits (`choice_search`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from harness.core.errors import AssetMissing, HarnessError
from harness.evaluation.choice_search import ChoiceSearch
from harness.evaluation.model_choices import OWN_CHOICE, EncodingChoice, MeasuredModel
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
    """Measure what each claim is of, under the model's own modules and prompts, and judge it."""
    failed: dict[str, CheckedClaim] = {}
    for claim in claims:
        if claim.why_not:
            yield CheckedClaim(claim, why_not=claim.why_not)
            continue
        if claim.task in failed:
            yield replace(failed[claim.task], claim=claim)
            continue
        try:
            scores = model.scores(OWN_CHOICE, registry.tasks[claim.task])
        except HarnessError as error:
            is_missing = isinstance(error, AssetMissing)
            failed[claim.task] = CheckedClaim(
                claim, why_not=str(error), is_missing=is_missing
            )
            yield failed[claim.task]
            continue
        yield checked_claim(claim, score_of(claim, scores))


# Following up what differs

ClaimRun = list[CheckedClaim]  # the judged claims of one source on one task


@dataclass
class FollowUp:
    """What gives the digits of claims that differ, a run after the other.

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
        """The claims, those without their digits with what gives these.

        The claims of one source on one task are of one run: a choice of the encoding
        has to give the digits of all of them.
        """
        explanations: dict[CheckedClaim, FoundChoices] = {}
        runs = _runs(checked)
        for run in runs:
            unexplained = [item for item in run if not item.has_its_digits]
            if unexplained:
                explanations |= self._explained(run, unexplained, checked, runs)
        return tuple(
            replace(item, explanation=explanations.get(item)) for item in checked
        )

    def _explained(
        self,
        run: ClaimRun,
        unexplained: Sequence[CheckedClaim],
        checked: Sequence[CheckedClaim],
        runs: Sequence[ClaimRun],
    ) -> Mapping[CheckedClaim, FoundChoices]:
        explanations = {}
        for item in unexplained:
            found_row = _another_row(item, checked)
            if found_row is not None:
                explanations[item] = found_row
        unexplained = [item for item in unexplained if item not in explanations]
        if not unexplained:
            return explanations
        source = _source(run)
        search = ChoiceSearch(
            self.model,
            self.registry.tasks[run[0].claim.task],
            self.registry,
            most_encodings=self.most_encodings,
            first=self.explained_by.get(source, ()),
            note=self.note,
        )
        holding = [item for item in run if item.has_its_digits and item.is_fine]
        others_hold = any(
            _holds(r) for r in runs if r is not run and _source(r) == source
        )
        depth = 1 if others_hold else 2
        if holding or not any(item.differs for item in run):
            depth = 0
        found = search.explanations(
            [item.claim for item in unexplained],
            [item.claim for item in holding],
            depth=depth,
        )
        if search.explained_by is not None:
            self.explained_by.setdefault(source, []).append(search.explained_by)
        for item, explanation in zip(unexplained, found, strict=True):
            if explanation.measured is None and holding:
                explanation = _as_changed(item, explanation, len(holding))
            if item.differs or holding or explanation.measured is not None:
                explanations[item] = explanation
        return explanations


def _source(run: ClaimRun) -> str:
    return run[0].claim.statement.source


def _holds(run: ClaimRun) -> bool:
    """Whether all numbers of a run have their digits, to a hundredth of a point."""
    return all(item.has_its_digits and item.is_fine for item in run)


def _runs(checked: Sequence[CheckedClaim]) -> list[ClaimRun]:
    """The judged claims by source, task, split and revision."""
    runs: dict[tuple[str, ...], ClaimRun] = {}
    for item in checked:
        stated = item.claim.statement
        if item.verdict is not None:
            name = (
                stated.source,
                stated.model,
                item.claim.task,
                stated.split,
                stated.revision,
            )
            runs.setdefault(name, []).append(item)
    return [*runs.values()]


def _another_row(
    item: CheckedClaim, checked: Sequence[CheckedClaim]
) -> FoundChoices | None:
    """That the number is what was measured for another task of the card."""
    for other in checked:
        is_of_other = (
            other.claim.task != item.claim.task
            and other.claim.score == item.claim.score
        )
        if is_of_other and item.is_fine and gives(item.claim, other.measured):
            stated = other.claim.statement
            row = f"{stated.data_set} {stated.split} {stated.metric}"
            words = f"the number of {' '.join(row.split())} in its place"
            return FoundChoices((words,), other.measured, len(checked))
    return None


def _as_changed(
    item: CheckedClaim, explanation: FoundChoices, holding: int
) -> FoundChoices:
    """A number that nothing gives, while others of its run have their digits."""
    reason = f"{holding} other numbers of the same run have their digits, this one was changed"
    return replace(explanation, reason=f"{reason}{_exchanged_digits(item)}")


def _exchanged_digits(item: CheckedClaim) -> str:
    """That two digits of the measured score were exchanged, where that gives the claimed one."""
    places = len(item.reading.partition(".")[2])
    claimed, measured = item.reading, f"{item.measured:.{places}f}"
    pairs = [
        i for i, (a, b) in enumerate(zip(claimed, measured, strict=False)) if a != b
    ]
    if len(claimed) == len(measured) and len(pairs) == 2:
        first, second = pairs
        if (claimed[first], claimed[second]) == (measured[second], measured[first]):
            return f": {measured} with two digits exchanged"
    return ""
