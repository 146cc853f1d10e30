"""What telling a word takes: yes-or-no decisions, each about a row of the output matrix."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.models.word2vec.sampling import alias_table
from seqloom.text.codes import huffman_codes


class Decisions(NamedTuple):
    """The decisions that belong to each word, and how noise words are drawn beside them.

    A tuple, for the compiled loops take it as it is.
    """

    starts: NDArray[np.int64]
    """Those of word w are from starts[w] to starts[w + 1]. [V + 1]"""
    path: NDArray[np.int32]
    """Their rows."""
    answers: NDArray[np.float32]
    """The right answers: 1 for yes, -1 for no."""
    longest: int
    """The most that a word has."""
    shares: NDArray[np.uint64]
    """The table of noise words. [V]"""
    others: NDArray[np.int32]
    negatives: int
    """How many noise words are drawn, to each of which the answer is no."""


def noise_decisions(counts: NDArray[np.int64], power: float, negatives: int) -> Decisions:
    """Negative sampling: is it this word? Yes; and no for words drawn with chances ∝ count^power."""
    words = len(counts)
    weights = np.where(counts > 0, np.maximum(counts, 1).astype(np.float64) ** power, 0.0)
    every = np.arange(words + 1, dtype=np.int64)
    ones = np.ones(words, np.float32)
    return Decisions(every, every[:-1].astype(np.int32), ones, 1, *alias_table(weights), negatives)


def tree_decisions(counts: NDArray[np.int64]) -> Decisions:
    """A Huffman tree: left at this node? On the way from the root to the word."""
    codes = huffman_codes(counts)
    inside = np.arange(codes.nodes.shape[1]) < codes.lengths[:, None]
    starts = np.append(0, codes.lengths.cumsum())
    answers = np.where(codes.turns[inside], -1.0, 1.0).astype(np.float32)
    nothing = np.zeros(len(counts), np.uint64), np.zeros(len(counts), np.int32)
    return Decisions(starts, codes.nodes[inside].astype(np.int32), answers, int(codes.lengths.max()), *nothing, 0)
