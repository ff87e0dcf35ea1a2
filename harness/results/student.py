"""Student's t distribution: the p of a t, and the t of a 95 % interval.

SciPy has both. A command that reads results needs them for a few verdicts on seeds, and to
import SciPy takes it longer than to read all records; so they are computed here, from the
incomplete beta function, to ten digits or more.
"""

from __future__ import annotations

import math

FRACTION_TERMS = 200  # of the continued fraction: enough for 10,000 degrees of freedom
MOST_STEPS = 50  # of Newton's method, which takes about ten


def student_p(t: float, df: float) -> float:
    """The two-sided p of a t, for any real df >= 1.

    It is I_x(df / 2, 1 / 2) at x = df / (df + t^2) (Abramowitz and Stegun 1964, 26.7.1).
    """
    a, b = df / 2, 0.5
    x, rest = df / (df + t * t), t * t / (df + t * t)
    if x <= (a + 1) / (a + b + 2):
        return _incomplete_beta(a, b, x, rest)
    return 1 - _incomplete_beta(b, a, rest, x)


def student_quantile(df: float) -> float:
    """The t with P(T <= t) = .975, for any real df >= 1 (Welch's is not whole)."""
    log_density_at_0 = (
        math.lgamma((df + 1) / 2) - math.lgamma(df / 2) - math.log(math.pi * df) / 2
    )
    # Newton's method from the normal quantile. p is convex in t > 0 and the start is below
    # the root, so that no step goes beyond it.
    t = 1.95
    for _ in range(MOST_STEPS):
        density = math.exp(log_density_at_0 - (df + 1) / 2 * math.log1p(t * t / df))
        step = (student_p(t, df) - 0.05) / (2 * density)
        t += step
        if abs(step) <= 1e-14 * t:
            break
    return t


def _incomplete_beta(a: float, b: float, x: float, rest: float) -> float:
    """The regularised incomplete beta function I_x(a, b); `rest` is 1 - x.

    Its continued fraction (NIST Digital Library of Mathematical Functions, 8.17.22)
    converges fast where x <= (a + 1) / (a + b + 2), as here.
    """
    if x == 0:
        return 0.0
    fraction = 1.0
    for m in range(FRACTION_TERMS, -1, -1):
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        fraction = 1 + odd / fraction
        if m:
            even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
            fraction = 1 + even / fraction
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    return math.exp(a * math.log(x) + b * math.log(rest) - log_beta) / (a * fraction)
