"""Trained adversarial networks: images out, and no density."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema import GanConfig
from seqloom.data.images import ImageSet
from seqloom.errors import UserError
from seqloom.metrics import Scored
from seqloom.metrics.frechet import class_counts
from seqloom.models.adversarial import Gan
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_classifier import TrainedImageClassifier
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.image_materials import chosen, prepare_images
from seqloom.runs.images import BATCH, Pixels, TrainedImageModel, as_pixels
from seqloom.runs.judges import Judge, compare_images, load_judge
from seqloom.runs.latent import WAYS, Way
from seqloom.training import choose_device, load_model_weights, load_weights
from seqloom.version import __version__

MOST = 5000  # images that a comparison takes from each side
FRESH = 1  # the seed of its noise: not that by which validation chose the weights


class TrainedGan(TrainedImageModel):
    """What `seqloom.load` gives back for a generative adversarial network."""

    def __init__(self, model: Gan, images: ImageFormat, config: RunConfig, path: Path) -> None:
        super().__init__(model, config, path)
        self.images = images

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> Self:
        """A run folder, with its best weights."""
        folder = RunFolder.open(path)
        config, images = folder.config(), ImageFormat.read(folder)
        assert isinstance(config.model, GanConfig)
        model = Gan(config.model, images.shape, len(images.classes))
        load_model_weights(model, load_weights(folder.weights_file), str(folder.weights_file))
        return cls(model.to(choose_device(device)).eval(), images, config, folder.path)

    def sample(
        self, size: int, seed: int = 0, labels: Sequence[int | str] | int | str | None = None, **_: Any
    ) -> Pixels:
        """Draw images: [size, height, width], or [size, height, width, 3] in colour.

        `labels` are classes by name or number, one for all or one for each; without any, a model that knows classes
        draws all of them in turn.
        """
        return draw(self.model, size, seed, self._numbers(labels, size))

    @torch.inference_mode()
    def decode(
        self, codes: NDArray[np.floating] | Tensor, labels: Sequence[int | str] | int | str | None = None
    ) -> Pixels:
        """The images of noise vectors, [images, latent]."""
        noise = torch.as_tensor(codes, dtype=torch.float32, device=self.device)
        return as_pixels(self.model.decode(noise, self._numbers(labels, len(noise))))

    def codes(self, size: int, seed: int = 0) -> NDArray[np.float32]:
        """The noise vectors that `sample` makes images of, [size, latent]."""
        drawn: NDArray[np.float32] = self.model.noise(size, seed).cpu().numpy()
        return drawn

    def interpolate(self, paths: int, steps: int = 9, seed: int = 0, way: Way = "spherical") -> Pixels:
        """From sample to sample through the noise between them: [paths * steps, height, width], path after path."""
        start, end = self.model.noise(paths, seed), self.model.noise(paths, seed + 1)
        labels = every_class(self.model, paths)
        noise = WAYS[way](start, end, steps).flatten(0, 1)
        return self.decode(noise, None if labels is None else labels.repeat_interleave(steps).tolist())

    def _numbers(self, labels: Sequence[int | str] | int | str | None, size: int) -> Tensor | None:
        if not self.model.classes:
            if labels is not None:
                raise UserError(f"{self.path} was trained without classes: train with model.conditional=true")
            return None
        if labels is None:
            return every_class(self.model, size)
        return torch.tensor(self.images.numbers(labels, size, self.path), device=self.device)

    @cached_property
    def judge(self) -> Judge:
        """What samples are compared with real images by."""
        return load_judge(RunFolder(self.path), self.learned, self.device.type)

    @cached_property
    def learned(self) -> ImageSet:
        """The training images."""
        return prepare_images(self.config).train

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """Samples beside held-out images, in the features of the judge; and training images beside them, as many."""
        real = some(self.held_out(source))
        real_again = some(self.learned, len(real))
        drawn = ImageSet(self.sample(len(real), FRESH), None)
        found = compare_images(self.judge, real, drawn)
        found["frechet_distance_real"] = compare_images(self.judge, real, real_again)["frechet_distance"]
        counts = self.class_counts(len(real), FRESH)
        if counts is not None:
            shares = 100 * counts / counts.sum()
            found["classes_drawn"] = int((counts > 0).sum())
            found |= {"rarest_class": float(shares.min()), "commonest_class": float(shares.max())}
        signature = f"{self.judge.name}; {len(real)} images a side; seqloom {__version__}"
        return {name: Scored(value, signature) for name, value in found.items()}

    def class_counts(self, size: int, seed: int = 0) -> NDArray[np.int64] | None:
        """How many of `size` samples the judge takes for each class, where it is a classifier."""
        if not isinstance(self.judge, TrainedImageClassifier):
            return None
        return class_counts(self.judge.log_probs(self.sample(size, seed)))


@torch.inference_mode()
def draw(model: Gan, size: int, seed: int, labels: Tensor | None) -> Pixels:
    """Images of the noise that follows from a seed."""
    noise = model.noise(size, seed)
    drawn = []
    for first in range(0, size, BATCH):
        rows = slice(first, first + BATCH)
        drawn.append(as_pixels(model.decode(noise[rows], None if labels is None else labels[rows])))
    return np.concatenate(drawn)


def every_class(model: Gan, size: int) -> Tensor | None:
    """All classes in turn, where the model knows classes."""
    return torch.arange(size, device=model.device) % model.classes if model.classes else None


def some(images: ImageSet, most: int = MOST) -> ImageSet:
    """At most so many images, the same ones every time."""
    if len(images) <= most:
        return images
    return chosen(images, np.random.default_rng(0).choice(len(images), most, replace=False))
