"""Batches of images that are drawn from sentences: those of captions, seen from the other side."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from seqloom.data.caption_batches import CaptionBatch, CaptionBatches


@dataclass(frozen=True)
class DescribedBatch:
    """Rows of images, each with the sentence that says what is on it."""

    images: Tensor
    """[rows, channels, height, width], from 0 to 1."""
    words: Tensor
    """[rows, places], each sentence ending in `<eos>`, padded with `<pad>`."""
    lengths: Tensor
    """[rows], padding left out."""

    @classmethod
    def of(cls, batch: CaptionBatch) -> DescribedBatch:
        """The same images and sentences."""
        return cls(batch.images, batch.targets, batch.target_lengths)

    @property
    def tokens(self) -> int:
        """How many images there are: what a loss is divided by."""
        return len(self.images)

    def rows(self, first: int, last: int) -> DescribedBatch:
        """The rows from `first` up to `last`."""
        return DescribedBatch(self.images[first:last], self.words[first:last], self.lengths[first:last])

    def to(self, device: torch.device) -> DescribedBatch:
        """The same batch on `device`."""
        moved = (each.to(device, non_blocking=True) for each in (self.images, self.words, self.lengths))
        return DescribedBatch(*moved)


class DescribedBatches:
    """The stream of such batches for training; its position is that of the captions."""

    def __init__(self, captions: CaptionBatches) -> None:
        self.captions = captions
        self.batch_size, self.batches_per_epoch = captions.batch_size, captions.batches_per_epoch

    def __iter__(self) -> DescribedBatches:
        return self

    def __next__(self) -> DescribedBatch:
        return DescribedBatch.of(next(self.captions))

    def position(self) -> dict[str, int]:
        """Where the next batch comes from."""
        return self.captions.position()

    def seek(self, position: dict[str, int]) -> None:
        """Go on from a saved position."""
        self.captions.seek(position)
