"""Is a model better, or had it luck with its seed? Means and deviations of a few readings, and Welch's t-test."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

LEVEL = 0.05
"""Differences that chance makes as large in at least this share of cases are not told apart."""


@dataclass(frozen=True)
class Readings:
    """What was measured of a model, as a sample of all that other seeds would have given."""

    mean: float
    deviation: float | None = None
    """Of the sample, n - 1 below the sum of squares. One reading has none."""
    number: float = 1
    """Infinite for a model without chance in it: its value is known, and its deviation is 0."""

    @classmethod
    def of(cls, values: Sequence[float], deterministic: bool = False) -> Readings:
        """Those of one seed after another; a model without chance in it needs one."""
        if deterministic:
            return cls(values[0], 0.0, math.inf)
        mean = statistics.mean(values)  # of equal values, exactly theirs
        if len(values) < 2 or not math.isfinite(mean):
            return cls(mean, None, len(values))
        return cls(mean, statistics.stdev(values), len(values))

    @property
    def variance_of_mean(self) -> float | None:
        """s² / n"""
        return None if self.deviation is None else self.deviation**2 / self.number


def welch(one: Readings, other: Readings) -> float | None:
    """How often chance alone sets two means so far apart (Welch 1947): p of the two-sided t-test, or None where a
    deviation is missing.

    t = (m₁ - m₂) / √(v₁ + v₂) with v = s² / n, under a t distribution of (v₁ + v₂)² / Σ v² / (n - 1) degrees of
    freedom. A value that is known exactly adds no variance: what is left is the t-test of one sample.
    """
    first, second = one.variance_of_mean, other.variance_of_mean
    if first is None or second is None or not math.isfinite(difference := one.mean - other.mean):
        return None
    variance = first + second
    largest = max(first, second)
    if not largest:
        return float(difference == 0)
    shares = ((first / largest) ** 2 / (one.number - 1), (second / largest) ** 2 / (other.number - 1))
    return two_sided_p(difference / math.sqrt(variance), (variance / largest) ** 2 / sum(shares))


def two_sided_p(t: float, freedom: float) -> float:
    """P(|T| ≥ |t|) under Student's t distribution: I_x(ν/2, 1/2) with x = ν / (ν + t²)."""
    square = t * t
    if square > freedom:
        return incomplete_beta(freedom / (freedom + square), freedom / 2, 0.5)
    return 1 - incomplete_beta(square / (freedom + square), 0.5, freedom / 2)  # exact where t is small


def incomplete_beta(x: float, a: float, b: float) -> float:
    """The regularised incomplete beta function I_x(a, b), by its continued fraction (DLMF 8.17.22)."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):  # there it converges slowly, and I_x(a, b) = 1 - I_{1-x}(b, a)
        return 1 - incomplete_beta(1 - x, b, a)
    log_factor = a * math.log(x) + b * math.log1p(-x) - math.log(a)
    log_factor += math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return math.exp(log_factor) / _fraction(x, a, b)


def _fraction(x: float, a: float, b: float, steps: int = 10_000) -> float:
    """1 + d₁ / (1 + d₂ / (1 + ...)), from the top down by the method of Lentz (1976)."""
    tiny = 1e-300
    value, numerator, denominator = 1.0, 1.0, 0.0
    for step in range(1, steps):
        m = step // 2
        if step % 2:
            term = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        else:
            term = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        denominator = 1 / (1 + term * denominator or tiny)
        numerator = 1 + term / numerator or tiny
        value *= numerator * denominator
        if abs(numerator * denominator - 1) < 1e-15:
            break
    return value
