"""Chances as whole numbers below 2^32, to be held against 32 random bits."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.compiling import compiled

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
    shares = weights / weights.sum() * len(weights)
    others = np.arange(len(weights), dtype=np.int32)
    _fill(shares, others, np.argsort(shares, kind="stable"))
    return (np.minimum(shares, 1.0) * ALL).astype(np.uint64), others


@compiled
def _fill(shares: NDArray[Any], others: NDArray[Any], order: NDArray[Any]) -> None:
    """Each word with less than a column takes the rest of its own from the largest that has some to give."""
    giver = len(order) - 1
    taker = 0
    waiting = np.empty(len(order), np.int64)  # givers that have come down below one column
    size = 0
    while giver >= 0 and shares[order[giver]] > 1.0:
        if size:
            size -= 1
            small = waiting[size]
        elif taker < giver and shares[order[taker]] < 1.0:
            small = order[taker]
            taker += 1
        else:
            break
        large = order[giver]
        others[small] = large
        shares[large] -= 1.0 - shares[small]
        if shares[large] < 1.0:
            waiting[size] = large
            size += 1
            giver -= 1
        elif shares[large] == 1.0:
            giver -= 1
