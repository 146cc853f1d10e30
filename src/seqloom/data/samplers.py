"""Which examples stand together in a batch: shuffled ones, windows of a text, sequences of similar length."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from seqloom.data.batch import Numbers
from seqloom.errors import DataError

LOOSENESS = 2.0  # tokens of the shorter side: more mixes the batches of one length better, less pads less


class Sampler(ABC):
    """Draws the batches of one epoch after another, equally many each time."""

    batch_size: int
    """What the trainer divides among processes: the rows of a batch, or the batches of a step."""
    batches_per_epoch: int

    @abstractmethod
    def epoch(self, random: np.random.Generator) -> Sequence[Numbers | list[Numbers]]:
        """The numbers of the examples of each batch; a list of them has a batch for each process."""


class OrderedSampler(Sampler):
    """One that also knows an order of its own for all examples, each once: for evaluation."""

    examples: int
    """How many there are in an epoch."""

    @abstractmethod
    def in_order(self) -> list[Numbers]:
        """The batches of all examples."""


class Shuffled(Sampler):
    """Every example once an epoch, but for the last few that make no whole batch."""

    def __init__(self, count: int, batch_size: int) -> None:
        self.count = count
        self.batch_size = min(batch_size, count)
        self.batches_per_epoch = count // self.batch_size

    def epoch(self, random: np.random.Generator) -> Sequence[Numbers]:
        return _table(random.permutation(self.count), self.batches_per_epoch, self.batch_size)


class WindowSampler(Sampler):
    """Windows of so many tokens of a text, `batch_size` in a batch; a window is numbered by where it begins.

    Every epoch cuts the text at another random offset, so that windows do not always break at the same words.
    """

    def __init__(self, tokens: int, batch_size: int, length: int) -> None:
        self.tokens, self.batch_size, self.length = tokens, batch_size, length
        self.batches_per_epoch = max(0, tokens - length + 1) // length // batch_size  # the same at every offset
        if not self.batches_per_epoch:
            raise DataError(
                f"the training text has {tokens} tokens, too few for one batch of {batch_size} windows of {length} "
                f"tokens: use more text, or lower data.batch_size or data.length"
            )


class RandomWindows(WindowSampler):
    """Random sampling: windows side by side, in any order."""

    def epoch(self, random: np.random.Generator) -> Sequence[Numbers]:
        offset = random.integers(self.length)
        windows = random.permutation((self.tokens - self.length + 1) // self.length)
        return _table(offset + windows * self.length, self.batches_per_epoch, self.batch_size)


class SequentialWindows(WindowSampler):
    """Sequential partitioning: `batch_size` long rows of a text side by side, read in order, window after window."""

    def epoch(self, random: np.random.Generator) -> Sequence[Numbers]:
        offset = int(random.integers(self.length))
        row_length = (self.tokens - offset) // self.batch_size
        rows = offset + np.arange(self.batch_size) * row_length
        windows = np.arange(self.batches_per_epoch) * self.length
        return windows[:, None] + rows  # type: ignore[return-value] # an array is a sequence of its rows


class Buckets(OrderedSampler):
    """Every sequence once an epoch, with others of similar length, no more than `batch_tokens` in a batch.

    Sequences are ordered by length and cut into batches, each as many rows as fit when every row is padded to the
    longest; only a sequence that is longer by itself exceeds `batch_tokens`, alone. The cuts depend on the lengths
    alone, so every epoch has the same number of batches; which sequences of a length stand together, and the order of
    the batches, is drawn anew. With several processes each has a batch of its own in every step.
    """

    def __init__(self, lengths: NDArray[np.integer], batch_tokens: int, processes: int = 1) -> None:
        self.lengths, self.examples = lengths, len(lengths)
        self.batch_size = processes  # what the trainer divides among processes: whole batches
        self._bounds = _evened(_bounds(np.sort(lengths)[::-1], batch_tokens), processes, batch_tokens)
        self.batches_per_epoch = (len(self._bounds) - 1) // processes

    def epoch(self, random: np.random.Generator) -> Sequence[Numbers | list[Numbers]]:
        batches = self._cut(self._shuffled(random))
        order = random.permutation(len(batches)).tolist()
        drawn = [batches[number] for number in order]
        if self.batch_size == 1:
            return drawn
        return [drawn[first : first + self.batch_size] for first in range(0, len(drawn), self.batch_size)]

    def in_order(self) -> list[Numbers]:
        """The batches of all sequences, longest first: for evaluation."""
        return self._cut(np.argsort(-self.lengths, kind="stable"))

    def _shuffled(self, random: np.random.Generator) -> Numbers:
        """All sequences, longest first, those of a length in an order that is drawn."""
        return np.lexsort((random.random(len(self.lengths)), -self.lengths))

    def _cut(self, numbers: Numbers) -> list[Numbers]:
        return [numbers[first:last] for first, last in pairwise(self._bounds)]


class PairBuckets(Buckets):
    """Buckets of pairs, ordered by the length of the longer side, then by how much the source is longer.

    The second order runs forwards for even lengths and backwards for odd ones, so that neighbours across the border of
    two lengths are alike on their shorter side too. In training it is loosened, so that batches differ.
    """

    def __init__(
        self, source: NDArray[np.int32], target: NDArray[np.int32], batch_tokens: int, processes: int = 1
    ) -> None:
        longer = np.maximum(source, target)
        self._lean = (source - target) * (1 - 2 * (longer % 2))
        super().__init__(longer, batch_tokens, processes)

    def in_order(self) -> list[Numbers]:
        return self._cut(np.lexsort((self._lean, -self.lengths)))

    def _shuffled(self, random: np.random.Generator) -> Numbers:
        lean = self._lean + LOOSENESS * random.random(len(self._lean), np.float32)
        return np.lexsort((lean, -self.lengths))


def _table(numbers: Numbers, batches: int, batch_size: int) -> Sequence[Numbers]:
    """[batches, batch_size]; what is left over makes no batch."""
    return numbers[: batches * batch_size].reshape(batches, batch_size)  # type: ignore[return-value]


def _bounds(falling: NDArray[np.integer], batch_tokens: int) -> list[int]:
    """Where batches begin, and the end: the first of a batch is its longest, so it says how many rows fit."""
    rows = np.maximum(1, batch_tokens // falling).tolist()
    bounds = [0]
    while bounds[-1] < len(rows):
        bounds.append(bounds[-1] + rows[bounds[-1]])
    bounds[-1] = len(rows)
    return bounds


def _evened(bounds: list[int], processes: int, batch_tokens: int) -> list[int]:
    """The bounds with the batches of most rows halved until every process has as many as the others."""
    evened = np.array(bounds)
    while (len(evened) - 1) % processes:
        rows = np.diff(evened)
        largest = int(rows.argmax())
        if rows[largest] == 1:
            raise DataError(
                f"{len(rows):,} sequences, each too long to share a batch of {batch_tokens} tokens with another, do "
                f"not divide among {processes} processes: make batches larger (data.batch_tokens or data.batch_size)"
            )
        evened = np.insert(evened, largest + 1, evened[largest] + rows[largest] // 2)
    return evened.tolist()
