"""A tokeniser of images: small squares of them become the numbers of squares that are like them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.caption_batches import CaptionStore
from seqloom.data.image_batches import as_floats
from seqloom.data.image_format import LARGEST
from seqloom.data.k_means import k_means, nearest
from seqloom.data.pair_batches import EncodedPairs
from seqloom.data.patches import joined, patches
from seqloom.data.ragged import Ragged
from seqloom.errors import DataError
from seqloom.text.special import SPECIALS

LEARNED_FROM = 200_000  # patches, at most
ITERATIONS = 30  # of k-means: it gains next to nothing afterwards
TOGETHER = 1000  # images read at a time
FIRST = len(SPECIALS)
"""The token of the first code: before it stand the special symbols, as in every vocabulary."""

Pixels = NDArray[np.uint8]


@dataclass(frozen=True)
class Codebook:
    """Patches that stand for all others: an image is the sequence of the nearest ones, row after row.

    Tokens are codes after the special symbols. All images of a shape have the same number of them, so that none ends in
    `<eos>`.
    """

    codes: Tensor
    """[codes, channels, size, size], from 0 to 1."""
    height: int
    """Of an image, in pixels."""
    width: int

    def __post_init__(self) -> None:
        if self.codes.ndim != 4 or not self.codes.numel() or self.codes.shape[2] != self.codes.shape[3]:
            raise DataError(f"a tensor of {tuple(self.codes.shape)} is no codebook of square patches")
        if not self.codes.is_floating_point():
            raise DataError("the patches of a codebook have numbers from 0 to 1, no integers")
        if not all(0 < side <= LARGEST and side % self.size == 0 for side in (self.height, self.width)):
            raise DataError(
                f"patches of {self.size}×{self.size} pixels do not cover images of {self.width}×{self.height}: set "
                f"data.size to a multiple of {self.size}, or model.patch to a number that divides both sides"
            )

    @classmethod
    def learned(cls, images: Pixels, size: int, count: int, seed: int = 0) -> Codebook:
        """`count` codes of images [images, height, width], colours last if any, by k-means of their patches."""
        _, channels, height, width = as_floats(images[:1]).shape
        blank = cls(torch.zeros(1, channels, size, size), height, width)  # refuses patches that do not cover an image
        random = np.random.default_rng(seed)
        chosen = np.sort(random.permutation(len(images))[: -(-LEARNED_FROM // blank.length)])
        points = torch.cat([part.flatten(0, 1) for part in _cut(images[chosen], size)])
        centres = k_means(points, count, ITERATIONS, seed)
        return replace(blank, codes=centres.view(-1, channels, size, size))

    @property
    def size(self) -> int:
        """Height and width of a patch."""
        return self.codes.shape[2]

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        return self.codes.shape[1], self.height, self.width

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of patches."""
        return self.height // self.size, self.width // self.size

    @property
    def length(self) -> int:
        """Tokens of an image."""
        rows, columns = self.grid
        return rows * columns

    @property
    def vocabulary_size(self) -> int:
        """How many tokens there are, special symbols included."""
        return FIRST + len(self.codes)

    def encode(self, images: Pixels) -> NDArray[np.int32]:
        """The tokens of images [images, height, width], colours last if any: [images, length]."""
        parts = [
            nearest(part.flatten(0, 1), self.codes.flatten(1)).view(len(part), -1) for part in _cut(images, self.size)
        ]
        return (torch.cat(parts) + FIRST).numpy().astype(np.int32)

    def decode(self, tokens: Tensor) -> Tensor:
        """The images of tokens [images, length]: [images, channels, height, width], from 0 to 1."""
        return joined(self.codes[tokens.cpu() - FIRST], *self.grid)


def as_pairs(captions: CaptionStore, codebook: Codebook) -> EncodedPairs:
    """Captions as sources, the tokens of their images as targets, which are of one length and need no `<eos>`."""
    tokens = codebook.encode(captions.images)[captions.owners]
    lengths = np.full(len(tokens), codebook.length, np.int64)
    return EncodedPairs(captions.captions, Ragged.of_lengths(tokens.reshape(-1), lengths))


def _cut(images: Pixels, size: int) -> Iterator[Tensor]:
    """The patches of some images at a time, [images, patches, values]."""
    for first in range(0, len(images), TOGETHER):
        yield patches(as_floats(images[first : first + TOGETHER]), size)
