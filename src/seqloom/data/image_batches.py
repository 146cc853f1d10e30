"""Images in batches, as models read them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.batch import Batch, Numbers
from seqloom.data.image_features import Features
from seqloom.data.images import ImageSet
from seqloom.data.samplers import Shuffled
from seqloom.data.stream import Examples, Place, Stream

Values = Literal["grey", "binary", "sampled"]
LEVELS = 255  # a pixel has so many above black


@dataclass(frozen=True)
class ImageBatch(Batch):
    """Some images, with their classes where they are known."""

    images: Tensor
    """[rows, channels, height, width], from 0 to 1."""
    labels: Tensor | None
    """[rows]"""

    @property
    def tokens(self) -> int:
        """How many images these are."""
        return len(self.images)

    @property
    def unit(self) -> str:
        return "images"


@dataclass(frozen=True)
class ImageExamples(Examples):
    """Images whose pixels are turned into `values`; those that are `sampled` are drawn anew each time."""

    images: ImageSet
    values: Values

    def batch(self, numbers: Numbers) -> ImageBatch:
        return self.drawn(numbers, np.random.default_rng(0))

    def batch_at(self, place: Place, numbers: Numbers) -> ImageBatch:
        return self.drawn(numbers, place.random())

    def targets(self, numbers: Numbers) -> int:
        return len(numbers)

    def drawn(self, numbers: Numbers, random: np.random.Generator) -> ImageBatch:
        """The batch of some images."""
        pixels = self.images.images[numbers]
        if self.values == "sampled":
            chances = random.integers(0, LEVELS, pixels.shape, np.uint8)  # P(chance < pixel) = pixel / 255
            images = _channels_first(torch.from_numpy(chances < pixels).float())
        elif self.values == "binary":
            images = _channels_first(torch.from_numpy(pixels > LEVELS // 2).float())
        else:
            images = as_floats(pixels)
        labels = self.images.labels
        return ImageBatch(images, None if labels is None else torch.from_numpy(labels[numbers]), numbers=numbers)


def image_stream(images: ImageSet, batch_size: int, values: Values, seed: int = 0) -> Stream:
    """Batches of images for training."""
    return Stream(ImageExamples(images, values), Shuffled(len(images), batch_size), seed)


def all_batches(images: ImageSet, batch_size: int, values: Values) -> Iterator[ImageBatch]:
    """All images once, in their order, for evaluation; pixels that are drawn are the same every time."""
    examples, random = ImageExamples(images, values), np.random.default_rng(0)
    for first in range(0, len(images), batch_size):
        yield examples.drawn(np.arange(first, min(first + batch_size, len(images))), random)


def as_floats(pixels: NDArray[np.uint8] | Features) -> Tensor:
    """Images [rows, height, width], colours last if any, as [rows, channels, height, width] from 0 to 1; features,
    which are pictures of any numbers, as they are."""
    values = torch.from_numpy(pixels).float()
    return _channels_first(values.div_(LEVELS) if pixels.dtype == np.uint8 else values)


def _channels_first(images: Tensor) -> Tensor:
    return images.unsqueeze(1) if images.ndim == 3 else images.permute(0, 3, 1, 2)
