"""Zipf's law: the frequency of a word falls as a power of its rank."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import DataError

POINTS_PER_DECADE = 20


@dataclass(frozen=True)
class ZipfFit:
    """The line log n_i = -α log i + c through the frequencies n_i at ranks i = 1, 2, ... (natural logarithms)."""

    exponent: float
    """α; about 1 for words of natural text, smaller for n-grams."""
    intercept: float
    """c"""
    r_squared: float
    """The part of the variance of log n that the line explains, at the ranks it was fitted to."""
    ranks: tuple[int, ...]
    """The ranks the line was fitted to."""

    def frequency(self, rank: NDArray[np.float64] | float) -> NDArray[np.float64]:
        """What the law says a word of this rank is seen: e^c / i^α."""
        return np.exp(self.intercept - self.exponent * np.log(rank))


def zipf_exponent(counts: Iterable[float]) -> ZipfFit:
    """Fit Zipf's law to the counts of words (in any order) by least squares on logarithms.

    The line is fitted to ranks spaced evenly in log i, not to all ranks. Half of the distinct words of a text are
    seen once: a fit to all ranks would be a fit to that flat step at the end. With log-spaced ranks each decade of
    the plot weighs the same.
    """
    frequencies = np.sort(np.fromiter(counts, dtype=np.float64))[::-1]
    frequencies = frequencies[frequencies > 0]
    if len(frequencies) < 2:
        raise DataError("Zipf's law needs at least two distinct words; give more text")
    points = max(2, int(POINTS_PER_DECADE * np.log10(len(frequencies))) + 1)
    ranks = np.unique(np.geomspace(1, len(frequencies), points).round().astype(np.int64))
    x, y = np.log(ranks), np.log(frequencies[ranks - 1])
    slope = np.sum((x - x.mean()) * (y - y.mean())) / np.sum((x - x.mean()) ** 2)
    intercept = y.mean() - slope * x.mean()
    residual = np.sum((y - intercept - slope * x) ** 2)
    total = np.sum((y - y.mean()) ** 2)
    r_squared = 1.0 - residual / total if total > 0 else 1.0  # all counts equal: a flat line is exact
    return ZipfFit(float(-slope), float(intercept), float(r_squared), tuple(ranks.tolist()))
