"""Images as a captioner reads them: as pixels, or as what another encoder says of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seqloom.data.captions import open_pictures_or_scenes
from seqloom.data.image_features import FeatureFile, as_grid
from seqloom.data.image_format import ImageFormat
from seqloom.data.images import Picture, fitted, middle
from seqloom.errors import UserError

DRAWN = 224  # pixels of the longer side of a picture that attention to features is drawn on

Named = str | Path | Image.Image
"""What names images, or is one."""


@dataclass(frozen=True, eq=False)
class Sight:
    """An image, and what a model is shown of it."""

    name: str
    source: NDArray[Any]
    """[height, width], [height, width, 3] in colour, or [rows, columns, size] of features."""
    picture: NDArray[np.uint8] | None
    """What can be drawn on: where the model looked, say. None where no pixels are known, or not where places are."""


class Sights(ABC):
    """How a run reads images."""

    def __init__(self, run: Path, images: ImageFormat) -> None:
        self.run, self.images = run, images

    @abstractmethod
    def named(self, images: Iterable[Named], features: str | Path | None = None) -> Iterator[Sight]:
        """Images by files, folders and names of sets; where a run reads features, those of a file."""

    @abstractmethod
    def of_array(self, images: NDArray[Any]) -> Iterator[Sight]:
        """Images that are arrays already."""


class PixelSights(Sights):
    """Reads pixels, in the size and the channels of a run: cut in the middle to its proportions."""

    def __init__(self, run: Path, images: ImageFormat, margin: int) -> None:
        """margin: pixels around the middle that are cut off, as they are in validations."""
        super().__init__(run, images)
        self.margin = margin

    def named(self, images: Iterable[Named], features: str | Path | None = None) -> Iterator[Sight]:
        if features is not None:
            raise UserError(f"{self.run} reads images, and no features of them: leave --features out")
        return map(self._brought, _pictures(images))

    def of_array(self, images: NDArray[Any]) -> Iterator[Sight]:
        if images.dtype != np.uint8 or images.ndim not in (3, 4):
            raise UserError("images are arrays of bytes, [count, height, width] or [count, height, width, 3]")
        channels, height, width = self.images.shape
        shape = (height, width) if channels == 1 else (height, width, channels)
        if images.shape[1:] == shape:
            return (Sight("", image, image) for image in images)
        return (self._brought(Picture("", Image.fromarray(image))) for image in images)

    def _brought(self, picture: Picture) -> Sight:
        channels, height, width = self.images.shape
        whole = fitted(picture.image, width + self.margin, height + self.margin, channels == 3)
        pixels = middle(whole[None], self.margin)[0]
        return Sight(picture.name, pixels, pixels)


class FeatureSights(Sights):
    """Reads the features of images, which the encoder of the training data must have made."""

    def named(self, images: Iterable[Named], features: str | Path | None = None) -> Iterator[Sight]:
        images = list(images)
        if features is None:
            return (sight for file in images for sight in self._entries(self._features_alone(file)))
        file = self._opened(features)
        if not images:
            return self._entries(file)
        return (Sight(each.name, file.row(each.name), self._drawn_on(each.image)) for each in _pictures(images))

    def of_array(self, images: NDArray[Any]) -> Iterator[Sight]:
        if not np.issubdtype(images.dtype, np.floating):
            raise UserError(f"{self._needs()}: give arrays of floating-point numbers, [images, places, size]")
        shape = self._checked(images.shape[1:], "array")
        return (Sight("", image.reshape(shape), None) for image in images)

    def _features_alone(self, file: Named) -> FeatureFile:
        if isinstance(file, Image.Image) or Path(file).suffix != ".safetensors":
            raise UserError(f"{self._needs()}: give --features FILE.safetensors with an entry for each image")
        return self._opened(file)

    def _entries(self, file: FeatureFile) -> Iterator[Sight]:
        return (Sight(name, file.row(name), None) for name in file.names)

    def _opened(self, path: str | Path) -> FeatureFile:
        file = FeatureFile(path)
        self._checked(file.shape, str(path))
        return file

    def _checked(self, shape: Sequence[int], where: str) -> tuple[int, int, int]:
        grid = as_grid(shape, where)
        size, rows, columns = self.images.shape
        if grid != (rows, columns, size):
            raise UserError(
                f"{where} has features of {grid[0] * grid[1]} places and size {grid[2]}, and {self.run} learned from "
                f"{rows * columns} places of size {size}: make them with the encoder that made its data.features"
            )
        return grid

    def _needs(self) -> str:
        return f"{self.run} learned from features of another encoder, and cannot read images"

    def _drawn_on(self, image: Image.Image) -> NDArray[np.uint8] | None:
        """The middle of a picture, in the proportions of the grid, where there is a grid."""
        _, rows, columns = self.images.shape
        if min(rows, columns) == 1:
            return None
        scale = DRAWN / max(rows, columns)
        return fitted(image, round(scale * columns), round(scale * rows), colour=True)


def _pictures(images: Iterable[Named]) -> Iterator[Picture]:
    for image in images:
        if isinstance(image, Image.Image):
            yield Picture("", image)
        else:
            yield from open_pictures_or_scenes(image)
