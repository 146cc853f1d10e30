"""Images in batches, as models read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.images import ImageSet

Values = Literal["grey", "binary", "sampled"]
LEVELS = 255  # a pixel has so many above black


@dataclass(frozen=True)
class ImageBatch:
    """Some images, with their classes where they are known."""

    images: Tensor
    """[rows, channels, height, width], from 0 to 1."""
    labels: Tensor | None
    """[rows]"""

    @property
    def tokens(self) -> int:
        """How many images these are: what a loss is divided by."""
        return len(self.images)

    def rows(self, first: int, last: int) -> ImageBatch:
        """The images from `first` up to `last`."""
        return ImageBatch(self.images[first:last], None if self.labels is None else self.labels[first:last])

    def to(self, device: torch.device) -> ImageBatch:
        """The same batch on `device`."""
        labels = None if self.labels is None else self.labels.to(device, non_blocking=True)
        return ImageBatch(self.images.to(device, non_blocking=True), labels)


class ImageBatches:
    """An endless stream of batches for training: every image once an epoch, the last few of an epoch left for others.

    All randomness follows from (seed, epoch, index), so the position (epoch, index) is all there is to save.
    """

    def __init__(self, images: ImageSet, batch_size: int, values: Values, seed: int = 0) -> None:
        self.images, self.values, self.seed = images, values, seed
        self.batch_size = min(batch_size, len(images))
        self.batches_per_epoch = len(images) // self.batch_size
        self.epoch = self.index = 0
        self._shuffle()

    def _shuffle(self) -> None:
        self._order = np.random.default_rng([self.seed, self.epoch]).permutation(len(self.images))

    def __iter__(self) -> ImageBatches:
        return self

    def __next__(self) -> ImageBatch:
        if self.index >= self.batches_per_epoch:
            self.epoch, self.index = self.epoch + 1, 0
            self._shuffle()
        chosen = self._order[self.index * self.batch_size : (self.index + 1) * self.batch_size]
        random = np.random.default_rng([self.seed, self.epoch, self.index])
        self.index += 1
        return as_batch(self.images, chosen, self.values, random)

    def position(self) -> dict[str, int]:
        """Where the next batch comes from."""
        return {"epoch": self.epoch, "index": self.index}

    def seek(self, position: dict[str, int]) -> None:
        """Go on from a saved position."""
        self.epoch, self.index = position["epoch"], position["index"]
        self._shuffle()


def all_batches(images: ImageSet, batch_size: int, values: Values) -> Iterator[ImageBatch]:
    """All images once, in their order, for evaluation; pixels that are drawn are the same every time."""
    random = np.random.default_rng(0)
    for first in range(0, len(images), batch_size):
        numbers = np.arange(first, min(first + batch_size, len(images)))
        yield as_batch(images, numbers, values, random)


def as_batch(images: ImageSet, numbers: NDArray[np.integer], values: Values, random: np.random.Generator) -> ImageBatch:
    """The batch of some images, their pixels turned into `values`."""
    pixels = images.images[numbers]
    if values == "sampled":
        chances = random.integers(0, LEVELS, pixels.shape, np.uint8)  # P(chance < pixel) = pixel / 255
        found = torch.from_numpy(chances < pixels).float()
    elif values == "binary":
        found = torch.from_numpy(pixels > LEVELS // 2).float()
    else:
        return ImageBatch(as_floats(pixels), _labels(images, numbers))
    return ImageBatch(_channels_first(found), _labels(images, numbers))


def as_floats(pixels: NDArray[np.uint8]) -> Tensor:
    """Images [rows, height, width], colours last if any, as [rows, channels, height, width] from 0 to 1."""
    return _channels_first(torch.from_numpy(pixels).float().div_(LEVELS))


def _channels_first(images: Tensor) -> Tensor:
    return images.unsqueeze(1) if images.ndim == 3 else images.permute(0, 3, 1, 2)


def _labels(images: ImageSet, numbers: NDArray[np.integer]) -> Tensor | None:
    return None if images.labels is None else torch.from_numpy(images.labels[numbers])
