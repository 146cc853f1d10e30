"""Trained models of images: images in, images and numbers out. What all kinds of them share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema.data import ImageData
from seqloom.data.image_batches import LEVELS, ImageBatch, Values, all_batches, image_stream
from seqloom.data.image_format import ImageFormat, NamedImages
from seqloom.data.images import ImageSet, open_pictures
from seqloom.data.materials import Split, held_out_images, prepare_images
from seqloom.data.stream import Stream
from seqloom.errors import DataError
from seqloom.progress import watched
from seqloom.runs.assets import Assets
from seqloom.runs.capabilities import Pixels
from seqloom.runs.kind import Kind
from seqloom.runs.trained import Trained

BATCH = 500  # images evaluated at a time

Kept = TypeVar("Kept", bound="ImageAssets")
Result = TypeVar("Result", bound=Trained)


@dataclass(frozen=True)
class ImageAssets(Assets):
    """What every model of images keeps."""

    images: ImageFormat


class ImageKind(Kind[Split[ImageSet], Kept, Result]):
    """What all kinds of models of images share."""

    next_step = "images sample {run}"

    def prepare(self, config: RunConfig, kept: Kept | None) -> tuple[Split[ImageSet], Kept]:
        """The images of a configuration, and what they are like."""
        images = prepare_images(config.data)
        return images, kept or self.assets(ImageFormat.of(images.train))


def training_images(images: ImageSet, config: RunConfig) -> Stream:
    """The stream of batches that a configuration asks for."""
    data: ImageData = config.data
    return image_stream(images, data.batch_size, data.values, config.seed)


def first_batches(images: ImageSet, most: int, data: ImageData, device: torch.device) -> list[ImageBatch]:
    """The first `most` images in batches, for validation; pixels that are drawn are the same every time."""
    return [batch.to(device) for batch in all_batches(images.first(most), BATCH, data.values)]


def all_images(images: ImageSet, data: ImageData) -> Tensor:
    """All images at once, [count, channels, height, width], for models that are computed from them."""
    return torch.cat([batch.images for batch in all_batches(images, BATCH, data.values)])


class TrainedImageModel(Trained):
    """What `seqloom.load` gives back for a run on images."""

    @property
    def images(self) -> ImageFormat:
        """What images the run learned from."""
        return self.assets.images

    @property
    def data(self) -> ImageData:
        """How the run reads images."""
        return self.config.data

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return next(self.model.parameters()).device

    def held_out(self, source: str | None = None) -> ImageSet:
        """The images of `source`, or the run's test or validation images."""
        return held_out_images(self.data, source)

    def read(self, sources: str | Sequence[str]) -> NamedImages:
        """Images as the model reads them: of image files, folders, idx files or bundled sets.

        Those of another size are brought to the model's as `data.size` brings them, if the run has one; else they are
        cut to its proportions first.
        """
        named = [sources] if isinstance(sources, str) else sources
        pictures = (picture for source in named for picture in open_pictures(source))
        return self.images.read(pictures, stretch=self.data.size is not None)

    def checked(self, images: ImageSet | Pixels) -> ImageSet:
        """Images as a set, which must have the size that the model learned."""
        return self.images.checked(images, self.path)

    def batches(self, images: ImageSet | Pixels) -> Iterator[ImageBatch]:
        """Images as the model reads them; pixels that are drawn are the same every time."""
        images = self.checked(images)
        batches = all_batches(images, BATCH, self.data.values)
        for batch in watched(batches, "images", len(images), lambda each: each.tokens):
            yield batch.to(self.device)

    @property
    def signature(self) -> str:
        """How `figures` are computed, in a form to publish beside them."""
        return self.signed(f"pixels {self.data.values}", "natural logarithms per image")


def labels_of(images: ImageSet, source: str) -> NDArray[np.int64]:
    """The classes of images that must have them."""
    if images.labels is None:
        raise DataError(f"the images of {source} have no classes: a subfolder for each class, or a file of labels")
    return images.labels


@torch.inference_mode()
def count_right(
    log_probs: Callable[[Tensor], Tensor], images: ImageSet, values: Values, device: torch.device
) -> tuple[float, int]:
    """Of images with classes, the sum of -log p of the right ones, and how many right ones are the likeliest."""
    labels = torch.from_numpy(labels_of(images, "validation"))
    loss, right = 0.0, 0
    for batch, classes in zip(all_batches(images, BATCH, values), labels.split(BATCH), strict=True):
        predicted = log_probs(batch.images.to(device)).cpu()
        loss -= float(predicted.gather(1, classes.unsqueeze(1)).sum())
        right += int((predicted.argmax(1) == classes).sum())
    return loss, right


def as_pixels(images: Tensor) -> Pixels:
    """Images [rows, channels, height, width] from 0 to 1 as bytes: [rows, height, width], colours last if any."""
    levels = images.detach().float().clamp(0, 1).mul(LEVELS).round().to(torch.uint8).cpu().numpy()
    return levels[:, 0] if levels.shape[1] == 1 else levels.transpose(0, 2, 3, 1)


def mean_image(images: Any) -> Tensor:
    """The mean of images [count, height, width], colours last if any: [channels, height, width] from 0 to 1."""
    mean = torch.from_numpy(images.mean(0) / LEVELS).float()
    return mean.unsqueeze(0) if mean.dim() == 2 else mean.permute(2, 0, 1)
