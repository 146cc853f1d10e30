"""From token ids to the counts of all n-grams.

Text is a run of units, each w_1 ... w_m `<eos>`, read as `<bos>` w_1 ... w_m `<eos>`. A *window* begins at every token
but `<eos>` and holds it and the tokens after it, N in all, or as many as there are up to `<eos>`. Sort the windows, and
every n-gram is a stretch of windows that begin alike; its count is the length of that stretch.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from seqloom.models.ngram.parallel import each
from seqloom.models.ngram.trie import Trie
from seqloom.models.ngram.workspace import Workspace
from seqloom.text.special import BOS, EOS

Tokens = NDArray[np.integer]

COMPILED = 1 << 18
"""From this many tokens on, counting is done by compiled code; below, numpy is done before the compiler would be."""
TASKS = 64  # pieces of work for threads to share


@dataclass(frozen=True)
class Counts:
    """How often each n-gram was seen."""

    trie: Trie
    counts: NDArray[np.integer]
    """Of every node. `<bos>` and `<eos>` are seen once per unit."""
    appearance: NDArray[np.integer] | None = None
    """Where each token was seen first, any numbers that rise along the text; -1 for those that were not seen."""

    @property
    def tokens(self) -> int:
        """How many tokens were counted, the `<eos>` of each unit among them."""
        return int(self.counts[: self.trie.vocabulary_size].sum() - self.counts[BOS])


def count(tokens: Tokens, order: int, vocabulary_size: int, space: Workspace | None = None) -> Counts:
    """Count the n-grams of up to `order` tokens in units that each end in `<eos>`."""
    if len(tokens) < COMPILED:
        appearance = np.full(vocabulary_size, -1)
        seen, first = np.unique(tokens, return_index=True)
        appearance[seen] = first
        return counts_of_windows(*sorted_windows(tokens, order), vocabulary_size, appearance)
    return count_compiled(tokens, order, vocabulary_size, space or Workspace(np.inf))


# --------------------------------------------------------------------------------------------------------- with numpy


def sorted_windows(tokens: Tokens, order: int) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """The distinct windows [windows, order] in order, -1 for what lies beyond `<eos>`, and how often each was seen."""
    stream = np.concatenate([[EOS], tokens]).astype(np.int32)
    windows = np.full((len(tokens), order), -1, np.int32)
    windows[:, 0] = np.where(stream[:-1] == EOS, BOS, stream[:-1])
    inside = np.ones(len(tokens), bool)
    for column in range(1, order):
        reaching = max(0, len(tokens) + 1 - column)
        windows[:reaching, column] = np.where(inside[:reaching], stream[column:], -1)
        inside &= (windows[:, column] != EOS) & (windows[:, column] >= 0)
    windows = windows[np.lexsort(windows.T[::-1])]
    starts = np.flatnonzero(_changes(windows))
    return windows[starts], np.diff(np.append(starts, len(windows)))


def counts_of_windows(
    windows: NDArray[np.int32],
    seen: NDArray[np.integer],
    vocabulary_size: int,
    appearance: NDArray[np.integer] | None = None,
) -> Counts:
    """Counts from sorted windows and how often each was seen."""
    order = windows.shape[1]
    totals = np.concatenate([[0], np.cumsum(seen)])
    words: list[NDArray[np.integer]] = [np.arange(vocabulary_size)]
    unigrams = np.bincount(windows[:, 0], seen, vocabulary_size).astype(np.int64)
    unigrams[EOS] = unigrams[BOS]
    counts = [unigrams]
    children: list[NDArray[np.integer]] = []
    parents = windows[:, 0].astype(np.int64)  # the node of each window's beginning, numbered within its level
    for column in range(1, order):
        starts = np.flatnonzero(_changes(windows[:, : column + 1]))
        ends = np.append(starts[1:], len(windows))
        real = windows[starts, column] >= 0
        starts, ends = starts[real], ends[real]
        children.append(np.bincount(parents[starts], minlength=len(words[-1])))
        words.append(windows[starts, column])
        counts.append(totals[ends] - totals[starts])
        new = np.zeros(len(windows), np.int64)
        new[starts] = 1
        parents = np.cumsum(new) - 1
    return Counts(Trie.of_levels(words, children), np.concatenate(counts), appearance)


def _changes(windows: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Which windows differ from the one before."""
    changes = np.ones(len(windows), bool)
    changes[1:] = (windows[1:] != windows[:-1]).any(axis=1)
    return changes


# ----------------------------------------------------------------------------------------------------------- compiled


def count_compiled(tokens: Tokens, order: int, vocabulary_size: int, space: Workspace) -> Counts:
    """As `count`, for large texts: windows are sorted as positions in the text, and the trie is written in one walk.

    The work is cut into ranges of first tokens. In every order the n-grams of one range come before those of the next,
    so that each range is sorted and written by itself, and what they write lies side by side.
    """
    from seqloom.models.ngram import kernels

    stream = space.array(len(tokens) + 1, np.int32)
    stream[0], stream[1:] = EOS, tokens
    heads = np.zeros(vocabulary_size, np.int64)
    kernels.count_first_tokens(stream, heads)
    starts = np.concatenate([[0], np.cumsum(heads)])
    positions = space.array(len(tokens), np.int32 if len(tokens) < 1 << 31 else np.int64)
    kernels.place_by_first_token(stream, starts, positions)
    appearance = np.where(heads > 0, positions[np.minimum(starts[:-1], len(positions) - 1)], -1)
    appearance[[BOS, EOS]] = -1, 0

    shared = space.array(len(tokens), np.uint8)
    bits = (vocabulary_size - 1).bit_length()
    tasks = _cut(starts)
    sizes = np.zeros((len(tasks), order), np.int64)

    def sort(task: int) -> None:
        kernels.sort_tokens(stream, positions, starts, *tasks[task], order, bits, shared, sizes[task])

    each(sort, range(len(tasks)))

    totals = sizes.sum(axis=0)
    totals[0] = vocabulary_size
    levels = (0, *np.cumsum(totals).tolist())
    words = space.array(levels[-1], np.int32)
    words[:vocabulary_size] = np.arange(vocabulary_size)
    first = space.array(levels[-2] + 1, np.int32 if levels[-1] < 1 << 31 else np.int64)
    first[-1] = levels[-1]
    counts = space.array(levels[-1], np.int32 if len(tokens) < 1 << 31 else np.int64)
    ends = np.array(levels[:-1]) + np.cumsum(sizes, axis=0) - sizes  # where each range writes the n-grams of each order

    def fill(task: int) -> None:
        kernels.fill_trie(stream, positions, starts, *tasks[task], order, shared, ends[task], words, first, counts)

    each(fill, range(len(tasks)))
    counts[EOS] = counts[BOS]
    return Counts(Trie(words, first, levels), counts, appearance)


def _cut(starts: NDArray[np.int64]) -> list[tuple[int, int]]:
    """Ranges of tokens with about as many windows each."""
    tokens = len(starts) - 1
    cuts = np.unique(np.searchsorted(starts, np.linspace(0, starts[-1], TASKS + 1)[1:-1]))
    bounds = [0, *(cut for cut in cuts.tolist() if 0 < cut < tokens), tokens]
    return list(pairwise(bounds))
