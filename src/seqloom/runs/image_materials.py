"""What a configuration of a model of images needs before training can begin: the images."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seqloom.config import RunConfig
from seqloom.config.schema import ImageData
from seqloom.data.images import ImageSet, load_images
from seqloom.errors import ConfigError


@dataclass(frozen=True)
class ImageMaterials:
    """The training and validation images."""

    train: ImageSet
    valid: ImageSet

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width."""
        return image_shape(self.train)


def prepare_images(config: RunConfig) -> ImageMaterials:
    """The images of a configuration; some of the training images are held out when no validation images are named."""
    data = config.image_data
    train = open_images(data.train, data)
    if data.valid is not None:
        valid = open_images(data.valid, data)
    else:
        order = np.random.default_rng(0).permutation(len(train))
        held = max(1, round(data.valid_fraction * len(train)))
        if held >= len(train):
            raise ConfigError(f"{data.train} has {len(train)} images: too few to hold some out; name data.valid")
        train, valid = chosen(train, np.sort(order[held:])), chosen(train, np.sort(order[:held]))
    if image_shape(train) != image_shape(valid):
        raise ConfigError(
            f"images of {data.train} are {_said(train)} and those of {data.valid} {_said(valid)}: set data.size"
        )
    return ImageMaterials(train, valid)


def held_out_images(config: RunConfig, source: str | None = None) -> ImageSet:
    """The images of `source`; without one, the run's test or validation images."""
    data = config.image_data
    if source is not None or data.test is not None:
        return open_images(source or data.test or "", data)
    return prepare_images(config).valid


def open_images(source: str, data: ImageData) -> ImageSet:
    """Images by their name, brought to the size of the configuration."""
    images = load_images(source)
    if data.size is None or images.images.shape[1:3] == (data.size, data.size):
        return images
    return ImageSet(_resized(images.images, data.size), images.labels, images.classes)


def image_shape(images: ImageSet) -> tuple[int, int, int]:
    """Channels, height and width."""
    height, width, *channels = images.images.shape[1:]
    return (channels[0] if channels else 1), height, width


def _resized(pixels: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    pictures = (Image.fromarray(each).resize((size, size), Image.Resampling.BILINEAR) for each in pixels)
    return np.stack([np.asarray(picture) for picture in pictures])


def chosen(images: ImageSet, numbers: NDArray[np.integer]) -> ImageSet:
    """Some of the images."""
    labels = None if images.labels is None else images.labels[numbers]
    return ImageSet(images.images[numbers], labels, images.classes)


def _said(images: ImageSet) -> str:
    channels, height, width = image_shape(images)
    return f"{width}×{height}, {'grey' if channels == 1 else 'in colour'}"
