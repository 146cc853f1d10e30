"""All n-grams of a model in one sorted tree of flat arrays."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.models.ngram.parallel import blocks, each

Ids = NDArray[np.int32]
Nodes = NDArray[np.integer]

LARGE = 1 << 19
"""From this many n-grams on, compiled loops are worth the seconds that compiling them takes once; below, numpy does."""
ABSENT = -1
"""Where an n-gram is looked for and not found."""
NO_HISTORY = -2
"""In place of a context that would reach back before a unit's beginning."""


@dataclass(frozen=True)
class Trie:
    """The n-grams of orders 1 to N, sorted within each order, one after the other in the same arrays.

    A node is one n-gram and its number is its place in `words`. The n-grams of order n are the nodes from `levels[n-1]`
    to `levels[n]`. The unigrams are the whole vocabulary: node i is token i. The n-grams that continue node i by one
    word lie side by side, from `first[i]` to `first[i + 1]`, in the order of that word; because one level begins where
    the one before it ends, this holds for the last node of a level too.
    """

    words: Ids
    """The last token of each n-gram."""
    first: Nodes
    """Where the continuations of each n-gram of the orders below N begin; and, last, where all nodes end."""
    levels: tuple[int, ...]
    """0, then where each order ends."""

    def check(self) -> None:
        """Refuse, with a ValueError, arrays that are not as this class says: the compiled loops trust every number."""
        levels = self.levels
        if len(levels) < 2 or levels != (0, *sorted(levels[1:])) or levels[-1] != len(self.words) or levels[1] < 0:
            raise ValueError(f"{len(self.words):,} n-grams are not of orders that end at {self.levels[1:]}")
        if len(self.first) != levels[-2] + 1 or not np.array_equal(self.first[list(levels[:-1])], levels[1:]):
            raise ValueError("the continuations of one order are not the n-grams of the next")
        if not np.array_equal(self.words[: levels[1]], np.arange(levels[1])):
            raise ValueError("the unigrams are not the vocabulary")
        each(self._check_continuations, blocks(slice(0, levels[-2])))

    def _check_continuations(self, nodes: slice) -> None:
        """What follows each node lies after what follows the one before, and is in the order of its words."""
        first = self.first[nodes.start : nodes.stop + 1]
        if first[0] < self.levels[1] or first[-1] > self.levels[-1] or (first[1:] < first[:-1]).any():
            raise ValueError("the continuations of an n-gram lie outside those of its order")
        words = self.words[first[0] : first[-1]]
        if not len(words):
            return
        if words.view(np.uint32).max() >= self.vocabulary_size:  # what is below 0 is large without a sign
            raise ValueError("an n-gram has a word that is not in the vocabulary")
        rising = np.append(True, words[1:] > words[:-1])
        begins = first[:-1] - first[0]
        rising[begins[begins < len(words)]] = True
        if not rising.all():
            raise ValueError("the continuations of an n-gram are not in the order of their words")

    @property
    def order(self) -> int:
        """N: the longest n-grams."""
        return len(self.levels) - 1

    @property
    def vocabulary_size(self) -> int:
        """How many unigrams there are."""
        return self.levels[1]

    def level(self, order: int) -> slice:
        """The nodes of one order."""
        return slice(self.levels[order - 1], self.levels[order])

    def sizes(self) -> list[int]:
        """How many n-grams there are of each order."""
        return np.diff(self.levels).tolist()

    def children(self, order: int) -> Nodes:
        """How many continuations each n-gram of an order below N has."""
        level = self.level(order)
        return np.diff(self.first[level.start : level.stop + 1])

    def find(self, parents: Nodes, words: Nodes) -> Nodes:
        """The node that continues each parent by a word; `ABSENT` where there is none, or no parent.

        A binary search over all of them at once.
        """
        known = (parents >= 0) & (parents < self.levels[-2])
        if not known.any():
            return np.full(len(parents), ABSENT)
        parents = np.where(known, parents, 0)
        low = self.first[parents].astype(np.int64)
        high = np.where(known, self.first[parents + 1], low).astype(np.int64)
        end = high
        last = len(self.words) - 1
        for _ in range(int((high - low).max(initial=0)).bit_length()):
            middle = (low + high) >> 1
            smaller = (self.words[np.minimum(middle, last)] < words) & (low < high)
            low = np.where(smaller, middle + 1, low)
            high = np.where(smaller, high, middle)
        present = (low < end) & (self.words[np.minimum(low, last)] == words)
        return np.where(present, low, ABSENT)

    def ngrams(self, order: int, nodes: Nodes | None = None) -> NDArray[np.int32]:
        """The n-grams of one order, or those of some of its nodes, spelled out: [n-grams, order]."""
        if nodes is None:
            nodes = np.arange(*self.level(order).indices(len(self.words))[:2])
        spelled = np.empty((len(nodes), order), np.int32)
        for length in range(order, 0, -1):
            spelled[:, length - 1] = self.words[nodes]
            if length > 1:
                # The parent is the last node whose continuations do not begin later. (One type: none is converted.)
                nodes = np.searchsorted(self.first, nodes.astype(self.first.dtype), "right") - 1
        return spelled

    def parents(self, order: int) -> Nodes:
        """For each n-gram of an order above 1, the node of all its words but the last."""
        above = self.level(order - 1)
        return np.repeat(np.arange(above.start, above.stop), self.children(order - 1))

    @classmethod
    def of_levels(cls, words: Sequence[Nodes], children: Sequence[Nodes]) -> Trie:
        """From the last words of each order, and how many continuations each n-gram below the highest has."""
        levels = (0, *np.cumsum([len(level) for level in words]).tolist())
        index = np.int32 if levels[-1] < np.iinfo(np.int32).max else np.int64
        first = np.full(levels[-2] + 1, levels[-1], index)
        if levels[-2]:
            first[0] = levels[1]
            np.cumsum(np.concatenate(children), out=first[1:])
            first[1:] += levels[1]
        return cls(np.concatenate(words).astype(np.int32), first, levels)
