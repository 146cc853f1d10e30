"""Chances as whole numbers below 2^32, to be held against 32 random bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

ALL = 0xFFFFFFFF


def kept_shares(counts: NDArray[np.int64], threshold: float) -> NDArray[np.uint64]:
    """How much of each word sub-sampling keeps: (√(f/t) + 1) · t/f of a word whose share of the text is f.

    That is what word2vec.c does; the paper has √(t/f). A threshold of 0 keeps all.
    """
    if threshold == 0:
        return np.full(len(counts), ALL, np.uint64)
    ratio = threshold * counts.sum() / np.maximum(counts, 1)
    return (np.minimum(1.0, np.sqrt(ratio) + ratio) * ALL).astype(np.uint64)


def alias_table(weights: NDArray[np.float64]) -> tuple[NDArray[np.uint64], NDArray[np.int32]]:
    """Columns of equal width, each of one word below a share and of another above it (Walker 1977, Vose 1991).

    A column at random, and 32 random bits against its share, draw a word with a chance in proportion to its weight.
    """
    from seqloom.models.word2vec.alias import fill_columns  # not before there is work: it loads a compiler

    shares = weights / weights.sum() * len(weights)
    others = np.arange(len(weights), dtype=np.int32)
    fill_columns(shares, others, np.argsort(shares, kind="stable"))
    return (np.minimum(shares, 1.0) * ALL).astype(np.uint64), others
