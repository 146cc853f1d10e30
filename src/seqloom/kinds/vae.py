"""Variational autoencoders of images: codes from a normal distribution, and a network from codes to images."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema.latent import VaeConfig
from seqloom.data.image_batches import ImageBatch
from seqloom.data.images import ImageSet
from seqloom.data.materials import Split
from seqloom.errors import ConfigError, UserError
from seqloom.metrics.corpus_scores import Scored
from seqloom.models.latent.paths import REACH, plane
from seqloom.models.latent.vae import Vae
from seqloom.models.latent.variational import divergence
from seqloom.runs.capabilities import DrawsClasses, HasDensity, Pixels
from seqloom.runs.code_model import SAMPLES, SHOWN, STEPS, Codes, Spread, TrainedCodeModel, code_map, shown_paths
from seqloom.runs.contests import ImageContest
from seqloom.runs.image_model import (
    ImageAssets,
    ImageKind,
    as_pixels,
    first_batches,
    mean_image,
    training_images,
)
from seqloom.runs.kind import Report, Work
from seqloom.runs.stages import Figures, Steps
from seqloom.training import build_objective
from seqloom.training.randomness import seeded

BOUND = 50  # samples of the importance-weighted bound that is published
ACTIVE = 0.01  # a number of the code is used when its mean varies more than this over images
JUDGED = 5000  # validation images, at most
REPORTED = 200  # images of a report's figures; `evaluate` takes them all
DRAWN = 50  # codes for each of them
SIDE = 15  # images along a side of a report's plane


class TrainedVae(TrainedCodeModel, DrawsClasses, HasDensity):
    """A variational autoencoder."""

    model: Vae

    # --------------------------------------------------------------------------------------------------- images

    @torch.inference_mode()
    def sample(
        self,
        size: int,
        seed: int = 0,
        labels: Sequence[int | str] | int | str | None = None,
        pixels: bool = False,
    ) -> Pixels:
        """Images of codes from the prior: the expected image of each, or with `pixels` one whose pixels are drawn too.

        `labels` are classes by name or number, one for all or one for each, for a conditional model; without any, it
        draws all classes in turn.
        """
        codes = torch.randn(size, self.model.config.size, generator=torch.Generator().manual_seed(seed))
        decoded = self._decoded(codes, self._numbers(size, labels))
        if not pixels:
            return as_pixels(self.model.pixels.mean(decoded))
        with seeded(seed):
            return as_pixels(self.model.pixels.draw(decoded))

    def _numbers(self, size: int, labels: Sequence[int | str] | int | str | None) -> NDArray[np.integer] | None:
        if not self.model.classes:
            if labels is not None:
                raise UserError(f"{self.path} knows no classes: train it with model.conditional=true")
            return None
        if labels is None:
            return np.arange(size) % self.model.classes
        return np.array(self.images.numbers(labels, size, self.path))

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
            return torch.cat([self.model.log_prob(batch, samples) for batch in self.batches(images)]).cpu().numpy()

    @property
    def method(self) -> str:
        """An estimate: its expectation is a lower bound, which comes closer with every sample."""
        return f"{importance_sampling(self.model.config.test_samples)}, from below"

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """log p by importance sampling, the bounds below it, and what sampling from the prior makes of it."""
        return self.measure(self.held_out(source), self.model.config.test_samples)

    @torch.inference_mode()
    def measure(self, images: ImageSet, samples: int) -> dict[str, Scored]:
        """The figures of some images, with `samples` codes for each."""
        model, by_name = self.model, dict[str, list[Tensor]]()
        with seeded(0):
            for batch in self.batches(images):
                rows: dict[str, Tensor] = {
                    "log_prob": model.log_prob(batch, samples),
                    "iwae": model.log_prob(batch, BOUND),
                    "elbo": model.elbo(batch, 10),
                    "prior_log_prob": model.prior_log_prob(batch, samples),
                    "divergence": divergence(*model.posterior(batch)).sum(-1),
                }
                for name, values in rows.items():
                    by_name.setdefault(name, []).append(values.double())
        methods = {
            "log_prob": importance_sampling(samples),
            "iwae": f"importance-weighted bound, k = {BOUND}",
            "elbo": "evidence lower bound, 10 samples",
            "prior_log_prob": f"Monte Carlo from the prior, {samples:,} samples",
            "divergence": "KL(q(z | x) ‖ p(z))",
        }
        figures = {
            name: Scored(float(torch.cat(parts).mean()), f"{methods[name]}; {self.signature}")
            for name, parts in by_name.items()
        }
        active = int((self.transform(images).var(0) > ACTIVE).sum())
        figures["active_units"] = Scored(active, f"variance of the mean above {ACTIVE} (Burda et al. 2016)")
        return {**figures, "images": Scored(len(images), self.signature)}

    @property
    def signature(self) -> str:
        """How figures are computed; grey pixels have no probability under Bernoulli pixels."""
        signature = super().signature
        grey = self.data.values == "grey" and self.model.config.pixels == "bernoulli"
        return f"cross-entropy of grey pixels, no likelihood; {signature}" if grey else signature

    # ----------------------------------------------------------------------------------------------------- maps

    @torch.inference_mode()
    def used(self, images: ImageSet) -> list[int]:
        """The numbers of the code by how much they tell of images, most first."""
        sums = [divergence(*self.model.posterior(batch)).sum(0) for batch in self.batches(images)]
        return torch.stack(sums).sum(0).argsort(descending=True).tolist()

    def spread(self, images: ImageSet) -> Spread:
        """Codes come from a standard normal distribution; those numbers tell most whose divergence is largest."""
        size = self.model.config.size
        return Spread(self.used(images), torch.zeros(size), torch.ones(size))

    def manifold(self, images: ImageSet, steps: int = SIDE, label: int = 0) -> Pixels:
        """What lies where in the plane of the two most used numbers, the others being 0: [steps * steps, ...]"""
        order = self.used(images)
        places = (order[0], order[1 % len(order)])
        codes = plane(torch.zeros(self.model.config.size), places, steps)
        return self.decode(codes, np.full(len(codes), label) if self.model.classes else None)


def importance_sampling(samples: int) -> str:
    """How log p is estimated, in a form to publish."""
    return f"importance sampling, {samples:,} samples"


class VariationalAutoencoding(ImageKind[ImageAssets, TrainedVae]):
    """Two networks, trained by a lower bound of the likelihood."""

    config = VaeConfig
    assets = ImageAssets
    trained = TrainedVae
    contest = ImageContest

    def prepare(self, config: RunConfig, kept: ImageAssets | None) -> tuple[Split[ImageSet], ImageAssets]:
        images, assets = super().prepare(config, kept)
        if config.model.conditional and not assets.images.classes:
            raise ConfigError(
                "model.conditional needs classes: name images with labels, or set model.conditional=false"
            )
        return images, assets

    def build(self, config: RunConfig, assets: ImageAssets) -> Vae:
        return Vae(config.model, assets.images.shape, len(assets.images.classes) if config.model.conditional else 0)

    def begin(self, model: Vae, config: RunConfig, assets: ImageAssets, data: Split[ImageSet]) -> Iterable[str]:
        model.begin(mean_image(data.train.images))
        return ()

    def stages(self, work: Work[Split[ImageSet], ImageAssets]) -> Iterator[Steps]:
        config, images = work.config, work.data
        model: Vae = work.model
        samples = config.objective.samples if config.objective.kind == "iwae" else 1

        @torch.inference_mode()
        def validate() -> Figures:
            bound, count = 0.0, 0
            with seeded(0):
                for batch in first_batches(images.valid, JUDGED, config.data, work.processes.device):
                    bounds = model.elbo(batch) if samples == 1 else model.log_prob(batch, samples)
                    bound += float(bounds.sum())
                    count += batch.tokens
            return {"valid_loss": -bound / count}

        yield Steps(
            model, build_objective(config.objective), training_images(images.train, config), validate, config.training
        )

    def report(self, trained: TrainedVae) -> Report:
        from seqloom.reports.latent import pictures_section, rows_together

        held_out = trained.held_out()
        shown = held_out.first(SHOWN)
        both = rows_together(shown.images, trained.reconstruct(shown))
        pictures = {
            "Codes drawn from the prior": (trained.sample(SAMPLES), SHOWN),
            "Images, and below them their reconstructions": (both, SHOWN),
            "Straight paths between the codes of two images": shown_paths(trained, held_out),
            f"One number of a code moved from -{REACH:g} to {REACH:g}, those first that tell most": (
                trained.traverse(held_out),
                STEPS,
            ),
            "The plane of the two numbers that tell most, by quantiles of the prior": (
                trained.manifold(held_out),
                SIDE,
            ),
        }
        figures = trained.measure(held_out.first(REPORTED), DRAWN)
        return Report(
            {name: score.value for name, score in figures.items()},
            [
                pictures_section("What it sees", pictures),
                *code_map(trained, held_out, trained.used(held_out)[:2]),
            ],
        )


KIND = VariationalAutoencoding()
