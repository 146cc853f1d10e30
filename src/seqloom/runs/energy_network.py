"""Trained deep belief networks: images in, images, classes and numbers out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema import DbnConfig
from seqloom.data.image_batches import Values, all_batches
from seqloom.data.images import ImageSet
from seqloom.errors import UserError
from seqloom.metrics import Scored
from seqloom.metrics.annealing import Normaliser
from seqloom.models.energy import DeepBeliefNetwork, DeepClassifier
from seqloom.runs.energy import BURN_IN, TrainedEnergyModel, kept_normaliser, likelihood_figures
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.images import BATCH, Pixels, seeded
from seqloom.training import choose_device, load_model_weights, load_weights
from seqloom.version import __version__

SAMPLES = 10  # of q, for each image: the bound is their mean
FINE_TUNED = "fine-tuning"
"""The part of a run folder that holds the classifier."""


class TrainedDbn(TrainedEnergyModel):
    """What `seqloom.load` gives back for a deep belief network."""

    model: DeepBeliefNetwork

    def __init__(
        self,
        model: DeepBeliefNetwork,
        classifier: DeepClassifier | None,
        images: ImageFormat,
        config: RunConfig,
        path: Path,
    ) -> None:
        super().__init__(model, images, config, path)
        self.classifier = classifier

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> Self:
        """A run folder."""
        folder, where = RunFolder.open(path), choose_device(device)
        config, images = folder.config(), ImageFormat.read(folder)
        assert isinstance(config.model, DbnConfig)
        model = build_network(config.model, images)
        load_model_weights(model, load_weights(folder.weights_file), str(folder.weights_file))
        classifier = None
        if config.model.fine_tuning.epochs:
            classifier, file = (
                build_classifier(config.model, images),
                folder.path / FINE_TUNED / folder.weights_file.name,
            )
            load_model_weights(classifier, load_weights(file), str(file))
            classifier.to(where).eval()
        return cls(model.to(where).eval(), classifier, images, config, folder.path)

    @torch.inference_mode()
    def sample(
        self,
        size: int,
        seed: int = 0,
        steps: int = BURN_IN,
        labels: Sequence[int | str] | int | str | None = None,
        **_: Any,
    ) -> Pixels:
        """Draw images: Gibbs sampling in the top machine, begun at noise, and one pass down.

        `labels` are classes by name or number, one for all or one for each, for a network trained with them.
        """
        with seeded(seed):
            return self.as_images(self.model.draw(size, steps, self._numbers(labels, size)))

    def _numbers(self, labels: Sequence[int | str] | int | str | None, size: int) -> Tensor | None:
        if labels is None:
            return None
        if not self.model.classes:
            raise UserError(f"{self.path} was trained without classes: set model.labels=true")
        return torch.tensor(self.images.numbers(labels, size, self.path), device=self.device)

    @torch.inference_mode()
    def log_prob(self, images: ImageSet | Pixels) -> NDArray[np.float64]:
        """A lower bound of log p of each image in nats; log Z of the top machine is kept in the run folder."""
        log_z = self.normaliser().log_z
        with seeded(0):
            parts = [self.model.bound(rows, log_z, SAMPLES) for rows in self.rows(images)]
        found: NDArray[np.float64] = torch.cat(parts).cpu().numpy()
        return found

    @torch.inference_mode()
    def _arriving(self, rows: Tensor) -> Tensor:
        """What the top machine sees of images, with the classes that it finds likeliest."""
        with seeded(0):
            labels = self.model.predict(rows) if self.model.classes else None
            return self.model.joined(self.model.rise(rows)[-1], labels)

    def normaliser(self) -> Normaliser:
        """log Z of the top machine and its error bars."""
        assert isinstance(self.config.model, DbnConfig)
        return kept_normaliser(self.model.top, self.config.model.annealing, RunFolder(self.path))

    @torch.inference_mode()
    def predict(self, images: ImageSet | Pixels) -> list[str]:
        """The class of each image: by the fine-tuned classifier, or by the top machine where there is none."""
        given = images if isinstance(images, ImageSet) else ImageSet(np.asarray(images), None)
        values = self.config.image_data.values
        if self.classifier is not None:
            parts = [
                self.classifier.log_probs(batch.images.to(self.device)).argmax(1)
                for batch in all_batches(given, BATCH, read_as(values))
            ]
        elif self.model.classes:
            parts = [self.model.predict(rows) for rows in self.rows(given)]
        else:
            raise UserError(f"{self.path} knows no classes: set model.labels=true or model.fine_tuning.epochs")
        return [self.images.classes[number] for number in torch.cat(parts).tolist()]

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """The lower bound of the log-likelihood with its error bars, and the share of wrong classes if it knows any."""
        assert isinstance(self.config.model, DbnConfig)
        held_out = self.held_out(source)
        figures: dict[str, Scored] = {}
        if self.config.model.pretrain:
            annealing, rows = self.config.model.annealing, self.rows(held_out)[0]
            begin = self._arriving(rows[: annealing.chains])
            figures = likelihood_figures(
                "log_likelihood_bound",
                float(self.log_prob(held_out).mean()),
                self.normaliser(),
                self.model.top,
                begin,
                annealing.steps,
                f"variational lower bound, {SAMPLES} samples; {self.signature}",
            )
        if held_out.labels is not None and (self.classifier is not None or self.model.classes):
            true = [self.images.classes[number] for number in held_out.labels.tolist()]
            wrong = sum(a != b for a, b in zip(self.predict(held_out), true, strict=True))
            how = "fine-tuned classifier" if self.classifier is not None else "classes of the top machine"
            figures["error"] = Scored(100 * wrong / len(true), f"% of images; {how}; seqloom {__version__}")
        return figures


def build_network(config: DbnConfig, images: ImageFormat) -> DeepBeliefNetwork:
    """The network of a configuration, with fresh weights."""
    return DeepBeliefNetwork(layer_sizes(config, images), len(images.classes) if config.labels else 0)


def build_classifier(config: DbnConfig, images: ImageFormat) -> DeepClassifier:
    """The classifier of a configuration, with fresh weights."""
    return DeepClassifier(layer_sizes(config, images), len(images.classes), config.fine_tuning.dropout)


def layer_sizes(config: DbnConfig, images: ImageFormat) -> list[int]:
    """Units of each layer, the pixels first."""
    return [int(np.prod(images.shape)), *config.sizes]


def read_as(values: Values) -> Values:
    """How a classifier reads pixels: as their mean, where they would be drawn."""
    return "grey" if values == "sampled" else values
