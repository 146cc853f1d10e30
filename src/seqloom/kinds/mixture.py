"""Mixtures of Bernoulli pixels, fitted by EM: a single hidden number behind each image."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema.latent import MixtureConfig
from seqloom.data.images import ImageSet
from seqloom.data.materials import Split
from seqloom.metrics.corpus_scores import Scored
from seqloom.models.latent.mixture import BernoulliMixture
from seqloom.runs.capabilities import Draws, EmbedsImages, HasDensity, Pixels
from seqloom.runs.contests import ImageContest
from seqloom.runs.image_model import ImageAssets, ImageKind, TrainedImageModel, all_images, as_pixels
from seqloom.runs.kind import Report, Work
from seqloom.runs.stages import Computation, Computed, Stopwatch, saving
from seqloom.training import Interrupted, Interrupts, Reporter

SHOWN = 12  # images in a row of a report
SAMPLES = 60  # images that it draws


class TrainedMixture(TrainedImageModel, Draws, HasDensity, EmbedsImages):
    """A mixture of Bernoullis."""

    model: BernoulliMixture

    @property
    def parameters(self) -> int:
        """How many numbers the model learned; they come of EM, and know no gradient."""
        return sum(each.numel() for each in self.model.parameters())

    def sample(self, size: int, seed: int = 0) -> Pixels:
        """A component for each image, then its pixels one by one."""
        return as_pixels(self.model.draw(size, torch.Generator().manual_seed(seed)))

    def components(self) -> Pixels:
        """The expected image of each component, the most frequent first."""
        order = self.model.log_shares.argsort(descending=True)
        return as_pixels(self.model.means()[order])

    def log_prob(self, images: ImageSet | Pixels) -> NDArray[np.float64]:
        """log p of each image in nats, exactly."""
        return torch.cat([self.model.log_prob(batch.images).double() for batch in self.batches(images)]).cpu().numpy()

    @property
    def method(self) -> str:
        """A sum over all components."""
        return "exact"

    def responsibilities(self, images: ImageSet | Pixels) -> NDArray[np.float32]:
        """p(component | image), [count, components]."""
        return torch.cat([self.model.responsibilities(batch.images) for batch in self.batches(images)]).cpu().numpy()

    def transform(self, images: ImageSet | Pixels) -> NDArray[np.float32]:
        """The responsibilities of the components, as codes of images."""
        return self.responsibilities(images)

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """The mean log p of images, and how many components are used by them."""
        images = self.held_out(source)
        used = len(np.unique(self.responsibilities(images).argmax(1)))
        return {
            "log_prob": Scored(float(self.log_prob(images).mean()), f"{self.method}; {self.signature}"),
            "components_used": Scored(used, f"most responsible for an image; {self.signature}"),
            "images": Scored(len(images), self.signature),
        }


class Mixture(ImageKind[ImageAssets, TrainedMixture]):
    """EM, round by round, in the first process."""

    config = MixtureConfig
    assets = ImageAssets
    trained = TrainedMixture
    contest = ImageContest

    def build(self, config: RunConfig, assets: ImageAssets) -> BernoulliMixture:
        return BernoulliMixture(config.model, assets.images.shape)

    def stages(self, work: Work[Split[ImageSet], ImageAssets]) -> Iterator[Computation]:
        config, device = work.config, work.processes.device
        model: BernoulliMixture = work.model.to(device)

        def compute(reporter: Reporter) -> Computed:
            train, valid = (all_images(each, config.data).to(device) for each in (work.data.train, work.data.valid))
            model.begin(train, torch.Generator().manual_seed(config.seed))
            entries = []
            reporter.start("EM", 0, config.model.iterations)
            try:
                with Interrupts() as interrupts:
                    for entry in rounds_of_em(model, train, valid, config.model):
                        entries.append(entry)
                        reporter.advance(entry["step"], f"log p {-entry['loss']:.2f}")
                        if interrupts.number is not None:
                            message = f"stopped in round {entry['step']} of EM: nothing was written"
                            raise Interrupted(message, interrupts.number)
                rounds = len(entries)
                early = rounds < config.model.iterations
                reporter.say(f"done: converged at step {rounds}" if early else f"done: all {rounds} steps")
            finally:
                reporter.stop()
            return Computed(saving(model), entries)

        yield Computation(compute)

    def report(self, trained: TrainedMixture) -> Report:
        from seqloom.reports.latent import pictures_section

        pictures = {
            "The components, the most frequent first": (trained.components(), SHOWN),
            "Drawn images": (trained.sample(SAMPLES), SHOWN),
        }
        figures = {name: score.value for name, score in trained.figures().items()}
        return Report(figures, [pictures_section("What it sees", pictures)])


def rounds_of_em(
    model: BernoulliMixture, train: Tensor, valid: Tensor, config: MixtureConfig
) -> Iterator[dict[str, Any]]:
    """Round by round, what to log of it; the last one is that which hardly gained anything."""
    watch, before = Stopwatch(), -float("inf")
    for step in range(1, config.iterations + 1):
        log_prob, objective = model.improve(train)
        valid_loss = -float(model.log_prob(valid).double().mean())
        figures = {"loss": -log_prob, "objective": objective, "valid_loss": valid_loss}
        yield watch.entry(step * len(train), "images", step=step, **figures)
        if objective - before < config.tolerance:
            return
        before = objective


KIND = Mixture()
