"""Trained models with codes behind images: what autoencoders, PCA and variational autoencoders share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.image_batches import ImageBatch
from seqloom.data.images import ImageSet
from seqloom.errors import DataError
from seqloom.models.latent.paths import Way, path_between
from seqloom.reports.html import Markup
from seqloom.runs.image_model import TrainedImageModel
from seqloom.runs.trained import DrawsPaths, Pixels

Codes = NDArray[np.float32]
SHOWN = 12  # images in a row of a report
SAMPLES = 60  # images that a report draws
PATHS = 5  # that a report shows
STEPS = 11  # images on each of them
MAPPED = 1000  # codes on a map


class TrainedCodeModel(TrainedImageModel, DrawsPaths):
    """Images to codes and back."""

    @abstractmethod
    def encode(self, batch: ImageBatch) -> Tensor:
        """The codes of a batch, [rows, size]."""

    @abstractmethod
    def decode(self, codes: Codes | Tensor, labels: NDArray[np.integer] | None = None) -> Pixels:
        """The images of codes [count, size]."""

    @torch.inference_mode()
    def transform(self, images: ImageSet | Pixels) -> Codes:
        """The codes of images, [count, size], as a step of a scikit-learn pipeline gives them."""
        return torch.cat([self.encode(batch) for batch in self.batches(images)]).cpu().numpy()

    def reconstruct(self, images: ImageSet | Pixels) -> Pixels:
        """Images through their codes and back."""
        given = self.checked(images)
        return self.decode(self.transform(given), given.labels)

    def interpolate(
        self, first: ImageSet | Pixels, second: ImageSet | Pixels, steps: int = 9, way: Way = "linear"
    ) -> Pixels:
        """From each image of `first` to its partner in `second`: [count * steps, height, width], path after path."""
        start, end = (torch.from_numpy(self.transform(images)) for images in (first, second))
        codes = path_between(way, start, end, steps).flatten(0, 1)
        labels = self.checked(first).labels
        return self.decode(codes, None if labels is None else labels.repeat(steps))

    def draw_paths(self, source: str | None, paths: int, steps: int, way: Way) -> Pixels:
        """Between images of `source`, or held-out ones: the first ones and as many that follow them."""
        images = self.held_out(source)
        if len(images) < 2 * paths:
            raise DataError(f"{paths} paths need {2 * paths} images, and there are {len(images)}: lower --paths")
        return self.interpolate(images.first(paths), images.first(paths, after=paths), steps, way)


def shown_paths(trained: TrainedCodeModel, images: ImageSet) -> tuple[Pixels, int]:
    """Paths between images for a report, and how many images of them stand in a row."""
    pairs = min(PATHS, len(images) // 2)
    return trained.interpolate(images.first(pairs), images.first(pairs, after=pairs), STEPS), STEPS


def code_map(trained: TrainedCodeModel, images: ImageSet, places: Sequence[int]) -> list[Markup]:
    """Where images lie in the plane of two numbers of their codes, if codes have two."""
    from seqloom.reports.latent import code_map_section

    if len(places) < 2:
        return []
    mapped = images.first(MAPPED)
    return [code_map_section(trained.transform(mapped)[:, places], mapped.labels, images.classes)]
