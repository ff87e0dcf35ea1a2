"""Claims of papers, tested on measured scores.

A claim says that one row is above another in some columns of a table. `ClaimTests`
tests each column with the methods of both rows. The result of a test is a `Decision`, in
a `Finding` with the scores that were compared; the outcome of the claim follows from its
findings (`ClaimResult`). A test uses the stored interval of the difference if a run has
made one, and Welch's test over seeds otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from statistics import NormalDist, fmean

from harness.registry import Registry
from harness.results.bootstrap import SIGNIFICANCE_LEVEL, holm
from harness.results.claims import Claim, score_of_column
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
# Points by which a difference may have moved since its stored interval was computed. For
# methods with seeds it is more, since fits round differently on another processor, where
# five seeds act like another five: their means moved by 0.08 at most.
SAME_DIFFERENCE = 0.01
SAME_DIFFERENCE_REFITTED = 0.1

# The basis of a decision without a stored interval; `Interval.by` has the others.
SEEDS_ALONE = "seeds alone"  # Welch's test: the items were not resampled
NO_INTERVAL = "no interval"  # nothing was tested
# The bases for which a run computes an interval.
BASES_WITHOUT_INTERVAL = (SEEDS_ALONE, ITEMS_AND_NORMAL_P, NO_INTERVAL)


class ClaimOutcome(StrEnum):
    """Whether the row that is claimed to be better is above the other on the measured scores.

    An outcome is about the encoders that were measured, and not about the encoder of a
    paper.
    """

    HIGHER = "higher"
    LOWER = "lower"
    UNDECIDED = "undecided"
    NOT_MEASURED = NOT_MEASURED


DECIDED_OUTCOMES = (ClaimOutcome.HIGHER, ClaimOutcome.LOWER)


@dataclass(frozen=True, kw_only=True)
class Decision:
    """The outcome of one test of a claim.

    Attributes:
        outcome: Whether the first score is higher or lower.
        difference: The measured difference in points.
        interval: Its 95 % interval, not corrected for several tests.
        basis: What was tested: `SEEDS_ALONE`, `NO_INTERVAL` or what an interval is by.
        p: The two-sided p of no difference.
        p_holm: p corrected for the tasks of the claim, which decides the outcome.
    """

    outcome: ClaimOutcome
    difference: float | None = None
    interval: tuple[float, float] | None = None
    basis: str = ""
    p: float | None = None
    p_holm: float | None = None

    def corrected(self, p_holm: float) -> Decision:
        """The decision by a p that is corrected for several tests."""
        outcome = ClaimOutcome.UNDECIDED
        if p_holm <= SIGNIFICANCE_LEVEL and self.difference:
            outcome = ClaimOutcome.HIGHER if self.difference > 0 else ClaimOutcome.LOWER
        return replace(self, outcome=outcome, p_holm=p_holm)


def decide(
    better: SeedScores, worse: SeedScores, stored: Interval | None = None
) -> Decision:
    """Whether the first scores are above the second, by one test.

    The stored interval decides if it was computed for this difference. Otherwise, if a
    side has seeds, Welch's test over the seeds decides, which does not take the choice
    of items into account. Otherwise the claim is undecided.

    Args:
        better: The scores by seed of the method that is claimed to be better.
        worse: The scores by seed of the other method.
        stored: The stored interval of their difference; None without one.
    """
    if not better.scores or not worse.scores:
        return Decision(outcome=ClaimOutcome.NOT_MEASURED)
    mean_of_better, mean_of_worse = better.value.mean, worse.value.mean
    if mean_of_better is None or mean_of_worse is None:
        return Decision(outcome=ClaimOutcome.UNDECIDED, basis=CellState.UNDEFINED)
    difference = round(mean_of_better - mean_of_worse, 9)
    seeded_sides = [side for side in (better, worse) if side.seeded]
    if any(len(side.scores) < TOLERANCES.seeds for side in seeded_sides):
        return Decision(
            outcome=ClaimOutcome.UNDECIDED,
            difference=difference,
            basis=CellState.TOO_FEW_SEEDS,
        )
    allowed_move = SAME_DIFFERENCE_REFITTED if seeded_sides else SAME_DIFFERENCE
    if stored and abs(stored.difference - difference) <= allowed_move:
        shifted = _shift_to(difference, stored)
        interval, p, basis = (shifted.low, shifted.high), shifted.p, shifted.by
    elif seeded_sides:
        # A side without seeds does not vary, and is left out.
        samples = [(side.value.sd or 0.0, len(side.scores)) for side in seeded_sides]
        welch = welch_test(difference, *samples)
        interval = (difference - welch.half, difference + welch.half)
        p, basis = welch.p, SEEDS_ALONE
    else:
        return Decision(
            outcome=ClaimOutcome.UNDECIDED, difference=difference, basis=NO_INTERVAL
        )
    uncorrected = Decision(
        outcome=ClaimOutcome.UNDECIDED,
        difference=difference,
        interval=interval,
        basis=basis,
        p=p,
    )
    return uncorrected.corrected(p)


def _shift_to(difference: float, stored: Interval) -> Interval:
    """The stored interval, shifted to the difference that seeds have after another fit.

    Its p is the larger one of the stored p and of the p of a normal distribution with
    the shifted interval.
    """
    shift = difference - stored.difference
    if abs(shift) <= SAME_DIFFERENCE:
        return stored
    shifted = replace(
        stored, difference=difference, low=stored.low + shift, high=stored.high + shift
    )
    deviation = (stored.high - stored.low) / (2 * NormalDist().inv_cdf(0.975))
    if deviation == 0:
        return shifted
    normal_p = math.erfc(abs(difference) / deviation / math.sqrt(2))
    return replace(shifted, p=max(stored.p, normal_p))


@dataclass(frozen=True, kw_only=True)
class Finding:
    """A claim on one task, or on the average of its tasks.

    Attributes:
        label: The heading of the column, or `Avg.`.
        contrast: The methods and scores that were compared.
        published: The two printed numbers in points, the row that is claimed to be
            better first; None for a claim in words alone.
        sides: The measured scores of both methods, in the same order.
        decision: Whether the first method is higher or lower.
    """

    label: str
    contrast: Contrast
    published: tuple[float, float] | None
    sides: tuple[SeedScores, SeedScores]
    decision: Decision

    @property
    def claimed(self) -> float | None:
        """The published difference; None where the claim is in words alone."""
        if self.published is None:
            return None
        better, worse = self.published
        return round(better - worse, 9)


def correct_for_tasks(findings: Sequence[Finding]) -> list[Finding]:
    """The findings of a claim with the p of their decisions corrected by Holm's procedure."""
    p_values: dict[int, float] = {}  # of the findings that were tested, by their index
    for index, finding in enumerate(findings):
        if finding.decision.p is not None:
            p_values[index] = finding.decision.p
    corrected = [*findings]
    adjusted = holm([*p_values.values()])
    for index, p_holm in zip(p_values, adjusted, strict=True):
        finding = findings[index]
        decision = finding.decision.corrected(p_holm)
        corrected[index] = replace(finding, decision=decision)
    return corrected


