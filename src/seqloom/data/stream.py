"""The endless stream of batches that a model is trained on: examples, put together by a sampler."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.batch import Numbers
from seqloom.data.samplers import Buckets, OrderedSampler, Sampler
from seqloom.progress import watched


@dataclass(frozen=True)
class Place:
    """Where a batch stands in a stream."""

    seed: int
    epoch: int
    index: int
    process: int = 0
    """The first of those that this batch is for, where each of several has one."""

    def random(self) -> np.random.Generator:
        """For what is drawn of this batch alone."""
        return np.random.default_rng([self.seed, self.epoch, self.index, *([self.process] if self.process else [])])


class Examples(ABC):
    """Examples by number, of which batches can be made."""

    @abstractmethod
    def batch(self, numbers: Numbers) -> Any:
        """The batch of these examples."""

    @abstractmethod
    def targets(self, numbers: Numbers) -> int:
        """How many predictions these examples ask for: the `tokens` of their batch."""

    def batch_at(self, place: Place, numbers: Numbers) -> Any:
        """The batch of these examples at a place of a stream; another one only where something is drawn each time."""
        return self.batch(numbers)

    def targets_at(self, place: Place, numbers: Numbers) -> int:
        """How many predictions that batch asks for."""
        return self.targets(numbers)


class Sequences(Examples):
    """Examples of different lengths: those of similar length share a batch."""

    @property
    @abstractmethod
    def lengths(self) -> NDArray[np.integer]:
        """How long each example is."""

    def __len__(self) -> int:
        return len(self.lengths)

    def buckets(self, batch_tokens: int, processes: int = 1) -> OrderedSampler:
        """Which of them stand together, no more than `batch_tokens` in a batch."""
        return Buckets(self.lengths, batch_tokens, processes)


@dataclass(frozen=True)
class SharedBatch:
    """One batch for each of several processes, all of one step; put together when a process takes its own."""

    examples: Examples
    parts: list[Numbers]
    place: Place

    @cached_property
    def tokens(self) -> int:
        """How many predictions all processes together have to make."""
        places = (replace(self.place, process=process) for process in range(len(self.parts)))
        return sum(map(self.examples.targets_at, places, self.parts))

    def rows(self, first: int, last: int) -> Any:
        """The batches of the processes from `first` up to `last`, as one."""
        place = replace(self.place, process=first)
        return self.examples.batch_at(place, np.concatenate(self.parts[first:last]))


class Stream:
    """An endless stream of batches for training, epoch after epoch.

    All randomness follows from (seed, epoch, index), so the position (epoch, index) is all there is to save.
    """

    def __init__(self, examples: Examples, sampler: Sampler, seed: int = 0) -> None:
        self.examples, self.sampler, self.seed = examples, sampler, seed
        self.batch_size, self.batches_per_epoch = sampler.batch_size, sampler.batches_per_epoch
        self.seek({"epoch": 0, "index": 0})

    def __iter__(self) -> Stream:
        return self

    def __next__(self) -> Any:
        """The next batch; where the sampler has one for each of several processes, a `SharedBatch`."""
        if self.index >= self.batches_per_epoch:
            self.seek({"epoch": self.epoch + 1, "index": 0})
        place = Place(self.seed, self.epoch, self.index)
        numbers = self._batches[self.index]
        self.index += 1
        if isinstance(numbers, list):
            return SharedBatch(self.examples, numbers, place)
        return self.examples.batch_at(place, numbers)

    def position(self) -> dict[str, int]:
        """Where the next batch comes from."""
        return {"epoch": self.epoch, "index": self.index}

    def seek(self, position: dict[str, int]) -> None:
        """Go on from a saved position."""
        self.epoch, self.index = position["epoch"], position["index"]
        self._batches = self.sampler.epoch(np.random.default_rng([self.seed, self.epoch]))

    def map(self, function: Callable[[Any], Any]) -> Stream:
        """The stream of what a function makes of each batch, from the same position on."""
        mapped = Stream(_Mapped(self.examples, function), self.sampler, self.seed)
        mapped.seek(self.position())
        return mapped


@dataclass(frozen=True)
class _Mapped(Examples):
    """What a function makes of the batches of examples."""

    examples: Examples
    function: Callable[[Any], Any]

    def batch(self, numbers: Numbers) -> Any:
        return self.function(self.examples.batch(numbers))

    def batch_at(self, place: Place, numbers: Numbers) -> Any:
        return self.function(self.examples.batch_at(place, numbers))

    def targets(self, numbers: Numbers) -> int:
        return self.batch(numbers).tokens  # the function may make another kind of batch

    def targets_at(self, place: Place, numbers: Numbers) -> int:
        return self.batch_at(place, numbers).tokens


def sorted_batches(examples: Sequences, batch_tokens: int) -> Iterator[tuple[Numbers, Any]]:
    """All examples once, longest first, for evaluation: (their numbers, their batch).

    Results come back in order with `results[numbers] = ...`.
    """
    batches = examples.buckets(batch_tokens).in_order()
    for numbers in watched(batches, "texts", len(examples), len):
        yield numbers, examples.batch(numbers)
