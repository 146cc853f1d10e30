"""What images a model was trained on: their shape and their classes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from seqloom.data.images import ImageSet, Picture, fitted, look, stretched
from seqloom.errors import DataError, UserError, did_you_mean

LARGEST = 1 << 14
"""Pixels on a side, or channels: a model of larger images would fit nowhere."""


@dataclass(frozen=True)
class NamedImages:
    """Images as a model reads them, and what they are called."""

    names: tuple[str, ...]
    images: ImageSet
    changed: int
    """How many had another size, and were brought to the model's."""


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

    def read(self, pictures: Iterable[Picture], stretch: bool) -> NamedImages:
        """Pictures at the size and in the channels of this format: stretched to it, or cut to its proportions first.

        They have labels where all of them are of classes that are known here.
        """
        channels, height, width = self.shape
        bring = stretched if stretch else fitted
        names, pixels, labels, changed = [], [], [], 0
        for picture in pictures:
            names.append(picture.name)
            pixels.append(bring(picture.image, width, height, channels == 3))
            labels.append(None if picture.label is None else self.known(picture.label))
            changed += picture.image.size != (width, height)
        if not names:
            raise UserError("there are no images to read")
        numbers = [label for label in labels if label is not None]
        known = np.array(numbers, np.int64) if len(numbers) == len(names) else None
        return NamedImages(tuple(names), ImageSet(np.stack(pixels), known, self.classes), changed)

    def known(self, label: int | str) -> int | None:
        """The number of a class by its name or number, if there is such a class."""
        if str(label) in self.classes:
            return self.classes.index(str(label))
        return int(label) if str(label).isdecimal() and int(label) < len(self.classes) else None

    def number(self, label: int | str, run: Path) -> int:
        """The number of a class of a run, by its name or number."""
        number = self.known(label)
        if number is not None:
            return number
        raise UserError(f"{run} knows no class {label!r}{did_you_mean(str(label), self.classes)}")

    def numbers(self, labels: Sequence[int | str] | int | str, count: int, run: Path) -> list[int]:
        """The numbers of the classes of `count` images of a run, given one for all or one for each."""
        several = [labels] * count if isinstance(labels, int | str) else list(labels)
        if len(several) != count:
            raise UserError(f"{len(several)} classes for {count} images: give one for all, or one for each")
        return [self.number(label, run) for label in several]
