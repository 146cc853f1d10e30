"""Trained models by their energy: what restricted machines, networks of them and general machines share."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch import Tensor

from seqloom.config.schema.data import ImageData
from seqloom.config.schema.energy import AnnealingConfig
from seqloom.data.image_batches import all_batches
from seqloom.data.images import ImageSet
from seqloom.errors import CheckpointError, SeqloomError
from seqloom.files import checksum, read_sealed, write_sealed
from seqloom.metrics.annealing import Normaliser, log_z_above, normaliser
from seqloom.metrics.corpus_scores import Scored
from seqloom.models.energy.rbm import RestrictedBoltzmannMachine
from seqloom.models.energy.units import BernoulliUnits, LabelledUnits
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_model import TrainedImageModel, as_pixels
from seqloom.runs.stages import Figures
from seqloom.runs.trained import Draws, HasDensity, Pixels
from seqloom.training.randomness import seeded

BURN_IN = 1000  # steps of Gibbs sampling from noise to an image
NORMALISER = "normaliser.json"
DOUBTFUL = 1.0  # nats between annealing forward and back from which on log Z is called uncertain
WATCHED = 5000  # images at most whose free energies are compared at each validation


class TrainedEnergyModel(TrainedImageModel, Draws, HasDensity):
    """What machines and networks of them share."""

    def rows(self, images: ImageSet | Pixels) -> list[Tensor]:
        """Images as rows of pixels, some hundred at a time."""
        return [batch.images.flatten(1) for batch in self.batches(images)]

    def as_images(self, rows: Tensor) -> Pixels:
        """Rows of pixels, or of weights from 0 to 1, as images."""
        return as_pixels(rows.reshape(-1, *self.images.shape))

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
