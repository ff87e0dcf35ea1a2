"""The verdict on one cell: what a published number and a measured one say about each other.

Everything is in points (x100) and two-sided: higher than published is flagged too. A
difference is rounded to 1e-9 before it is compared, so that the tolerances are decimal
numbers and not their binary neighbours.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from enum import StrEnum
from functools import cached_property
from statistics import fmean, stdev

from harness.core.errors import ScoreError
from harness.results.student import student_p, student_quantile

PRINTED_NUMBER = re.compile(r"-?\d+(\.\d+)?")  # as papers print scores


class CellState(StrEnum):
    """The state of a cell: a verdict on the difference, or why there is no difference to judge."""

    EXACT = "exact"
    MATCH = "match"
    CLOSE = "close"
    CONSISTENT = "consistent"
    DIFFERS = "differs"
    INCONCLUSIVE = "inconclusive"
    TOO_FEW_SEEDS = "too few seeds"

    NOT_RUN = "not run"
    NO_METHOD = "no method"
    ASSET_MISSING = "asset missing"
    NOT_PUBLISHED = "not published"
    OTHER_PROTOCOL = "other protocol"
    OTHER_CORPUS = "other corpus"
    OTHER_DATA = "other data"
    OTHER_WEIGHTS = "other weights"
    NO_EVIDENCE = "no evidence"
    STALE = "stale"
    UNDEFINED = "undefined"

    @property
    def is_verdict(self) -> bool:
        """Whether a difference was judged; a cell without one is no pass."""
        return self in VERDICTS


# In the order in which tables count them.
VERDICTS = (
    CellState.EXACT,
    CellState.MATCH,
    CellState.CLOSE,
    CellState.CONSISTENT,
    CellState.DIFFERS,
    CellState.INCONCLUSIVE,
    CellState.TOO_FEW_SEEDS,
)


@dataclass(frozen=True)
class Tolerances:
    """Every tolerance of a verdict; every table has them in words below it.

    Attributes:
        exact: The largest difference in points of an `exact` score.
        match: The largest difference in points of a `match`.
        close: The largest difference in points of a `close` score.
        seeds: The fewest seeds of a verdict on a seeded score.
        widest: The widest half of an interval in points that can tell anything.
        equivalence: The points within which two means count as the same.
    """

    exact: float = 0.005
    match: float = 0.05
    close: float = 0.5
    seeds: int = 5
    widest: float = 2.0
    equivalence: float = 1.0


TOLERANCES = Tolerances()


@dataclass(frozen=True)
class Published:
    """A published number, and where the paper gives them, its standard deviation over n runs.

    Attributes:
        value: The number as printed, "58.40": its digits decide what equal means.
        sd: The sample standard deviation over runs, in points.
        n: The number of runs, two or more.

    Raises:
        ScoreError: It is no number, or only one of sd and n is given.

    Examples:
        >>> from harness import Published
        >>> Published("63.6").half_unit
        0.05
    """

    value: str
    sd: float | None = None
    n: int | None = None

    def __post_init__(self) -> None:
        if not PRINTED_NUMBER.fullmatch(self.value):
            raise ScoreError(
                f"a published number is written like 58.40, found {self.value!r}"
            )
        if (self.sd is None) != (self.n is None):
            raise ScoreError(
                f"{self.value}: sd and n come together, found sd {self.sd} and n {self.n}"
            )
        if self.sd is not None and not (math.isfinite(self.sd) and self.sd >= 0):
            raise ScoreError(
                f"{self.value}: sd is a finite number, 0 or more; found {self.sd}"
            )
        if self.n is not None and self.n < 2:
            raise ScoreError(f"{self.value}: an sd needs n >= 2 runs, found n {self.n}")

    @cached_property
    def points(self) -> float:
        """The number itself."""
        return float(self.value)

    @cached_property
    def decimals(self) -> int:
        """How many decimals are printed."""
        return len(self.value.partition(".")[2])

    @cached_property
    def half_unit(self) -> float:
        """Half a unit of the last printed digit: 0.05 for "63.6"."""
        return 0.5 * 10.0**-self.decimals

    @property
    def reach(self) -> float:
        """The points within which a score has these digits.

        A number printed with fewer than two decimals cannot be met more closely than half
        a unit of its last one (63.6 is any of 63.55 to 63.65); one printed with more is
        held to 0.005 all the same: mteb's two runs of all-MiniLM-L6-v2, which are years
        apart, differ by up to 4e-5 points.
        """
        return max(TOLERANCES.exact, self.half_unit)


class Agreement(StrEnum):
    """What two numbers of one score, each with its digits, say of each other."""

    SAME = "same digits"
    ROUNDING = "same to rounding"
    DIFFERENT = "different"


MOST_ROUNDED = 2  # decimals of a number that was rounded; files of scores have more


def agreement(first: Published, second: Published) -> Agreement:
    """Whether two numbers have the same digits: the rule for all that are compared here.

    Published numbers among each other, a reader's numbers, those of cards and those of
    mteb's result files are compared by it; a measured score has the digits of a number
    within `Published.reach`.

    Returns:
        `same digits`: the number with fewer decimals is the other one, rounded; or both
            have more than two decimals and differ by 0.005 points at most.
        `same to rounding`: with the decimals of the number that has fewer, their last
            digits differ by one; or both have more than two decimals and differ by 0.05
            points at most, as two processors do.
        `different`: anything else.

    Examples:
        >>> from harness.results.verdict import Published, agreement
        >>> print(agreement(Published("72.37"), Published("72.3690")))
        same digits
        >>> print(agreement(Published("72.38"), Published("72.3690")))
        same to rounding
        >>> print(agreement(Published("39.70"), Published("39.72")))
        different
    """
    distance = abs(round(first.points - second.points, 9))
    coarser = max(first.half_unit, second.half_unit)
    if distance <= max(TOLERANCES.exact, coarser):
        return Agreement.SAME
    # One unit of the last digit; the number that has more decimals may be half a unit
    # further away.
    allowed = 3 * coarser
    if min(first.decimals, second.decimals) > MOST_ROUNDED:
        allowed = TOLERANCES.match
    return Agreement.ROUNDING if distance <= allowed else Agreement.DIFFERENT


MAX_DECIMALS = 30  # of a number that is read


def readings_in_points(text: str) -> tuple[Published, ...]:
    """What a written score may mean in points, with its digits; nothing for no score.

    A number from -1 to 1 has two readings, first as a fraction, then as a percentage:
    0.75 is 75 points or 0.75 points.

    Examples:
        >>> from harness.results.verdict import readings_in_points
        >>> [reading.value for reading in readings_in_points("0.7546")]
        ['75.46', '0.7546']
    """
    text = text.strip()
    try:
        number = Decimal(text.removesuffix("%"))
    except InvalidOperation:
        return ()
    # Digits without end would be written out, as those of 1e-999999999.
    if not number.is_finite() or abs(number) > 100 or number.adjusted() < -MAX_DECIMALS:
        return ()
    as_percentage = Published(f"{number:f}")
    if abs(number) > 1 or text.endswith("%"):
        return (as_percentage,)
    return Published(f"{number.scaleb(2):f}"), as_percentage


@dataclass(frozen=True)
class Measured:
    """The scores of a measured cell.

    Attributes:
        scores: One score a seed, in points; None is undefined. A deterministic cell has
            one.
        seeded: Whether another seed can give another score.

    Raises:
        ScoreError: There is no score, or a deterministic cell has several.

    Examples:
        >>> from harness import Measured
        >>> len(Measured((75.9, 76.4, None), seeded=True).scores)
        3
    """

    scores: tuple[float | None, ...]
    seeded: bool = False

    def __post_init__(self) -> None:
        if not self.scores or (len(self.scores) > 1 and not self.seeded):
            raise ScoreError(
                "a measured cell has one score, or one a seed if it is seeded; "
                f"found {len(self.scores)} (a cell without any is not run)"
            )


@dataclass(frozen=True)
class Verdict:
    """The state of a cell, and the numbers that decided it.

    Attributes:
        state: A verdict on the difference, or why there is none.
        difference: Measured minus published, in points.
        k: The number of seeds.
        sd: Their sample standard deviation.
        half_width: Of the interval that decided: for one more run, or Welch's.
    """

    state: CellState
    difference: float | None = None
    k: int | None = None
    sd: float | None = None
    half_width: float | None = None


def verdict(published: Published, measured: Measured) -> Verdict:
    """Judge a measured cell against a published number, by TOLERANCES.

    Args:
        published: The number as it was printed.
        measured: The cell's score, or one a seed; one that is not finite makes it
            undefined.

    Returns:
        The verdict, and the numbers behind it.

    Examples:
        >>> from harness import Measured, Published, verdict
        >>> print(verdict(Published("58.40"), Measured((58.37,))).state)
        match
        >>> print(verdict(Published("76.25"), Measured((75.9, 76.4, 76.1), seeded=True)).state)
        too few seeds
    """
    if not isinstance(published, Published) or not isinstance(measured, Measured):
        raise ScoreError(
            f"wanted points as in verdict(Published('82.05'), Measured((82.03,))), found "
            f"verdict({published!r}, {measured!r})"
        )
    scores = [s for s in measured.scores if s is not None and math.isfinite(s)]
    if len(scores) < len(measured.scores):
        return Verdict(CellState.UNDEFINED)
    difference = round(fmean(scores) - published.points, 9)
    if not measured.seeded:
        state = _deterministic(difference, published.reach)
        return Verdict(state, difference=difference)
    k = len(scores)
    sd = stdev(scores) if k > 1 else None
    if sd is None or k < TOLERANCES.seeds:
        return Verdict(CellState.TOO_FEW_SEEDS, difference=difference, k=k, sd=sd)
    if published.sd is not None and published.n is not None:
        half_width = round(welch_half_width((sd, k), (published.sd, published.n)), 9)
        state = _of_means(difference, half_width)
    else:
        half_width = round(prediction_half_width(sd, k), 9)
        state = _of_one_run(difference, half_width)
    return Verdict(state, difference=difference, k=k, sd=sd, half_width=half_width)


def prediction_half_width(sd: float, k: int) -> float:
    """Half of the 95 % interval for one more run after k: h = t(.975, k-1) s sqrt(1 + 1/k)."""
    return student_quantile(k - 1.0) * sd * math.sqrt(1 + 1 / k)


def welch_half_width(*samples: tuple[float, int]) -> float:
    """Half of Welch's 95 % interval for a difference of means, with Satterthwaite's df.

    Each sample is its sd and size; a mean that does not vary is left out.
    """
    return welch_test(0.0, *samples).half


@dataclass(frozen=True)
class Welch:
    """Half of the 95 % interval of a difference of means, and its two-sided p."""

    half: float
    p: float


def welch_test(difference: float, *samples: tuple[float, int]) -> Welch:
    """Welch's test of a difference of means; each sample is its sd and size.

    Where no mean varies, a difference is certain, and none is none.
    """
    variances = [sd**2 / n for sd, n in samples]
    total = math.fsum(variances)
    if total == 0:
        return Welch(half=0.0, p=0.0 if difference else 1.0)
    # As shares, since squared variances may underflow.
    shares = (
        (v / total) ** 2 / (n - 1) for v, (_, n) in zip(variances, samples, strict=True)
    )
    df, error = 1 / math.fsum(shares), math.sqrt(total)
    return Welch(half=student_quantile(df) * error, p=student_p(difference / error, df))


def _deterministic(difference: float, reach: float) -> CellState:
    """`exact` means equal to the printed digits, which the score has within `reach`."""
    size = abs(difference)
    if size <= reach:
        return CellState.EXACT
    if size <= TOLERANCES.match:
        return CellState.MATCH
    return CellState.CLOSE if size <= TOLERANCES.close else CellState.DIFFERS


def _of_one_run(difference: float, half_width: float) -> CellState:
    """A published run is `consistent` within the interval that our seeds predict for one run."""
    if half_width > TOLERANCES.widest:
        return CellState.INCONCLUSIVE
    inside = abs(difference) <= max(half_width, TOLERANCES.match)
    return CellState.CONSISTENT if inside else CellState.DIFFERS


def _of_means(difference: float, half_width: float) -> CellState:
    """Two means are `consistent` if all of the interval of their difference is small."""
    if abs(difference) + half_width <= TOLERANCES.equivalence:
        return CellState.CONSISTENT
    if abs(difference) > half_width:
        return CellState.DIFFERS
    return CellState.INCONCLUSIVE
