"""Trained models with codes behind images: what autoencoders, PCA and variational autoencoders share."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.image_batches import ImageBatch
from seqloom.data.images import ImageSet
from seqloom.data.materials import prepare_images
from seqloom.errors import DataError, UserError, did_you_mean
from seqloom.models.latent.paths import REACH, Way, path_between, traversal
from seqloom.reports.html import Markup
from seqloom.runs.capabilities import AddsCodes, DrawsPaths, DrawsTraversals, HasCodes, Pixels
from seqloom.runs.image_model import TrainedImageModel, labels_of

Codes = NDArray[np.float32]
SHOWN = 12  # images in a row of a report
SAMPLES = 60  # images that a report draws
PATHS = 5  # that a report shows
STEPS = 11  # images on each of them
MAPPED = 1000  # codes on a map


@dataclass(frozen=True)
class Spread:
    """How the numbers of codes are spread over images."""

    order: list[int]
    """The numbers, those first that tell most of an image."""
    mean: Tensor
    """[size]"""
    deviation: Tensor
    """[size]"""


class TrainedCodeModel(TrainedImageModel, HasCodes, DrawsPaths, DrawsTraversals, AddsCodes):
    """Images to codes and back."""

    @abstractmethod
    def encode(self, batch: ImageBatch) -> Tensor:
        """The codes of a batch, [rows, size]."""

    @abstractmethod
    def decode(self, codes: Codes | Tensor, labels: NDArray[np.integer] | None = None) -> Pixels:
        """The images of codes [count, size]."""

    @abstractmethod
    def spread(self, images: ImageSet) -> Spread:
        """How the numbers of codes are spread, and which of them tell most of some images."""

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

    # ----------------------------------------------------------------------------------- one number at a time

    def traverse(self, images: ImageSet, rows: int = 8, steps: int = STEPS, reach: float = REACH) -> Pixels:
        """The first image with one number of its code moved at a time, a row for each of those that tell most."""
        first, spread = images.first(1), self.spread(images)
        code = torch.from_numpy(self.transform(first)[0])
        codes = traversal(code, spread.order[:rows], steps, reach, spread.mean, spread.deviation).flatten(0, 1)
        return self.decode(codes, None if first.labels is None else first.labels.repeat(len(codes)))

    def draw_traversal(self, source: str | None, rows: int, steps: int, reach: float) -> Pixels:
        """Of the first image of `source`, or of the held-out ones."""
        return self.traverse(self.held_out(source), rows, steps, reach)

    # ---------------------------------------------------------------------------------------------- arithmetic

    def term(self, name: str) -> ImageSet:
        """The training images of a class, by its name or number; else the images of a file, a folder or a set."""
        number = self.images.known(name)
        if number is None:
            try:
                return self.read(name).images
            except DataError as error:
                meant = did_you_mean(name, self.images.classes)
                raise UserError(f"{name!r} is no class of {self.path}{meant}, nor are there images: {error}") from error
        images = prepare_images(self.data).train
        of_class = np.flatnonzero(labels_of(images, self.data.train) == number)
        if not len(of_class):
            raise DataError(f"no training image of {self.path} is of class {name!r}: name images of it")
        return images.chosen(of_class)

    def arithmetic(self, terms: Sequence[tuple[int, ImageSet | Pixels]]) -> Pixels:
        """The image of the mean code of each term, and last that of their sum, each with its sign, 1 or -1.

        A model that is given classes decodes each with its own, and the sum with that of the last term added.
        """
        sets = [self.checked(images) for _, images in terms]
        means = np.stack([self.transform(images).mean(0) for images in sets])
        signs = np.array([[sign] for sign, _ in terms], np.float32)
        codes = np.concatenate([means, (signs * means).sum(0, keepdims=True)])
        last = max(number for number, (sign, _) in enumerate(terms) if sign > 0)
        labels = [images.labels[0] for images in (*sets, sets[last]) if images.labels is not None]
        return self.decode(codes, np.array(labels) if len(labels) == len(codes) else None)


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
