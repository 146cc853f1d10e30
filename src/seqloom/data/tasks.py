"""Several tasks as one stream of batches, each of one task, in given shares (Raffel et al. 2020, section 3.5.2)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from seqloom.data.batch import Numbers
from seqloom.data.pair_batches import PairBatch
from seqloom.data.samplers import Sampler
from seqloom.data.stream import Examples, Place, Sequences
from seqloom.errors import DataError


@dataclass(frozen=True)
class TaskExamples(Examples):
    """The examples of several tasks. Number i of task t of T is i T + t here, so that a number tells its task."""

    tasks: Sequence[Sequences]

    def batch(self, numbers: Numbers) -> PairBatch:
        task, own = self._task(numbers)
        return replace(task.batch(own), numbers=numbers)

    def batch_at(self, place: Place, numbers: Numbers) -> PairBatch:
        task, own = self._task(numbers)
        return replace(task.batch_at(place, own), numbers=numbers)

    def targets(self, numbers: Numbers) -> int:
        task, own = self._task(numbers)
        return task.targets(own)

    def _task(self, numbers: Numbers) -> tuple[Sequences, Numbers]:
        """The task of a batch, and the numbers that its examples have there."""
        return self.tasks[int(numbers[0]) % len(self.tasks)], numbers // len(self.tasks)


class Mixture(Sampler):
    """Batches of several tasks in one order, each of examples of one task, which are of similar length.

    An epoch is as long as it can be without any example twice: the task that has the fewest examples for its share is
    gone through once. Of every other, so many of the batches that would go through it once are drawn, all equally
    likely, that its examples have their share on average; up to one batch, as these are whole. Which examples stand
    together, which batches are drawn and their order is drawn anew for every epoch.
    """

    def __init__(
        self, tasks: Sequence[Sequences], shares: Sequence[float], batch_tokens: int, processes: int = 1
    ) -> None:
        self.batch_size = processes  # what the trainer divides among processes: whole batches
        self._samplers = [task.buckets(batch_tokens) for task in tasks]
        passes = np.array(shares) / [sampler.examples for sampler in self._samplers]
        whole = np.array([sampler.batches_per_epoch for sampler in self._samplers])
        self.batches = np.maximum(1, np.round(whole * passes / passes.max())).astype(int)
        """Of each task in an epoch."""
        self.batches_per_epoch = int(self.batches.sum()) // processes
        if not self.batches_per_epoch:
            raise DataError(
                f"the tasks have {self.batches.sum()} batches and there are {processes} processes: give more examples, "
                "or lower data.batch_tokens"
            )

    def epoch(self, random: np.random.Generator) -> Sequence[Numbers | list[Numbers]]:
        drawn: list[Numbers] = []
        for task, (sampler, count) in enumerate(zip(self._samplers, self.batches, strict=True)):
            every = sampler.epoch(random)
            some = random.permutation(len(every))[:count].tolist()
            drawn += [np.asarray(every[number]) * len(self._samplers) + task for number in some]
        mixed = [drawn[number] for number in random.permutation(len(drawn)).tolist()]
        if self.batch_size == 1:
            return mixed
        steps = range(0, self.batches_per_epoch * self.batch_size, self.batch_size)
        return [mixed[first : first + self.batch_size] for first in steps]


def mixing_shares(sizes: Sequence[int], shares: Sequence[float | None], limit: int | None) -> list[float]:
    """The part that each task has of all examples, which add up to 1: as given, or in proportion to their sizes.

    r_m = min(e_m, K) / Σ_n min(e_n, K) of e_m examples, with the limit K.
    """
    weights = [
        share if share is not None else min(size, limit or size) for size, share in zip(sizes, shares, strict=True)
    ]
    return [weight / sum(weights) for weight in weights]
