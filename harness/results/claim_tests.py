"""Claims on measured scores: decisions, findings on tasks, outcomes of claims."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist, fmean

from harness.registry import Registry
from harness.results.bootstrap import SIGNIFICANCE_LEVEL, holm
from harness.results.claims import Claim, address
from harness.results.index import (
    NOT_MEASURED,
    CellName,
    Results,
    SeedScores,
    mean_over_tasks,
)
from harness.results.intervals import (
    ITEMS_AND_NORMAL_P,
    Contrast,
    Interval,
    Intervals,
    TaskScore,
)
from harness.results.reproduction import seed_scores
from harness.results.verdict import TOLERANCES, CellState, welch_test

AVERAGE = "Avg."
# Points: an interval belongs to the difference that it was made for. Fits round
# otherwise on other processors, so that five seeds there are another five: their means
# moved by 0.08 at most.
UNMOVED_BY, UNMOVED_BY_REFITTING = 0.01, 0.1

# What a decision rests on, where it is not what a stored interval rests on.
SEEDS_ALONE = "seeds alone"  # Welch's test: the items were not resampled
NO_INTERVAL = "no interval"  # the sign of a difference decides nothing
BASES_WITHOUT_INTERVAL = (
    SEEDS_ALONE,
    ITEMS_AND_NORMAL_P,
    NO_INTERVAL,
)  # for which a run makes an interval


class ClaimOutcome(StrEnum):
    """Where the row that is claimed to be better is on the measured scores, against the other.

    It is said of the encoders that were measured; of a paper's own encoder it says
    nothing.
    """

    HIGHER = "higher"
    LOWER = "lower"
    UNDECIDED = "undecided"
    NOT_MEASURED = NOT_MEASURED


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The outcome of one test of a claim.

    Attributes:
        outcome: Whether the first score is higher or lower.
        difference: The measured difference in points.
        interval: Its 95 % interval, which is not corrected.
        basis: What the decision rests on.
        p: The two-sided p of no difference.
        p_holm: p corrected for the tasks of the claim; it decides.
    """

    outcome: ClaimOutcome
    difference: float | None = None
    interval: tuple[float, float] | None = None
    basis: str = ""
    p: float | None = None
    p_holm: float | None = None

    def corrected(self, p_holm: float) -> Decision:
        """The decision with p as it is corrected for several tests."""
        outcome = ClaimOutcome.UNDECIDED
        if p_holm <= SIGNIFICANCE_LEVEL and self.difference:
            outcome = ClaimOutcome.HIGHER if self.difference > 0 else ClaimOutcome.LOWER
        return replace(self, outcome=outcome, p_holm=p_holm)


def decide(
    better: SeedScores, worse: SeedScores, stored: Interval | None = None
) -> Decision:
    """Whether the first is above the second, by one test.

    By the stored interval where there is one for this difference. Else, where either is
    seeded, by Welch's test over seeds, which says nothing of the choice of items. Else
    it is undecided.
    """
    if not better.scores or not worse.scores:
        return Decision(outcome=ClaimOutcome.NOT_MEASURED)
    above, below = better.value.mean, worse.value.mean
    if above is None or below is None:
        return Decision(outcome=ClaimOutcome.UNDECIDED, basis=CellState.UNDEFINED)
    difference = round(above - below, 9)
    seeded = [side for side in (better, worse) if side.seeded]
    if any(len(side.scores) < TOLERANCES.seeds for side in seeded):
        return Decision(
            outcome=ClaimOutcome.UNDECIDED,
            difference=difference,
            basis=CellState.TOO_FEW_SEEDS,
        )
    if stored and abs(stored.difference - difference) <= (
        UNMOVED_BY_REFITTING if seeded else UNMOVED_BY
    ):
        interval, p = _moved_to(difference, stored)
        basis = stored.by
    elif seeded:
        spreads = [(side.value.sd or 0.0, len(side.scores)) for side in seeded]
        welch = welch_test(difference, *spreads)
        interval, p = (difference - welch.half, difference + welch.half), welch.p
        basis = SEEDS_ALONE
    else:
        return Decision(
            outcome=ClaimOutcome.UNDECIDED, difference=difference, basis=NO_INTERVAL
        )
    decision = Decision(
        outcome=ClaimOutcome.UNDECIDED,
        difference=difference,
        interval=interval,
        basis=basis,
        p=p,
    )
    return decision.corrected(p)


