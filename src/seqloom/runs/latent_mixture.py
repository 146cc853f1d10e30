"""Trained mixtures of Bernoullis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.config.schema.latent import MixtureConfig
from seqloom.data.images import ImageSet
from seqloom.metrics import Scored
from seqloom.models.latent import BernoulliMixture
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.images import Pixels, TrainedImageModel, as_pixels
from seqloom.training import choose_device, load_model_weights, load_weights


class TrainedMixture(TrainedImageModel):
    """What `seqloom.load` gives back for a mixture of Bernoullis."""

    model: BernoulliMixture

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> TrainedMixture:
        """A run folder."""
        folder = RunFolder.open(path)
        config = folder.config()
        assert isinstance(config.model, MixtureConfig)
        model = BernoulliMixture(config.model, ImageFormat.read(folder).shape)
        load_model_weights(model, load_weights(folder.weights_file), str(folder.weights_file))
        return cls(model.to(choose_device(device)).eval(), config, folder.path)

    def sample(self, size: int, seed: int = 0, labels: None = None, **_: Any) -> Pixels:
        """A component for each image, then its pixels one by one."""
        self.refuse_classes(labels)
        return as_pixels(self.model.draw(size, torch.Generator().manual_seed(seed)))

    def components(self) -> Pixels:
        """The expected image of each component, the most frequent first."""
        order = self.model.log_shares.argsort(descending=True)
        return as_pixels(self.model.means()[order])

    def log_prob(self, images: ImageSet | Pixels) -> NDArray[np.float64]:
        """log p of each image in nats, exactly."""
        given = images if isinstance(images, ImageSet) else ImageSet(images, None)
        return torch.cat([self.model.log_prob(batch.images).double() for batch in self.batches(given)]).cpu().numpy()

    def responsibilities(self, images: ImageSet | Pixels) -> NDArray[np.float32]:
        """p(component | image), [count, components]."""
        given = images if isinstance(images, ImageSet) else ImageSet(images, None)
        return torch.cat([self.model.responsibilities(batch.images) for batch in self.batches(given)]).cpu().numpy()

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """The mean log p of images, and how many components are used by them."""
        images = self.held_out(source)
        used = len(np.unique(self.responsibilities(images).argmax(1)))
        return {
            "log_prob": Scored(float(self.log_prob(images).mean()), f"exact; {self.signature}"),
            "components_used": Scored(used, f"most responsible for an image; {self.signature}"),
            "images": Scored(len(images), self.signature),
        }
