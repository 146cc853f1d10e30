"""Batches of pairs of similar length under a token budget.

Pairs are ordered by the length of their longer side and cut into batches, each as many rows as fit when every row is
padded to the longest. The cuts depend on the lengths alone, so every epoch has the same number of batches; which pairs
of a length stand together, and the order of the batches, is drawn anew.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.pair_encoders import EncodedPairs
from seqloom.data.pair_store import PairStore
from seqloom.data.ragged import Ragged
from seqloom.errors import DataError
from seqloom.text.special import BOS, PAD

LOOSENESS = 2.0  # tokens of the shorter side: more mixes the batches of one length better, less pads less


@dataclass(frozen=True)
class PairBatch:
    """Rows of pairs, padded with `<pad>`.

    source [rows, S] and targets [rows, T] end in `<eos>`; target_inputs [rows, T] are the targets shifted, beginning
    with `<bos>`; the lengths [rows] leave padding out.
    """

    source: Tensor
    target_inputs: Tensor
    targets: Tensor
    source_lengths: Tensor
    target_lengths: Tensor

    @cached_property
    def tokens(self) -> int:
        """How many targets there are to predict, padding left out."""
        return int(self.target_lengths.sum())

    @cached_property
    def places(self) -> Tensor:
        """[tokens]: where the targets that are not padding stand, row after row."""
        return (self.targets.flatten() != PAD).nonzero().squeeze(1)

    def to(self, device: torch.device) -> PairBatch:
        """The same batch on `device`."""
        tensors = (self.source, self.target_inputs, self.targets, self.source_lengths, self.target_lengths)
        moved = PairBatch(*(_sent(tensor, device) for tensor in tensors))
        vars(moved)["tokens"] = self.tokens  # counted and found here: a GPU would be waited for
        vars(moved)["places"] = _sent(self.places, device)
        return moved


def _sent(tensor: Tensor, device: torch.device) -> Tensor:
    """On its way to `device`; from pinned memory, or a GPU would first finish all that is under way."""
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)


@dataclass(frozen=True)
class SharedBatch:
    """One batch for each of several processes, all of one step; put together when a process takes its own."""

    store: PairStore
    parts: list[NDArray[np.int64]]

    @cached_property
    def tokens(self) -> int:
        """How many targets all processes together have to predict."""
        return int(sum(_spans(self.store.target, numbers)[1].sum() for numbers in self.parts))

    def rows(self, first: int, last: int) -> PairBatch:
        """The batches of the processes from `first` up to `last`, as one."""
        return pair_batch(self.store, np.concatenate(self.parts[first:last]))


class BucketBatches:
    """An endless stream of batches for training: every pair once an epoch, no more than `batch_tokens` in a batch.

    The tokens of a batch are its rows times its longest source or target; only a pair that is longer by itself exceeds
    the budget, alone. All randomness follows from (seed, epoch), so the position (epoch, index) is all there is to
    save. With several processes a batch is a `SharedBatch`, in which each has another part.
    """

    def __init__(self, store: PairStore, batch_tokens: int, seed: int = 0, processes: int = 1) -> None:
        self.store, self.seed = store, seed
        self.batch_size = processes  # what the trainer divides among processes: whole batches
        self._longer, self._lean = _shape(store)
        bounds = batch_bounds(np.sort(self._longer)[::-1], batch_tokens)
        self._bounds = evened_bounds(bounds, processes, batch_tokens)
        self.batches_per_epoch = (len(self._bounds) - 1) // processes
        self.epoch = self.index = 0
        self._shuffle()

    def _shuffle(self) -> None:
        generator = np.random.default_rng([self.seed, self.epoch])
        lean = self._lean + LOOSENESS * generator.random(len(self._lean), np.float32)
        self._numbers = np.lexsort((lean, -self._longer))
        self._order = generator.permutation(len(self._bounds) - 1)

    def __iter__(self) -> BucketBatches:
        return self

    def __next__(self) -> PairBatch | SharedBatch:
        if self.index >= self.batches_per_epoch:
            self.epoch, self.index = self.epoch + 1, 0
            self._shuffle()
        first = self.index * self.batch_size
        self.index += 1
        chosen = self._order[first : first + self.batch_size]
        parts = [self._numbers[self._bounds[batch] : self._bounds[batch + 1]] for batch in chosen]
        return pair_batch(self.store, parts[0]) if self.batch_size == 1 else SharedBatch(self.store, parts)

    def position(self) -> dict[str, int]:
        """Where the next batch comes from."""
        return {"epoch": self.epoch, "index": self.index}

    def seek(self, position: dict[str, int]) -> None:
        """Go on from a saved position."""
        self.epoch, self.index = position["epoch"], position["index"]
        self._shuffle()


def sorted_batches(pairs: PairStore | EncodedPairs, batch_tokens: int) -> Iterator[tuple[NDArray[np.int64], PairBatch]]:
    """All pairs once, longest first, for evaluation: (numbers of the pairs, their batch).

    Results come back in order with `results[numbers] = ...`.
    """
    longer, lean = _shape(pairs)
    for numbers in _cut(np.lexsort((lean, -longer)), longer, batch_tokens):
        yield numbers, pair_batch(pairs, numbers)


def pair_batch(pairs: PairStore | EncodedPairs, numbers: NDArray[np.int64]) -> PairBatch:
    """The batch of these pairs."""
    source, source_lengths = padded(pairs.source, numbers)
    targets, target_lengths = padded(pairs.target, numbers)
    return PairBatch(source, shifted(targets), targets, source_lengths, target_lengths)


def shifted(targets: Tensor) -> Tensor:
    """What a decoder reads before each of targets [rows, T]: `<bos>`, then the target before; padding stays."""
    inputs = torch.full_like(targets, BOS)
    inputs[:, 1:] = targets[:, :-1]
    inputs[targets == PAD] = PAD
    return inputs


def padded(sequences: Ragged, numbers: NDArray[np.int64]) -> tuple[Tensor, Tensor]:
    """Some sequences, [rows, longest] padded with `<pad>`, and their lengths [rows]."""
    starts, lengths = _spans(sequences, numbers)
    steps = np.arange(lengths.max())
    real = steps < lengths[:, None]  # [rows, longest]
    ids = np.full(real.shape, PAD, np.int64)
    ids[real] = sequences.tokens[(starts[:, None] + steps)[real]]
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def _spans(sequences: Ragged, numbers: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where the sequences begin, and their lengths."""
    starts = sequences.offsets[numbers]
    return starts, sequences.offsets[numbers + 1] - starts


