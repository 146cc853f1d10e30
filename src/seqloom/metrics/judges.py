"""What drawn images are compared with real ones by: the features of a classifier, or principal components of pixels."""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from seqloom.data.image_batches import LEVELS
from seqloom.data.images import ImageSet
from seqloom.metrics.frechet import classifier_score, frechet_distance, precision_recall

COMPONENTS = 64
FITTED = 2000  # images that principal components are found in
NEIGHBOURS = 3


class Judge(Protocol):
    """Gives images features, in which those that look alike lie near each other; it may know classes."""

    @property
    def name(self) -> str:
        """What features these are, to stand beside every figure that rests on them."""

    def features(self, images: ImageSet) -> NDArray[np.float32]:
        """A vector for each image, [images, features]."""

    def log_probs(self, images: ImageSet) -> NDArray[np.float32] | None:
        """log p of every class for each image, [images, classes], if the judge knows any."""


class PixelComponents:
    """The largest principal components of training images: a judge where there are no classes to learn features by."""

    def __init__(self, images: ImageSet) -> None:
        pixels = _flat(images)[:FITTED]
        self.mean = pixels.mean(0)
        _, _, directions = np.linalg.svd(pixels - self.mean, full_matrices=False)
        self.directions = directions[:COMPONENTS]

    @property
    def name(self) -> str:
        """How many components these are."""
        return f"{len(self.directions)} principal components of pixels"

    def features(self, images: ImageSet) -> NDArray[np.float32]:
        """[images, components]"""
        return (_flat(images) - self.mean) @ self.directions.T

    def log_probs(self, images: ImageSet) -> None:
        """There are no classes."""


def compare_images(judge: Judge, real: ImageSet, drawn: ImageSet) -> dict[str, float]:
    """Drawn images beside real ones: distance, fidelity, coverage, and how clear and varied the classes are."""
    features, other = judge.features(real), judge.features(drawn)
    figures = {"frechet_distance": frechet_distance(features, other)}
    if min(len(features), len(other)) > NEIGHBOURS:
        shares = precision_recall(features, other, NEIGHBOURS)
        figures |= {"precision": 100 * shares.precision, "recall": 100 * shares.recall}
    log_probs = judge.log_probs(drawn)
    if log_probs is not None:
        figures["classifier_score"] = classifier_score(log_probs)
    return figures


def _flat(images: ImageSet) -> NDArray[np.float32]:
    return images.images.reshape(len(images), -1).astype(np.float32) / np.float32(LEVELS)
