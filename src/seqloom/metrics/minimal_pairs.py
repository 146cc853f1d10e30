"""What a model knows of a language: how often it finds the good sentence of a minimal pair the likelier one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from seqloom.errors import DataError

CHANCE = 50.0
"""The accuracy, in per cent, of tossing a coin."""
ROUNDING = 1e-6  # two sums of the same numbers, in single precision and in another order, are as far apart at most


@dataclass(frozen=True)
class Preferences:
    """How often a model prefers the good one of two sentences, in per cent (Warstadt et al. 2020, BLiMP):

        accuracy = 100 · |{i : log p(good_i) > log p(bad_i)}| / |{i}|

    of whole sentences, not divided by their lengths. A tie is wrong: who cannot tell them apart does not know. Numbers
    that differ by less than rounding does are tied, so that two sentences that a model reads as the same tokens are,
    wherever they stood in a batch.
    """

    accuracies: Mapping[str, float]
    """Of each phenomenon, by the alphabet."""
    counts: Mapping[str, int]
    """How many pairs each has."""
    ties: int
    """Among all pairs."""

    @classmethod
    def of(cls, good: ArrayLike, bad: ArrayLike, phenomena: Sequence[str]) -> Preferences:
        """From log p of the good sentences, log p of the bad ones, and what each pair is about."""
        better, worse = np.asarray(good, np.float64), np.asarray(bad, np.float64)
        if not len(better) == len(worse) == len(phenomena):
            raise DataError(f"{len(better)} good and {len(worse)} bad sentences, {len(phenomena)} phenomena: not pairs")
        if not len(better):
            raise DataError("there are no minimal pairs to judge")
        both_impossible = (better == -np.inf) & (worse == -np.inf)
        tied = np.isclose(better, worse, rtol=ROUNDING, atol=0.0) | both_impossible
        right = (better > worse) & ~tied
        names, places = np.unique(np.asarray(phenomena, dtype=object), return_inverse=True)
        counts = np.bincount(places)
        shares = 100 * np.bincount(places, right) / counts
        listed = names.tolist()
        return cls(
            dict(zip(listed, shares.tolist(), strict=True)),
            dict(zip(listed, counts.tolist(), strict=True)),
            int(tied.sum()),
        )

    @property
    def pairs(self) -> int:
        """How many there are."""
        return sum(self.counts.values())

    @property
    def accuracy(self) -> float:
        """Over all pairs, each counting the same."""
        return sum(self.accuracies[name] * count for name, count in self.counts.items()) / self.pairs

    @property
    def mean(self) -> float:
        """Over all phenomena, each counting the same."""
        return sum(self.accuracies.values()) / len(self.accuracies)
