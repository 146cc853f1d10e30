"""Batches of items of similar length under a token budget: sentences, labelled or not.

As with pairs, the cuts depend on the lengths alone, so every epoch has the same number of batches; which items of a
length stand together, and the order of the batches, is drawn anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from seqloom.data.buckets import batch_bounds, evened_bounds

Numbers = NDArray[np.int64]


class Collection(Protocol):
    """Items by number, of which batches can be made."""

    @property
    def lengths(self) -> Numbers:
        """How long each item is."""

    def targets(self, numbers: Numbers) -> int:
        """How many predictions these items ask for."""

    def batch(self, numbers: Numbers) -> Any:
        """The batch of these items."""


@dataclass(frozen=True)
class SharedItems:
    """One batch for each of several processes, all of one step; put together when a process takes its own."""

    collection: Collection
    parts: list[Numbers]

    @cached_property
    def tokens(self) -> int:
        """How many predictions all processes together have to make."""
        return sum(map(self.collection.targets, self.parts))

    def rows(self, first: int, last: int) -> Any:
        """The batches of the processes from `first` up to `last`, as one."""
        return self.collection.batch(np.concatenate(self.parts[first:last]))


class LengthBatches:
    """An endless stream of batches for training: every item once an epoch, no more than `batch_tokens` in a batch.

    All randomness follows from (seed, epoch), so the position (epoch, index) is all there is to save. With several
    processes a batch is `SharedItems`, of which each has another part.
    """

    def __init__(self, collection: Collection, batch_tokens: int, seed: int = 0, processes: int = 1) -> None:
        self.collection, self.seed = collection, seed
        self.batch_size = processes  # what the trainer divides among processes: whole batches
        self._lengths = collection.lengths
        bounds = batch_bounds(np.sort(self._lengths)[::-1], batch_tokens)
        self._bounds = evened_bounds(bounds, processes, batch_tokens)
        self.batches_per_epoch = (len(self._bounds) - 1) // processes
        self.epoch = self.index = 0
        self._shuffle()

    def _shuffle(self) -> None:
        generator = np.random.default_rng([self.seed, self.epoch])
        self._numbers = np.lexsort((generator.random(len(self._lengths)), -self._lengths))
        self._order = generator.permutation(len(self._bounds) - 1)

    def __iter__(self) -> LengthBatches:
        return self

    def __next__(self) -> Any:
        if self.index >= self.batches_per_epoch:
            self.epoch, self.index = self.epoch + 1, 0
            self._shuffle()
        first = self.index * self.batch_size
        self.index += 1
        chosen = self._order[first : first + self.batch_size]
        parts = [self._numbers[self._bounds[batch] : self._bounds[batch + 1]] for batch in chosen]
        return self.collection.batch(parts[0]) if self.batch_size == 1 else SharedItems(self.collection, parts)

    def position(self) -> dict[str, int]:
        """Where the next batch comes from."""
        return {"epoch": self.epoch, "index": self.index}

    def seek(self, position: dict[str, int]) -> None:
        """Go on from a saved position."""
        self.epoch, self.index = position["epoch"], position["index"]
        self._shuffle()


def sorted_items(collection: Collection, batch_tokens: int) -> Iterator[tuple[Numbers, Any]]:
    """All items once, longest first, for evaluation: (their numbers, their batch)."""
    lengths = collection.lengths
    order = np.argsort(-lengths, kind="stable")
    for first, last in pairwise(batch_bounds(lengths[order], batch_tokens)):
        yield order[first:last], collection.batch(order[first:last])