def _moved_to(difference: float, stored: Interval) -> tuple[tuple[float, float], float]:
    """A stored interval and its p, shifted to the difference of seeds that were fitted anew.

    The shifted p is the larger of the stored p and the p of a normal distribution.
    """
    shift = difference - stored.difference
    if abs(shift) <= UNMOVED_BY:
        return (stored.low, stored.high), stored.p
    deviation = (stored.high - stored.low) / (2 * NormalDist().inv_cdf(0.975))
    normal_p = (
        math.erfc(abs(difference) / deviation / math.sqrt(2)) if deviation else stored.p
    )
    return (stored.low + shift, stored.high + shift), max(stored.p, normal_p)


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A claim on one task, or on the average of its tasks.

    Attributes:
        label: The heading of the column, or `Avg.`.
        contrast: The methods and scores that were compared.
        published: The two printed numbers in points, the claimed one first; None in
            words alone.
        sides: The measured scores of both methods, the claimed one first.
        decision: Whether the first is higher or lower.
    """

    label: str
    contrast: Contrast
    published: tuple[float, float] | None
    sides: tuple[SeedScores, SeedScores]
    decision: Decision

    @property
    def claimed(self) -> float | None:
        """The published difference; None where the claim is in words alone."""
        return (
            None
            if self.published is None
            else round(self.published[0] - self.published[1], 9)
        )


def correct_for_tasks(findings: Sequence[Finding]) -> list[Finding]:
    """The findings of a claim, their p corrected by Holm's procedure: its tasks are the family."""
    tested = [finding for finding in findings if finding.decision.p is not None]
    adjusted = iter(holm([finding.decision.p or 0.0 for finding in tested]))
    corrected = []
    for finding in findings:
        if finding.decision.p is not None:
            finding = replace(
                finding, decision=finding.decision.corrected(next(adjusted))
            )
        corrected.append(finding)
    return corrected


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """A claim with a finding for each task, and the average where there is one.

    Its outcome is that of more than half of its tasks; a missing score counts as a
    task, and the average does not. A conjunction is higher only on all tasks, and lower
    if it is on one.
    """

    claim: Claim
    findings: tuple[Finding, ...]
    average: Finding | None

    @property
    def outcomes(self) -> list[ClaimOutcome]:
        """The outcome on each task."""
        return [finding.decision.outcome for finding in self.findings]

    @property
    def outcome(self) -> ClaimOutcome:
        """The outcome of the whole claim."""
        outcomes = self.outcomes
        if set(outcomes) == {ClaimOutcome.NOT_MEASURED}:
            return ClaimOutcome.NOT_MEASURED
        if self.claim.conjunction:
            return _outcome_of_conjunction(outcomes)
        for outcome in (ClaimOutcome.HIGHER, ClaimOutcome.LOWER):
            if 2 * outcomes.count(outcome) > len(outcomes):
                return outcome
        return ClaimOutcome.UNDECIDED

    @property
    def rests_on_seeds_alone(self) -> bool:
        """Whether it is decided by tests over seeds that say nothing of the choice of items."""
        decided = (ClaimOutcome.HIGHER, ClaimOutcome.LOWER)
        by_items = tuple(
            replace(f, decision=replace(f.decision, outcome=ClaimOutcome.UNDECIDED))
            if f.decision.basis == SEEDS_ALONE
            else f
            for f in self.findings
        )
        without = replace(self, findings=by_items).outcome
        return self.outcome in decided and without != self.outcome

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """The findings, the average among them where there is one."""
        return self.findings if self.average is None else (*self.findings, self.average)

    @property
    def cells(self) -> tuple[CellName, ...]:
        """Method and task of each measured cell that the claim was tested on."""
        return tuple(
            cell for finding in self.findings for cell in finding.contrast.cells
        )

    @property
    def in_paper(self) -> int:
        """On how many tasks the paper's own numbers have the claimed order."""
        differences = [finding.claimed for finding in self.findings]
        return sum(
            difference is not None and difference > 0 for difference in differences
        )


def _outcome_of_conjunction(outcomes: Sequence[ClaimOutcome]) -> ClaimOutcome:
    """The outcome of a claim whose every part has to hold."""
    if ClaimOutcome.LOWER in outcomes:
        return ClaimOutcome.LOWER
    return (
        ClaimOutcome.HIGHER
        if {*outcomes} == {ClaimOutcome.HIGHER}
        else ClaimOutcome.UNDECIDED
    )


@dataclass(frozen=True)
class ClaimTests:
    """Tests of claims on records, with the intervals over test pairs that are stored."""

    results: Results
    registry: Registry
    intervals: Intervals

    def test(self, claim: Claim) -> ClaimResult:
        """Every task of a claim, and their average if all have one metric."""
        findings = [
            self._finding(
                column.label,
                claim.published(column),
                claim,
                [address(claim.table, column)],
            )
            for column in claim.columns
        ]
        findings = correct_for_tasks(findings)
        metrics = {column.metric or claim.table.metric for column in claim.columns}
        average = None
        if len(findings) > 1 and len(metrics) == 1:
            scores = [finding.contrast.scores[0] for finding in findings]
            average = self._finding(
                AVERAGE, _mean_of_published(findings), claim, scores
            )
        return ClaimResult(claim=claim, findings=tuple(findings), average=average)

    def scores(self, identifier: str, score: TaskScore) -> SeedScores:
        """The scores of a method by seed."""
        task, path = score
        return seed_scores(identifier, task, path, self.results, self.registry)

    def _finding(
        self,
        label: str,
        published: tuple[float, float] | None,
        claim: Claim,
        scores: Sequence[TaskScore],
    ) -> Finding:
        """The claim on one score, or on the mean of several."""
        better, worse = claim.methods
        contrast = Contrast(better=better, worse=worse, scores=tuple(scores))
        sides = (self._mean_scores(better, scores), self._mean_scores(worse, scores))
        decision = decide(*sides, self.intervals.get(contrast))
        return Finding(
            label=label,
            contrast=contrast,
            published=published,
            sides=sides,
            decision=decision,
        )

    def _mean_scores(self, method: str, scores: Sequence[TaskScore]) -> SeedScores:
        return mean_over_tasks([self.scores(method, score) for score in scores])


def _mean_of_published(findings: Sequence[Finding]) -> tuple[float, float] | None:
    """The means of the printed numbers; None in words alone."""
    printed = [finding.published for finding in findings if finding.published]
    if not printed:
        return None
    return fmean(above for above, _ in printed), fmean(below for _, below in printed)