def _shape(pairs: PairStore | EncodedPairs) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """What pairs are ordered by: the length of the longer side, then by how much the source is longer.

    The second order runs forwards for even lengths and backwards for odd ones, so that neighbours across the border of
    two lengths are alike on their shorter side too.
    """
    source, target = pairs.source.lengths.astype(np.int32), pairs.target.lengths.astype(np.int32)
    longer = np.maximum(source, target)
    return longer, (source - target) * (1 - 2 * (longer % 2))


def batch_bounds(falling: NDArray[np.integer], batch_tokens: int) -> list[int]:
    """Where batches begin, and the end: the first of a batch is its longest, so it says how many rows fit."""
    rows = np.maximum(1, batch_tokens // falling).tolist()
    bounds = [0]
    while bounds[-1] < len(rows):
        bounds.append(bounds[-1] + rows[bounds[-1]])
    bounds[-1] = len(rows)
    return bounds


def _cut(numbers: NDArray[np.int64], lengths: NDArray[np.integer], batch_tokens: int) -> Iterator[NDArray[np.int64]]:
    bounds = batch_bounds(lengths[numbers], batch_tokens)
    return (numbers[first:last] for first, last in pairwise(bounds))


def evened_bounds(bounds: list[int], processes: int, batch_tokens: int) -> NDArray[np.int64]:
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
    return evened
