"""Trained models by their energy: what restricted machines, networks of them and general machines share."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config.schema.data import ImageData
from seqloom.config.schema.energy import AnnealingConfig
from seqloom.data.image_batches import all_batches
from seqloom.data.images import ImageSet
from seqloom.data.pixel_masks import known_pixels
from seqloom.errors import CheckpointError, SeqloomError
from seqloom.files import checksum, read_sealed, write_sealed
from seqloom.metrics.annealing import Normaliser, log_z_above, normaliser
from seqloom.metrics.corpus_scores import Scored
from seqloom.models.energy.boltzmann import BoltzmannMachine
from seqloom.models.energy.inference import chances, most_probable, summed
from seqloom.models.energy.rbm import RestrictedBoltzmannMachine
from seqloom.models.energy.search import CHAINS, SWEEPS, Found, anneal
from seqloom.models.energy.units import BernoulliUnits, LabelledUnits
from seqloom.runs.capabilities import Anneals, Completes, Draws, HasDensity, Pixels
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_model import BATCH, TrainedImageModel, as_pixels
from seqloom.runs.stages import Figures
from seqloom.training.randomness import seeded

BURN_IN = 1000  # steps of Gibbs sampling from noise to an image
NORMALISER = "normaliser.json"
DOUBTFUL = 1.0  # nats between annealing forward and back from which on log Z is called uncertain
UNKNOWN = 0.4  # how bright a pixel is shown that is not known
WATCHED = 5000  # images at most whose free energies are compared at each validation


class TrainedEnergyModel(TrainedImageModel, Draws, HasDensity):
    """What machines and networks of them share."""

    def rows(self, images: ImageSet | Pixels) -> list[Tensor]:
        """Images as rows of pixels, some hundred at a time."""
        return [batch.images.flatten(1) for batch in self.batches(images)]

    def as_images(self, rows: Tensor) -> Pixels:
        """Rows of pixels, or of weights from 0 to 1, as images; hidden units may stand behind the pixels."""
        return as_pixels(rows[:, : self.images.pixels].reshape(-1, *self.images.shape))

    def normaliser_of(self, machine: RestrictedBoltzmannMachine) -> Normaliser:
        """log Z of a machine of this run: what the folder says, if it says so of these weights, else computed and
        kept."""
        annealing: AnnealingConfig = self.config.model.annealing
        file = self.path / NORMALISER
        recipe = {
            "weights": checksum(RunFolder(self.path).weights_file),
            "chains": annealing.chains,
            "steps": annealing.steps,
        }
        with suppress(CheckpointError, KeyError, TypeError, ValueError, OverflowError):  # there is none, or a bad one
            kept = read_sealed(file)
            if {key: kept.pop(key) for key in recipe} == recipe:
                return Normaliser(float(kept["log_z"]), float(kept["low"]), float(kept["high"]), str(kept["method"]))
        with seeded(0):
            computed = normaliser(machine, annealing.chains, annealing.steps)
        with suppress(SeqloomError):  # a folder that can only be read: computed anew next time
            write_sealed(file, {**recipe, **computed.as_dict()})
        return computed

    def likelihood_figures(
        self, name: str, mean: float, machine: RestrictedBoltzmannMachine, images: Tensor, signature: str
    ) -> dict[str, Scored]:
        """A mean log-likelihood, and bars that reach down to what annealing from `images` back to the base gives."""
        estimate = self.normaliser_of(machine)
        with seeded(0):
            above = log_z_above(machine, images, self.config.model.annealing.steps)
        method = estimate.method
        if above - estimate.log_z > DOUBTFUL:
            method += (
                f", UNCERTAIN: annealing back from {len(images)} images gives {above - estimate.log_z:.1f} nats more; "
                "raise model.annealing.steps, and if that does not help, train with a lower learning rate"
            )
        bars = "three standard deviations of the mean weight, and on the low side annealing back from images"
        low, high = mean + estimate.log_z - max(estimate.high, above), mean + estimate.log_z - estimate.low
        return {
            name: Scored(mean, f"{method}; {signature}"),
            f"{name}_low": Scored(low, f"{bars}; {method}; {signature}"),
            f"{name}_high": Scored(high, f"{bars}; {method}; {signature}"),
        }


@dataclass(frozen=True)
class Completion:
    """Images of which some pixels were known, and what the others are likely to be."""

    known: NDArray[np.bool_]
    """Which pixels were known, [pixels]."""
    images: NDArray[np.float32]
    """The images as the model reads them, [images, pixels]: 0 or 1."""
    chances: NDArray[np.float32]
    """p(on | the known pixels) of each pixel, [images, pixels]."""
    most_probable: NDArray[np.float32]
    """The unknown pixels of the lowest energy found, with the known ones, [images, pixels]."""
    alone: NDArray[np.bool_]
    """What each pixel is more often in the training images, [pixels]: all there is to say without the known ones."""
    log_prob: float | None
    """log p(unknown | known), nats per image; None where it could not be summed."""
    method: str
    """How the chances were found."""

    @property
    def accuracy(self) -> float:
        """Per cent of the unknown pixels that are what is more likely."""
        return self._right(self.chances > 0.5)

    @property
    def figures(self) -> dict[str, Scored]:
        """How good the completion is, beside what each pixel is most often."""
        signature = f"unknown pixels, {int((~self.known).sum())} of {len(self.known)} in each image; {self.method}"
        found = {
            "accuracy": Scored(self.accuracy, f"per cent; {signature}"),
            "most_probable_accuracy": Scored(
                self._right(self.most_probable > 0.5), f"per cent, by annealing; {signature}"
            ),
            "baseline_accuracy": Scored(self._right(self.alone), f"per cent, each pixel as most often; {signature}"),
        }
        if self.log_prob is not None:
            found["log_prob"] = Scored(self.log_prob, f"log p(unknown | known), nats per image; {signature}")
        return found

    def _right(self, guessed: NDArray[np.bool_]) -> float:
        right = np.broadcast_to(guessed, self.images.shape) == (self.images > 0.5)
        return 100 * float(right[:, ~self.known].mean())


class TrainedMachine(TrainedEnergyModel, Completes, Anneals):
    """What single machines of on-off units share: some pixels follow from others, and there are lowest energies."""

    @property
    @abstractmethod
    def machine(self) -> BoltzmannMachine:
        """As a general machine."""

    @torch.inference_mode()
    def complete(self, images: ImageSet | Pixels, keep: str = "top", sweeps: int = SWEEPS, seed: int = 0) -> Completion:
        """What the unknown pixels of images are likely to be, given the others, by a machine with these clamped.

        keep: the known pixels: `top`, `bottom`, `left`, `right` for a half, a share like `0.5` for so many at random,
            or the path of a picture whose light pixels are known.
        """
        machine = self.machine
        known = torch.from_numpy(known_pixels(keep, self.images.shape, seed).flatten().copy()).to(machine.device)
        rows = torch.cat(self.rows(images))
        exact = summed(machine, known)
        with seeded(seed):
            found = torch.cat([chances(machine, part, known, sweeps) for part in rows.split(BATCH)])
        return Completion(
            known.cpu().numpy(),
            rows.cpu().numpy(),
            found.float().cpu().numpy(),
            most_probable(machine, rows, known, sweeps, seed).float().cpu().numpy(),
            (machine.base[: machine.visible] > 0).cpu().numpy(),
            float(machine.conditional_log_prob(rows, known).mean()) if exact else None,
            "summed exactly" if exact else f"Gibbs sampling, {sweeps} sweeps",
        )

    def completion_rows(self, found: Completion, most: int) -> Pixels:
        """The first `most` images as a picture shows them: known, likely, most probable and true, row after row."""
        known = np.where(found.known, found.images, UNKNOWN).astype(np.float32)
        rows = (known, found.chances, found.most_probable, found.images)
        return np.concatenate([self.as_images(torch.from_numpy(row[:most])) for row in rows])

    def lowest(
        self,
        chains: int = CHAINS,
        sweeps: int = SWEEPS,
        hottest: float | None = None,
        coldest: float | None = None,
        seed: int = 0,
    ) -> Found:
        """States of low energy E(v, h), pixels first, by simulated annealing."""
        return anneal(self.machine, chains, sweeps, hottest, coldest, seed)


def all_rows(images: ImageSet, data: ImageData, most: int | None = None) -> Tensor:
    """Images as rows of pixels, the first `most` of them."""
    first = ImageSet(images.images[: most or len(images)], None)
    return torch.cat([batch.images.flatten(1) for batch in all_batches(first, len(first), data.values)])


@torch.inference_mode()
def watch(model: RestrictedBoltzmannMachine, learned: Tensor, held_out: Tensor, annealing: AnnealingConfig) -> Figures:
    """What a validation says of a machine: -log p of images held out above all.

    log Z is estimated from above: from below, the best weights would be those whose log Z is missed most.
    The gap is how much higher the free energy of images held out is than that of images learned from: it needs no
    normaliser, and grows when the machine learns images by heart (Hinton 2012, §6).
    """
    learned, held_out = learned.to(model.device), held_out.to(model.device)
    with seeded(0):  # the same noise every time, and training goes on as if nobody had looked
        log_z = log_z_above(model, held_out[: annealing.chains], annealing.valid_steps)
        free = model.free_energy(held_out).double().mean()
        figures = {
            "valid_loss": float(free) + log_z,
            "valid_reconstruction": float((model.reconstruction(held_out) - held_out).square().sum(1).mean()),
            "free_energy_gap": float(free - model.free_energy(learned).double().mean()),
        }
        if isinstance(model.visible, BernoulliUnits) and not isinstance(model.visible, LabelledUnits):
            figures["valid_pseudo_likelihood"] = float(model.pseudo_log_prob(held_out).mean())
    return figures


def as_array(parts: list[Tensor]) -> Any:
    """Batches of results as one array."""
    return torch.cat(parts).cpu().numpy()
