"""Is B better than A, or was it luck? Paired bootstrap resampling (Koehn 2004).

Several trainings of each system, with seeds of their own, are given one after the other: all sentences by the first,
then all by the second. What they made of one sentence is no news of other sentences, so it is drawn together.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.errors import ConfigError, DataError
from seqloom.metrics.bleu import BleuCounts, BleuFormula, BleuOptions
from seqloom.metrics.ngram_counts import Tokens


@dataclass(frozen=True)
class PairedBootstrap:
    """How much better the second system is than the first, and how sure that is."""

    first: float
    second: float
    difference: float
    """second - first, on the sentences as they are."""
    mean_difference: float
    """The mean over the resamples."""
    low: float
    high: float
    """The middle 95 % of the resamples have a difference between `low` and `high`."""
    p: float
    """The share of resamples in which the second is *not* better: below 0.05, it is better at the 95 % level."""
    resamples: int


def paired_bootstrap(
    first: ArrayLike, second: ArrayLike, resamples: int = 1000, seed: int = 0, trainings: int = 1
) -> PairedBootstrap:
    """Compare two systems by a score that is a mean over sentences: sentence values of both, for the same sentences."""
    ours, theirs = (np.asarray(values, dtype=float).reshape(-1, 1) for values in (first, second))
    return _compare(ours, theirs, lambda sums: sums[:, 0] / len(ours), resamples, seed, trainings)


def paired_bootstrap_bleu(
    first: Sequence[Tokens],
    second: Sequence[Tokens],
    references: Sequence[Sequence[Tokens]],
    resamples: int = 1000,
    seed: int = 0,
    trainings: int = 1,
    **options: Unpack[BleuOptions],
) -> PairedBootstrap:
    """Compare two systems by corpus BLEU: the hypotheses of both, and the references of each of them."""
    formula = BleuFormula(**options)

    def score(sums: NDArray[Any]) -> NDArray[np.float64]:
        matches, totals = np.split(sums[:, 2:], 2, axis=1)
        return formula.scores(BleuCounts(matches, totals, sums[:, 0], sums[:, 1]))

    counts = [formula.count(hypotheses, references) for hypotheses in (first, second)]
    ours, theirs = (
        np.column_stack([each.hypothesis_lengths, each.reference_lengths, each.matches, each.totals]).astype(float)
        for each in counts
    )
    return _compare(ours, theirs, score, resamples, seed, trainings)


def _compare(
    first: NDArray[np.float64],
    second: NDArray[np.float64],
    score: Callable[[NDArray[np.float64]], NDArray[np.float64]],
    resamples: int,
    seed: int,
    trainings: int,
) -> PairedBootstrap:
    """`score` takes the sums of rows, one row per sentence and training. Every resample draws as many sentences as
    there are, with replacement, the same ones for both systems.
    """
    if len(first) != len(second):
        raise DataError(f"the systems must be scored on the same sentences, not on {len(first):,} and {len(second):,}")
    if not len(first):
        raise DataError("there are no sentences to compare")
    if resamples < 1:
        raise ConfigError(f"resamples is {resamples}: at least one is needed, 1,000 are usual")
    if trainings < 1:
        raise ConfigError(f"trainings is {trainings}: at least one is needed")
    if len(first) % trainings:
        raise DataError(f"{len(first):,} sentences are not those of {trainings} trainings: every one has as many")
    generator = np.random.default_rng(seed)
    both = np.hstack([first, second]).reshape(trainings, len(first) // trainings, -1).sum(0)
    sums = np.empty((resamples, both.shape[1]))
    for resample in sums:
        drawn = generator.integers(len(both), size=len(both))
        resample[:] = np.bincount(drawn, minlength=len(both)) @ both  # how often each sentence was drawn, times it
    differences = score(sums[:, first.shape[1] :]) - score(sums[:, : first.shape[1]])
    observed = [float(score(rows.sum(0, keepdims=True))[0]) for rows in (first, second)]
    low, high = np.quantile(differences, [0.025, 0.975]).tolist()
    # One added to both counts: no number of resamples shows that p is 0.
    p = (1 + int((differences <= 0).sum())) / (1 + resamples)
    return PairedBootstrap(
        first=observed[0],
        second=observed[1],
        difference=observed[1] - observed[0],
        mean_difference=float(differences.mean()),
        low=low,
        high=high,
        p=p,
        resamples=resamples,
    )