@dataclass(frozen=True, kw_only=True)
class ClaimResult:
    """A claim with a finding for each task, and the average where there is one.

    Its outcome is the outcome of more than half of its tasks. A task without a score
    counts, and the average does not. A conjunction is higher if it is higher on all
    tasks, and lower if it is lower on one.
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
        """Whether it is decided, and would not be without the tests over seeds alone.

        These tests do not take the choice of items into account.
        """
        if self.outcome not in DECIDED_OUTCOMES:
            return False
        findings = []
        for finding in self.findings:
            if finding.decision.basis == SEEDS_ALONE:
                decision = replace(finding.decision, outcome=ClaimOutcome.UNDECIDED)
                finding = replace(finding, decision=decision)
            findings.append(finding)
        without_these_tests = replace(self, findings=tuple(findings))
        return without_these_tests.outcome != self.outcome

    @property
    def all_findings(self) -> tuple[Finding, ...]:
        """The findings, with the average last where there is one."""
        if self.average is None:
            return self.findings
        return (*self.findings, self.average)

    @property
    def cells(self) -> tuple[CellName, ...]:
        """Method and task of each measured cell that the claim was tested on."""
        cells: list[CellName] = []
        for finding in self.findings:
            cells += finding.contrast.cells
        return tuple(cells)

    @property
    def in_paper(self) -> int:
        """The number of tasks on which the paper's own numbers have the claimed order."""
        count = 0
        for finding in self.findings:
            if finding.claimed is not None and finding.claimed > 0:
                count += 1
        return count


def _outcome_of_conjunction(outcomes: Sequence[ClaimOutcome]) -> ClaimOutcome:
    """The outcome of a claim that has to hold on every task."""
    if ClaimOutcome.LOWER in outcomes:
        return ClaimOutcome.LOWER
    if set(outcomes) == {ClaimOutcome.HIGHER}:
        return ClaimOutcome.HIGHER
    return ClaimOutcome.UNDECIDED


@dataclass(frozen=True)
class ClaimTests:
    """Tests of claims on records, with the intervals over test pairs that are stored."""

    results: Results
    registry: Registry
    intervals: Intervals

    def test(self, claim: Claim) -> ClaimResult:
        """Every task of a claim, and their average if all have one metric."""
        findings = []
        for column in claim.columns:
            scores = [score_of_column(claim.table, column)]
            published = claim.published(column)
            findings.append(self._finding(column.label, published, claim, scores))
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
    """The means of the printed numbers; None for a claim in words alone."""
    printed_pairs = [finding.published for finding in findings if finding.published]
    if not printed_pairs:
        return None
    mean_of_better = fmean(better for better, _ in printed_pairs)
    mean_of_worse = fmean(worse for _, worse in printed_pairs)
    return mean_of_better, mean_of_worse
