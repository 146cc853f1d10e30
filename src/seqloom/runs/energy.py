"""Trained restricted Boltzmann machines: images in, images and numbers out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema import AnnealingConfig, RbmConfig
from seqloom.data.images import ImageSet
from seqloom.errors import DataError, UserError
from seqloom.files import sha256, write_json
from seqloom.metrics import Scored
from seqloom.metrics.annealing import Normaliser, log_z_above, normaliser
from seqloom.models.energy import BernoulliUnits, RestrictedBoltzmannMachine, build_rbm
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.image_materials import image_shape
from seqloom.runs.images import Pixels, TrainedImageModel, as_pixels, seeded
from seqloom.training import choose_device, load_model_weights, load_weights

BURN_IN = 1000  # steps of Gibbs sampling from noise to an image
NORMALISER = "normaliser.json"
DOUBTFUL = 1.0  # nats between annealing forward and back from which on log Z is called uncertain


class TrainedEnergyModel(TrainedImageModel):
    """What machines and networks of them share."""

    def __init__(self, model: Any, images: ImageFormat, config: RunConfig, path: Path) -> None:
        super().__init__(model, config, path)
        self.images = images

    def rows(self, images: ImageSet | Pixels) -> list[Tensor]:
        """Images as rows of pixels, some hundred at a time."""
        given = images if isinstance(images, ImageSet) else ImageSet(np.asarray(images), None)
        if image_shape(given) != self.images.shape:
            raise DataError(
                f"images of shape {image_shape(given)}, but {self.path} learned from {self.images.shape} "
                "(channels, height, width)"
            )
        return [batch.images.flatten(1) for batch in self.batches(given)]

    def as_images(self, rows: Tensor) -> Pixels:
        """Rows of pixels, or of weights from 0 to 1, as images."""
        return as_pixels(rows.reshape(-1, *self.images.shape))

    @property
    def parameters(self) -> int:
        """How many numbers the model learned; what chains begin with is not among them."""
        return sum(parameter.numel() for parameter in self.model.parameters() if parameter.requires_grad)


class TrainedRbm(TrainedEnergyModel):
    """What `seqloom.load` gives back for a restricted Boltzmann machine."""

    model: RestrictedBoltzmannMachine

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> Self:
        """A run folder, with its best weights."""
        folder = RunFolder.open(path)
        config, images = folder.config(), ImageFormat.read(folder)
        assert isinstance(config.model, RbmConfig)
        empty = torch.zeros(int(np.prod(images.shape)))
        model = build_rbm(config.model, empty, empty)
        load_model_weights(model, load_weights(folder.weights_file), str(folder.weights_file))
        return cls(model.to(choose_device(device)).eval(), images, config, folder.path)

    @torch.inference_mode()
    def sample(
        self, size: int, seed: int = 0, steps: int = BURN_IN, mean: bool = True, labels: Any = None, **_: Any
    ) -> Pixels:
        """Draw images: chains of Gibbs sampling, begun at noise, after so many steps.

        With `mean`, pixels are shown by their mean given the hidden units, which is easier to look at; else as drawn.
        """
        if labels is not None:
            raise UserError(f"{self.path} knows no classes: a deep belief network with model.labels draws them")
        return self.chains(size, [steps], seed, mean)[0]

    @torch.inference_mode()
    def chains(self, size: int, moments: list[int], seed: int = 0, mean: bool = True) -> list[Pixels]:
        """Where chains of Gibbs sampling, begun at noise, stand after numbers of steps in rising order."""
        found = []
        with seeded(seed):
            visible, done = self.model.noise(size), 0
            for moment in moments:
                visible, done = self.model.gibbs(visible, max(0, moment - 1 - done)), max(done, moment - 1)
                hidden = self.model.sample_hidden(visible)
                shown = self.model.visible_mean(hidden) if mean else self.model.sample_visible(hidden)
                found.append(self.as_images(shown))
        return found

    @torch.inference_mode()
    def reconstruct(self, images: ImageSet | Pixels, seed: int = 0) -> Pixels:
        """What comes back of images through one sample of the hidden units."""
        with seeded(seed):
            return np.concatenate([self.as_images(self.model.reconstruction(rows)) for rows in self.rows(images)])

    @torch.inference_mode()
    def transform(self, images: ImageSet | Pixels) -> NDArray[np.float32]:
        """The means of the hidden units: features for other tasks, [images, hidden]."""
        found: NDArray[np.float32] = (
            torch.cat([self.model.hidden_mean(rows) for rows in self.rows(images)]).cpu().numpy()
        )
        return found

    @torch.inference_mode()
    def log_prob(self, images: ImageSet | Pixels) -> NDArray[np.float64]:
        """log p of each image in nats; log Z is estimated on first use, and kept in the run folder."""
        log_z = self.normaliser().log_z
        found: NDArray[np.float64] = (
            torch.cat([self.model.log_prob(rows, log_z) for rows in self.rows(images)]).cpu().numpy()
        )
        return found

    def normaliser(self) -> Normaliser:
        """log Z and its error bars."""
        assert isinstance(self.config.model, RbmConfig)
        return kept_normaliser(self.model, self.config.model.annealing, RunFolder(self.path))

    @torch.inference_mode()
    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """The log-likelihood with its error bars, and what is watched in training, on images of `source`."""
        assert isinstance(self.config.model, RbmConfig)
        held_out, found = self.held_out(source), self.normaliser()
        mean, annealing = float(self.log_prob(held_out).mean()), self.config.model.annealing
        begin = self.rows(held_out)[0][: annealing.chains]
        figures = likelihood_figures("log_likelihood", mean, found, self.model, begin, annealing.steps, self.signature)
        with seeded(0):
            rows = torch.cat(self.rows(held_out))
            error = float((self.model.reconstruction(rows) - rows).square().sum(1).mean())
            figures["reconstruction_error"] = Scored(
                error, f"squared, pixels summed; monitoring only; {self.signature}"
            )
            if isinstance(self.model.visible, BernoulliUnits):
                pseudo = float(self.model.pseudo_log_prob(rows).mean())
                figures["pseudo_likelihood"] = Scored(pseudo, f"one pixel an image; monitoring only; {self.signature}")
        return figures


def likelihood_figures(
    name: str,
    mean: float,
    found: Normaliser,
    machine: RestrictedBoltzmannMachine,
    images: Tensor,
    steps: int,
    signature: str,
) -> dict[str, Scored]:
    """A mean log-likelihood, and bars that reach down to what annealing from `images` back to the base gives."""
    with seeded(0):
        above = log_z_above(machine, images, steps)
    method = found.method
    if above - found.log_z > DOUBTFUL:
        method += (
            f", UNCERTAIN: annealing back from {len(images)} images gives {above - found.log_z:.1f} nats more; raise "
            "model.annealing.steps, and if that does not help, train with a lower learning rate"
        )
    bars = "three standard deviations of the mean weight, and on the low side annealing back from images"
    return {
        name: Scored(mean, f"{method}; {signature}"),
        f"{name}_low": Scored(mean + found.log_z - max(found.high, above), f"{bars}; {method}; {signature}"),
        f"{name}_high": Scored(mean + found.log_z - found.low, f"{bars}; {method}; {signature}"),
    }


def kept_normaliser(machine: RestrictedBoltzmannMachine, config: AnnealingConfig, folder: RunFolder) -> Normaliser:
    """log Z of the machine of a run: what the folder says, if it says so of these weights, else computed and kept."""
    file, weights = folder.path / NORMALISER, sha256(folder.weights_file)
    wanted = {"weights": weights, "chains": config.chains, "steps": config.steps}
    try:
        kept = json.loads(file.read_text(encoding="utf-8"))
        if {key: kept.pop(key) for key in wanted} == wanted:
            return Normaliser(**kept)
    except (OSError, ValueError, KeyError, TypeError):
        pass  # not there, or not of this version: computed anew
    with seeded(0):
        found = normaliser(machine, config.chains, config.steps)
    write_json(file, {**wanted, **found.as_dict()})
    return found
