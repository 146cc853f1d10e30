"""What all trained models of images share: images in, images and numbers out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.data.image_batches import LEVELS, ImageBatch, all_batches
from seqloom.data.images import ImageSet
from seqloom.errors import UserError
from seqloom.metrics import Scored
from seqloom.runs.image_materials import held_out_images
from seqloom.version import __version__

BATCH = 500  # images evaluated at a time

Pixels = NDArray[np.uint8]


class TrainedImageModel(ABC):
    """What `seqloom.load` gives back for a run on images."""

    def __init__(self, model: Any, config: RunConfig, path: Path) -> None:
        self.model, self.config, self.path = model, config, path

    @abstractmethod
    def sample(self, size: int, seed: int = 0, **options: Any) -> Pixels:
        """Draw images: [size, height, width], or [size, height, width, 3] in colour."""

    def refuse_classes(self, labels: Any) -> None:
        """For models that know no classes: an error where one is asked for."""
        if labels is not None:
            raise UserError(f"{self.path} is a model of kind {self.kind!r}: it knows no classes, and cannot draw one")

    def log_prob(self, images: ImageSet | Pixels) -> NDArray[np.float64]:
        """log p of each image in nats, where the model has a density or an estimate of it."""
        raise UserError(f"{self.path} is a model of kind {self.kind!r}: it draws images, but has no density")

    @abstractmethod
    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """How good the model is on images of `source`, or on the run's test or validation images."""

    def batches(self, images: ImageSet) -> list[ImageBatch]:
        """Images as the model reads them; pixels that are drawn are the same every time."""
        return [batch.to(self.device) for batch in all_batches(images, BATCH, self.config.image_data.values)]

    def held_out(self, source: str | None = None) -> ImageSet:
        """The images of `source`, or the run's test or validation images."""
        return held_out_images(self.config, source)

    @property
    def signature(self) -> str:
        """How `figures` are computed, in a form to publish beside them."""
        return f"pixels {self.config.image_data.values}; natural logarithms per image; seqloom {__version__}"

    @property
    def kind(self) -> str:
        """Which kind of model this is."""
        return self.config.model.kind

    @property
    def parameters(self) -> int:
        """How many numbers the model learned."""
        return sum(parameter.numel() for parameter in self.model.parameters())

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        device: torch.device = next(self.model.parameters()).device
        return device


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A block whose random numbers follow from `seed`; those outside go on as if it had not been there."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield


def as_pixels(images: Tensor) -> Pixels:
    """Images [rows, channels, height, width] from 0 to 1 as bytes: [rows, height, width], colours last if any."""
    levels = images.detach().float().clamp(0, 1).mul(LEVELS).round().to(torch.uint8).cpu().numpy()
    return levels[:, 0] if levels.shape[1] == 1 else levels.transpose(0, 2, 3, 1)
