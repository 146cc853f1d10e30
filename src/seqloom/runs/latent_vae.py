"""Trained variational autoencoders."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema.latent import VaeConfig
from seqloom.data.image_batches import ImageBatch
from seqloom.data.images import ImageSet
from seqloom.errors import UserError
from seqloom.metrics import Scored
from seqloom.models.latent import Vae, divergence, plane, traversal
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.images import Pixels, as_pixels, seeded
from seqloom.runs.latent import Codes, TrainedLatentModel
from seqloom.training import choose_device, load_model_weights, load_weights

BOUND = 50  # samples of the importance-weighted bound that is published
ACTIVE = 0.01  # a number of the code is used when its mean varies more than this over images


class TrainedVae(TrainedLatentModel):
    """What `seqloom.load` gives back for a variational autoencoder."""

    model: Vae

    def __init__(self, model: Vae, images: ImageFormat, config: RunConfig, path: Path) -> None:
        super().__init__(model, config, path)
        self.images = images

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> TrainedVae:
        """A run folder, with its best weights."""
        folder = RunFolder.open(path)
        config = folder.config()
        assert isinstance(config.model, VaeConfig)
        known = ImageFormat.read(folder)
        model = Vae(config.model, known.shape, len(known.classes) if config.model.conditional else 0)
        load_model_weights(model, load_weights(folder.weights_file), str(folder.weights_file))
        return cls(model.to(choose_device(device)).eval(), known, config, folder.path)

    # --------------------------------------------------------------------------------------------------- images

    @torch.inference_mode()
    def sample(
        self, size: int, seed: int = 0, labels: int | str | None = None, pixels: bool = False, **_: Any
    ) -> Pixels:
        """Images of codes from the prior: the expected image of each, or with `pixels` one whose pixels are drawn too.

        A conditional model draws of the class `labels`, by name or number, or of all classes in turn.
        """
        codes = torch.randn(size, self.model.config.size, generator=torch.Generator().manual_seed(seed))
        decoded = self._decoded(codes, self._numbers(size, labels))
        if not pixels:
            return as_pixels(self.model.pixels.mean(decoded))
        with seeded(seed):
            return as_pixels(self.model.pixels.draw(decoded))

    def _numbers(self, size: int, label: int | str | None) -> NDArray[np.integer] | None:
        if not self.model.classes:
            if label is not None:
                raise UserError(f"{self.path} knows no classes: train it with model.conditional=true")
            return None
        if label is None:
            return np.arange(size) % self.model.classes
        return np.full(size, self.images.number(label, self.path))

    def encode(self, batch: ImageBatch) -> Tensor:
        """The mean of q(z | x), [rows, size]."""
        return self.model.posterior(batch)[0]

    @torch.inference_mode()
    def decode(self, codes: Codes | Tensor, labels: NDArray[np.integer] | None = None) -> Pixels:
        """The expected images of codes [count, size]."""
        return as_pixels(self.model.pixels.mean(self._decoded(torch.as_tensor(codes), labels)))

    def _decoded(self, codes: Tensor, labels: NDArray[np.integer] | None) -> Tensor:
        known = None if labels is None else torch.from_numpy(np.asarray(labels, np.int64)).to(self.device)
        return self.model.decode(codes.float().to(self.device), known)

    # -------------------------------------------------------------------------------------------------- density

    def log_prob(self, images: ImageSet | Pixels, samples: int | None = None) -> NDArray[np.float64]:
        """log p of each image in nats, by importance sampling with `model.test_samples` codes."""
        samples = samples or self.model.config.test_samples
        with seeded(0):
            found = [self.model.log_prob(batch, samples) for batch in self.batches(self.checked(images))]
        return torch.cat(found).cpu().numpy()

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """log p by importance sampling, the bounds below it, and what sampling from the prior makes of it."""
        return self.measure(self.held_out(source), self.model.config.test_samples)

    @torch.inference_mode()
    def measure(self, images: ImageSet, samples: int) -> dict[str, Scored]:
        """The figures of some images, with `samples` codes for each."""
        model, found = self.model, dict[str, list[Tensor]]()
        with seeded(0):
            for batch in self.batches(self.checked(images)):
                rows: dict[str, Tensor] = {
                    "log_prob": model.log_prob(batch, samples),
                    "iwae": model.log_prob(batch, BOUND),
                    "elbo": model.elbo(batch, 10),
                    "prior_log_prob": model.prior_log_prob(batch, samples),
                    "divergence": divergence(*model.posterior(batch)).sum(-1),
                }
                for name, values in rows.items():
                    found.setdefault(name, []).append(values.double())
        said = {
            "log_prob": f"importance sampling, {samples:,} samples",
            "iwae": f"importance-weighted bound, k = {BOUND}",
            "elbo": "evidence lower bound, 10 samples",
            "prior_log_prob": f"Monte Carlo from the prior, {samples:,} samples",
            "divergence": "KL(q(z | x) ‖ p(z))",
        }
        scores = {
            name: Scored(float(torch.cat(parts).mean()), f"{said[name]}; {self.signature}")
            for name, parts in found.items()
        }
        active = int((self.transform(images).var(0) > ACTIVE).sum())
        scores["active_units"] = Scored(active, f"variance of the mean above {ACTIVE} (Burda et al. 2016)")
        return {**scores, "images": Scored(len(images), self.signature)}

    @property
    def signature(self) -> str:
        """How figures are computed; grey pixels have no probability under Bernoulli pixels."""
        said = super().signature
        grey = self.config.image_data.values == "grey" and self.model.config.pixels == "bernoulli"
        return f"cross-entropy of grey pixels, no likelihood; {said}" if grey else said

    # ----------------------------------------------------------------------------------------------------- maps

    def used(self, images: ImageSet) -> list[int]:
        """The numbers of the code by how much they tell of images, most first."""
        with torch.inference_mode():
            sums = [divergence(*self.model.posterior(batch)).sum(0) for batch in self.batches(self.checked(images))]
        order: list[int] = torch.stack(sums).sum(0).argsort(descending=True).tolist()
        return order

    def traverse(self, images: ImageSet, places: int = 8, steps: int = 11) -> Pixels:
        """The first image with one number of its code moved at a time, a row for each of the most used numbers."""
        first = images.first(1)
        code = torch.from_numpy(self.transform(first)[0])
        codes = traversal(code, self.used(images)[:places], steps).flatten(0, 1)
        return self.decode(codes, None if first.labels is None else first.labels.repeat(len(codes)))

    def manifold(self, images: ImageSet, steps: int = 15, label: int = 0) -> Pixels:
        """What lies where in the plane of the two most used numbers, the others being 0: [steps * steps, ...]"""
        order = self.used(images)
        places = (order[0], order[1 % len(order)])
        codes = plane(torch.zeros(self.model.config.size), places, steps)
        return self.decode(codes, np.full(len(codes), label) if self.model.classes else None)

    def arithmetic(self, plus: ImageSet, minus: ImageSet, other: ImageSet) -> Pixels:
        """The image of the mean code of `plus`, less that of `minus`, and that of `other`: [1, height, width]"""
        first, second, third = (self.transform(images).mean(0) for images in (plus, minus, other))
        label = None if other.labels is None else other.labels[:1]
        return self.decode((first - second + third)[None], label)
