"""Batches of images with their captions, to be captioned or to be drawn."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.batch import Batch, Numbers, PaddedBatch, shifted
from seqloom.data.captions import CaptionedImages
from seqloom.data.image_batches import as_floats
from seqloom.data.images import middle
from seqloom.data.ragged import Ragged, padded
from seqloom.data.stream import Examples, Place
from seqloom.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class CaptionBatch(PaddedBatch):
    """Rows of images, each with a caption that ends in `<eos>`, padded with `<pad>`.

    images [rows, channels, height, width] from 0 to 1, or features of any size; targets [rows, T]; target_inputs
    [rows, T] are the targets shifted, beginning with `<bos>`; target_lengths [rows] leave padding out.
    """

    images: Tensor
    target_inputs: Tensor
    targets: Tensor
    target_lengths: Tensor


@dataclass(frozen=True)
class DescribedBatch(Batch):
    """Rows of images to be drawn, each from the sentence that says what is on it: captions seen from the other side."""

    images: Tensor
    """[rows, channels, height, width], from 0 to 1."""
    words: Tensor
    """[rows, places], each sentence ending in `<eos>`, padded with `<pad>`."""
    lengths: Tensor
    """[rows], padding left out."""

    @classmethod
    def of(cls, batch: CaptionBatch) -> DescribedBatch:
        """The same images and sentences."""
        return cls(batch.images, batch.targets, batch.target_lengths, numbers=batch.numbers)

    @property
    def tokens(self) -> int:
        """How many images there are."""
        return len(self.images)

    @property
    def unit(self) -> str:
        return "images"


class CaptionStore(Examples):
    """Images with the ids of their captions, each ending in `<eos>`: every caption is an example, with its image."""

    def __init__(self, captioned: CaptionedImages, tokenizer: Tokenizer) -> None:
        self.captioned, self.images = captioned, captioned.images
        self.captions = Ragged.encoded([text for several in captioned.captions for text in several], tokenizer)
        counts = [len(several) for several in captioned.captions]
        self.owners: Numbers = np.repeat(np.arange(len(counts)), counts)
        """[captions]: the image that each belongs to."""

    def __len__(self) -> int:
        return len(self.owners)

    def references(self, numbers: Numbers) -> list[tuple[str, ...]]:
        """The texts of all captions that the image of each of these examples has."""
        return [self.captioned.captions[owner] for owner in self.owners[numbers].tolist()]

    def sources(self, numbers: Numbers) -> list[str]:
        """Images have no text."""
        return [""] * len(numbers)

    def targets(self, numbers: Numbers) -> int:
        return int(self.captions.lengths_of(numbers).sum())

    def batch(self, numbers: Numbers) -> CaptionBatch:
        return self.captioned_batch(self.images[self.owners[numbers]], numbers)

    def captioned_batch(self, images: NDArray[Any], numbers: Numbers) -> CaptionBatch:
        """The batch of these captions with images of their own."""
        targets, lengths = padded(self.captions, numbers)
        return CaptionBatch(as_floats(images), shifted(targets), targets, lengths, numbers=numbers)

    def batches(self, rows: int) -> Iterator[tuple[Numbers, CaptionBatch]]:
        """All captions once, in their order, for evaluation: (their numbers, their batch)."""
        for first in range(0, len(self), rows):
            numbers = np.arange(first, min(first + rows, len(self)))
            yield numbers, self.batch(numbers)


class AugmentedCaptions(CaptionStore):
    """The same for training that shall never see an image twice: each time another window of it, and perhaps mirrored.

    What is drawn follows from the seed and the place in training alone.
    """

    def __init__(self, captioned: CaptionedImages, tokenizer: Tokenizer, margin: int, flip: bool) -> None:
        """margin: how many pixels higher and wider than the windows images are; flip: mirror half of them."""
        super().__init__(captioned, tokenizer)
        self.margin, self.flip = margin, flip

    def batch(self, numbers: Numbers) -> CaptionBatch:
        return self.captioned_batch(middle(self.images[self.owners[numbers]], self.margin), numbers)

    def batch_at(self, place: Place, numbers: Numbers) -> CaptionBatch:
        random, images = place.random(), self.images[self.owners[numbers]]
        height, width = (side - self.margin for side in images.shape[1:3])
        corners = random.integers(0, self.margin + 1, (len(images), 2))
        mirrored = random.random(len(images)) < (0.5 if self.flip else 0.0)
        windows = [
            image[top : top + height, left : left + width][:, :: -1 if mirror else 1]
            for image, (top, left), mirror in zip(images, corners, mirrored, strict=True)
        ]
        return self.captioned_batch(np.stack(windows), numbers)
