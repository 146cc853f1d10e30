"""How counts become probabilities: what is taken from the n-grams that were seen, for those that were not.

Every method here but stupid back-off is one interpolation with the next lower order, for a context h and h' without its
first word:

    p(w | h) = (a(hw) - d(a(hw)) + g(h) p(w | h')) / (Σ_v a(hv) + ε),    g(h) = Σ_v d(a(hv)) + ε

Below the unigrams stands the uniform distribution over the vocabulary. They differ in what is counted (a), what is
discounted (d) and what is added (ε).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.config.schema.ngram import NgramModelConfig

FALLBACK = (0.5, 1.0, 1.5)
"""Discounts where the counts of counts give none, as KenLM's `--discount_fallback`."""


@dataclass(frozen=True)
class Rule:
    """d and ε for the n-grams of one order."""

    discounts: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Taken from a count of 1, of 2, and of 3 or more."""
    added: float = 0.0
    """ε: what the lower order's probability weighs, in counts."""
    fallback: bool = False
    """Whether the counts of counts gave no discounts."""

    def discounted(self, counts: NDArray[np.integer]) -> NDArray[np.float64]:
        """d of each count."""
        table = np.array([0.0, *self.discounts])
        return table[np.minimum(counts, 3)]


def rule(config: NgramModelConfig, order: int, counts_of_counts: Sequence[int], vocabulary: int) -> Rule:
    """The rule of one order. `counts_of_counts[k - 1]`: how many of its n-grams have a count of k, for k up to 4."""
    if config.smoothing == "additive":  # (c + δ) / (Σ c + δ V) is ε = δ V towards 1/V
        return Rule(added=config.delta * vocabulary)
    if config.smoothing == "laplace":
        return Rule(added=_of_order(config.epsilon, order))
    if config.smoothing in ("absolute", "kneser-ney"):
        if config.discounts:
            return Rule((_of_order(config.discounts, order),) * 3)
        return _one_discount(counts_of_counts)
    if config.smoothing == "modified-kneser-ney":
        return _three_discounts(counts_of_counts)
    return Rule()


def _one_discount(counts_of_counts: Sequence[int]) -> Rule:
    """D = n_1 / (n_1 + 2 n_2)  (Ney, Essen & Kneser 1994)"""
    ones, twos = counts_of_counts[:2]
    if not ones or not twos:
        return Rule((FALLBACK[0],) * 3, fallback=True)
    return Rule((ones / (ones + 2 * twos),) * 3)


def _three_discounts(counts_of_counts: Sequence[int]) -> Rule:
    """D_k = k - (k + 1) Y n_{k+1} / n_k,  Y = n_1 / (n_1 + 2 n_2)  (Chen & Goodman 1998, equation 26)"""
    n = (0, *counts_of_counts)
    if all(n[1:4]):
        common = n[1] / (n[1] + 2 * n[2])
        one, two, three = (k - (k + 1) * common * n[k + 1] / n[k] for k in (1, 2, 3))
        if 0 <= one <= 1 and 0 <= two <= 2 and 0 <= three <= 3:
            return Rule((one, two, three))
    return Rule(FALLBACK, fallback=True)


def _of_order(values: float | Sequence[float], order: int) -> float:
    """The value for an order; the last one given holds for all higher orders."""
    listed = [values] if isinstance(values, int | float) else values
    return listed[min(order, len(listed)) - 1]
