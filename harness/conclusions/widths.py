"""How large a difference of two published correlations has to be to be more than noise.

Two systems are scored on the same pairs with the same gold, so that their correlations
with gold are dependent. The standard error of the difference follows from both
correlations, from how far the two systems' similarities correlate with each other
(`between`, r12), and from the number of pairs. An average over tasks has the covariances
of all tasks, since tasks share pairs: STS-B took 1,007 of its 1,379 test pairs from STS12
to STS16. No similarities are needed, and nothing is resampled.

Correlations are fractions here, and standard errors of scores are in points.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from statistics import NormalDist

from harness.core.toml import read_rows

LEVEL_95 = NormalDist().inv_cdf(0.975)  # half of a 95 % interval, in standard errors

# The correlations of two systems' similarities between which a width is given where
# theirs is not known: the narrow and the wide end.
ASSUMED_BETWEEN = (0.98, 0.80)


# The pairs of tasks


@dataclass(frozen=True)
class TaskPairs:
    """The pairs of a task, as far as the noise of a score depends on them.

    Attributes:
        name: The task, without its text form: `sts-b`, `sick-r.all`.
        subsets: The number of pairs in each subset.
        shared: For this task and every other that has some of its pairs: the sum over
            distinct pairs of how often the one has a pair times how often the other has
            it. For the task itself this is the number of pairs if none is repeated.
        in_training: The number of its pairs that are also in a training split, for each
            split that has some.
    """

    name: str
    subsets: tuple[int, ...]
    shared: Mapping[str, int] = field(repr=False)
    in_training: Mapping[str, int] = field(default_factory=dict, repr=False)

    @property
    def pairs(self) -> int:
        """The number of its pairs."""
        return sum(self.subsets)

    def inflation(self, aggregation: str) -> float:
        """By how much the standard error is larger than that of one correlation.

        The mean of the subsets' correlations (`mean`) gives a small subset the weight of a
        large one; the other aggregations weigh every pair equally.
        """
        if aggregation != "mean":
            return 1.0
        of_subsets = sum(1 / size for size in self.subsets)
        return math.sqrt(self.pairs * of_subsets) / len(self.subsets)


@cache
def task_pairs() -> Mapping[str, TaskPairs]:
    """Every task whose pairs are known, by name; read once."""
    file = Path(__file__).with_name("task_pairs.toml")
    return {task.name: task for task in read_rows(TaskPairs, file, "task")}


def pairs_of_task(task: str) -> TaskPairs | None:
    """The pairs of a task in any text form; None where they are not known."""
    return task_pairs().get(task.replace(".senteval", ""))


# One task


def deviation_of_a_pair(
    first: float, second: float, between: float, correlation: str = "spearman"
) -> float:
    """The standard error of the difference of two dependent correlations, times sqrt(n).

    With r1, r2 the correlations of two systems with the same gold, and r12 that of the
    systems, n times the variances and the covariance are (Olkin & Siotani 1976; Steiger
    1980, Psychological Bulletin 87, equation 3)

        v1 = (1 - r1^2)^2,  v2 = (1 - r2^2)^2,
        c = r12 (1 - r1^2 - r2^2) - r1 r2 (1 - r1^2 - r2^2 - r12^2) / 2,

    and the variance of the difference is v1 + v2 - 2 c. For Spearman's correlation each
    variance is larger by 1 + r^2 / 2 (Bonett & Wright 2000, Psychometrika 65), the
    covariance by the geometric mean of both factors.

    Args:
        first: The first system's correlation with gold, r1, from -1 to 1.
        second: The second's, r2.
        between: The correlation of the two systems' similarities, r12. One that three
            correlations cannot have together counts as the nearest one that they can.
        correlation: `spearman` or `pearson`.

    Examples:
        >>> round(deviation_of_a_pair(0.78, 0.78, 0.95), 4)
        0.2216
    """
    most = math.sqrt((1 - first**2) * (1 - second**2))
    between = min(max(between, first * second - most), first * second + most)
    rest = 1 - first**2 - second**2
    covariance = between * rest - first * second * (rest - between**2) / 2
    factors = [1.0, 1.0]
    if correlation == "spearman":
        factors = [1 + first**2 / 2, 1 + second**2 / 2]
    variance = (
        factors[0] * (1 - first**2) ** 2
        + factors[1] * (1 - second**2) ** 2
        - 2 * math.sqrt(factors[0] * factors[1]) * covariance
    )
    return math.sqrt(max(0.0, variance))


# One task or an average of several


@dataclass(frozen=True)
class TaskScores:
    """The scores of two systems on one task.

    Attributes:
        task: The pairs of the task.
        first: The first system's score, in points.
        second: The second's.
        between: The correlation of the two systems' similarities.
        aggregation: `all`, `mean` or `wmean`.
    """

    task: TaskPairs
    first: float
    second: float
    between: float
    aggregation: str = "all"


def standard_error(
    scores: Sequence[TaskScores], correlation: str = "spearman"
) -> float:
    """The standard error of the difference of two systems' mean scores, in points.

    It is that of the choice of pairs. A pair that two tasks share, or that stands in a
    task twice, moves both scores together: the covariance of two tasks is the product of
    their deviations of a pair, times the share of common pairs.

    Args:
        scores: The scores of both systems on each task of the average, or on one.
        correlation: `spearman` or `pearson`.
    """
    deviations = []
    for score in scores:
        of_pair = deviation_of_a_pair(
            score.first / 100, score.second / 100, score.between, correlation
        )
        deviations.append(of_pair * score.task.inflation(score.aggregation))
    variance = 0.0
    for (a, of_a), (b, of_b) in product(zip(scores, deviations, strict=True), repeat=2):
        shared = a.task.shared.get(b.task.name, 0)
        variance += of_a * of_b * shared / (a.task.pairs * b.task.pairs)
    return 100 * math.sqrt(variance) / len(scores)


def chance_to_find(difference: float, error: float) -> float:
    """The power of a two-sided test at 5 %: how often a true difference is found.

    Args:
        difference: The true difference, in points.
        error: The standard error of a measured one, in points.
    """
    if error == 0:
        return 1.0 if difference else 0.0
    normal = NormalDist()
    steps = difference / error
    return normal.cdf(steps - LEVEL_95) + normal.cdf(-steps - LEVEL_95)
