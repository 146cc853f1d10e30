"""Batches of images with their captions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.buckets import padded, shifted
from seqloom.data.captions import CaptionedImages
from seqloom.data.image_batches import as_floats
from seqloom.data.ragged import Ragged
from seqloom.text import Tokenizer
from seqloom.text.special import PAD


@dataclass(frozen=True)
class CaptionBatch:
    """Rows of images, each with a caption that ends in `<eos>`, padded with `<pad>`.

    images [rows, channels, height, width] from 0 to 1; targets [rows, T]; target_inputs [rows, T] are the targets
    shifted, beginning with `<bos>`; target_lengths [rows] leave padding out.
    """

    images: Tensor
    target_inputs: Tensor
    targets: Tensor
    target_lengths: Tensor

    @cached_property
    def tokens(self) -> int:
        """How many targets there are to predict, padding left out."""
        return int(self.target_lengths.sum())

    @cached_property
    def places(self) -> Tensor:
        """[tokens]: where the targets that are not padding stand, row after row."""
        return (self.targets.flatten() != PAD).nonzero().squeeze(1)

    def rows(self, first: int, last: int) -> CaptionBatch:
        """The rows from `first` up to `last`."""
        return CaptionBatch(*(tensor[first:last] for tensor in self._tensors()))

    def to(self, device: torch.device) -> CaptionBatch:
        """The same batch on `device`."""
        return CaptionBatch(*(tensor.to(device, non_blocking=True) for tensor in self._tensors()))

    def _tensors(self) -> tuple[Tensor, ...]:
        return self.images, self.target_inputs, self.targets, self.target_lengths


class CaptionStore:
    """Images with the ids of their captions, each ending in `<eos>`: every caption is an example, with its image."""

    def __init__(self, captioned: CaptionedImages, tokenizer: Tokenizer) -> None:
        self.images = captioned.images
        self.captions = Ragged.encoded([text for several in captioned.captions for text in several], tokenizer)
        counts = [len(several) for several in captioned.captions]
        self.owners: NDArray[np.int64] = np.repeat(np.arange(len(counts)), counts)
        """[captions]: the image that each belongs to."""

    def __len__(self) -> int:
        return len(self.owners)

    def batch(self, numbers: NDArray[np.int64]) -> CaptionBatch:
        """The batch of some captions."""
        targets, lengths = padded(self.captions, numbers)
        return CaptionBatch(as_floats(self.images[self.owners[numbers]]), shifted(targets), targets, lengths)

    def batches(self, rows: int) -> Iterator[tuple[NDArray[np.int64], CaptionBatch]]:
        """All captions once, in their order, for evaluation: (their numbers, their batch)."""
        for first in range(0, len(self), rows):
            numbers = np.arange(first, min(first + rows, len(self)))
            yield numbers, self.batch(numbers)


class CaptionBatches:
    """An endless stream of batches for training: every caption once an epoch, but for an incomplete last batch.

    All randomness follows from (seed, epoch), so the position (epoch, index) is all there is to save.
    """

    def __init__(self, store: CaptionStore, batch_size: int, seed: int = 0) -> None:
        self.store, self.seed = store, seed
        self.batch_size = min(batch_size, len(store))
        self.batches_per_epoch = len(store) // self.batch_size
        self.epoch = self.index = 0
        self._shuffle()

    def _shuffle(self) -> None:
        self._order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.store))

    def __iter__(self) -> CaptionBatches:
        return self

    def __next__(self) -> CaptionBatch:
        if self.index >= self.batches_per_epoch:
            self.epoch, self.index = self.epoch + 1, 0
            self._shuffle()
        chosen = self._order[self.index * self.batch_size : (self.index + 1) * self.batch_size]
        self.index += 1
        return self.store.batch(chosen)

    def position(self) -> dict[str, int]:
        """Where the next batch comes from."""
        return {"epoch": self.epoch, "index": self.index}

    def seek(self, position: dict[str, int]) -> None:
        """Go on from a saved position."""
        self.epoch, self.index = position["epoch"], position["index"]
        self._shuffle()
