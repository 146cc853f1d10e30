"""What images a model was trained on: their shape and their classes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.data.images import ImageSet, look
from seqloom.errors import DataError, UserError, did_you_mean

LARGEST = 1 << 14
"""Pixels on a side, or channels: a model of larger images would fit nowhere."""


@dataclass(frozen=True)
class ImageFormat:
    """Shape and classes of images: a model is built by it before its weights are read."""

    shape: tuple[int, int, int]
    """Channels, height and width."""
    classes: tuple[str, ...] = ()
    """The names of the classes; their numbers, where they have no names; none, where images have no classes."""

    @classmethod
    def of(cls, images: ImageSet) -> ImageFormat:
        """That of some images."""
        classes = images.classes
        if not classes and images.labels is not None:
            classes = tuple(map(str, range(int(images.labels.max()) + 1)))
        return cls(images.shape, classes if images.labels is not None else ())

    @classmethod
    def from_json(cls, document: Any) -> ImageFormat:
        """The reverse of `to_json`; a ValueError, KeyError or TypeError where the document is something else."""
        channels, height, width = shape = document["shape"]
        if not all(isinstance(size, int) and 0 < size <= LARGEST for size in shape):
            raise ValueError(f"{shape} is the shape of no image")
        return cls((channels, height, width), tuple(map(str, document["classes"])))

    def to_json(self) -> dict[str, Any]:
        """A document to be kept."""
        return {"shape": list(self.shape), "classes": list(self.classes)}

    @property
    def pixels(self) -> int:
        """How many numbers an image has."""
        return int(np.prod(self.shape))

    def checked(self, images: ImageSet | Any, run: Path) -> ImageSet:
        """Images as a set; those of another shape are refused in the name of a run."""
        given = images if isinstance(images, ImageSet) else ImageSet(np.asarray(images), None)
        if given.shape != self.shape:
            raise DataError(f"{run} learned from images of {look(self.shape)}, and these have {look(given.shape)}")
        return given

    def number(self, label: int | str, run: Path) -> int:
        """The number of a class of a run, by its name or number."""
        if str(label) in self.classes:
            return self.classes.index(str(label))
        if str(label).isdecimal() and int(label) < len(self.classes):
            return int(label)
        raise UserError(f"{run} knows no class {label!r}{did_you_mean(str(label), self.classes)}")

    def numbers(self, labels: Sequence[int | str] | int | str, count: int, run: Path) -> list[int]:
        """The numbers of the classes of `count` images of a run, given one for all or one for each."""
        several = [labels] * count if isinstance(labels, int | str) else list(labels)
        if len(several) != count:
            raise UserError(f"{len(several)} classes for {count} images: give one for all, or one for each")
        return [self.number(label, run) for label in several]
