"""Pairs as ids, and batches of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.batch import Numbers, PaddedBatch, shifted
from seqloom.data.ragged import Ragged, padded
from seqloom.data.samplers import PairBuckets
from seqloom.data.stream import Sequences


@dataclass(frozen=True)
class PairBatch(PaddedBatch):
    """Rows of pairs, padded with `<pad>`.

    source [rows, S] and targets [rows, T] end in `<eos>`; target_inputs [rows, T] are the targets shifted, beginning
    with `<bos>`; the lengths [rows] leave padding out.
    """

    source: Tensor
    target_inputs: Tensor
    targets: Tensor
    source_lengths: Tensor
    target_lengths: Tensor


@dataclass(frozen=True)
class EncodedPairs(Sequences):
    """Sources and targets as ids, each ending in `<eos>`."""

    source: Ragged
    target: Ragged

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How long the longer side of each pair is."""
        return np.maximum(self.source.lengths, self.target.lengths)

    def buckets(self, batch_tokens: int, processes: int = 1) -> PairBuckets:
        """Which pairs stand together: rows times the longest source or target are no more than `batch_tokens`."""
        source, target = (side.lengths.astype(np.int32) for side in (self.source, self.target))
        return PairBuckets(source, target, batch_tokens, processes)

    def targets(self, numbers: Numbers) -> int:
        return int(self.target.lengths_of(numbers).sum())

    def batch(self, numbers: Numbers) -> PairBatch:
        source, source_lengths = padded(self.source, numbers)
        targets, target_lengths = padded(self.target, numbers)
        return PairBatch(source, shifted(targets), targets, source_lengths, target_lengths, numbers=numbers)
