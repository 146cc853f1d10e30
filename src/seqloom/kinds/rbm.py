"""Restricted Boltzmann machines of images, trained by contrastive divergence."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema.energy import RbmConfig
from seqloom.data.images import ImageSet
from seqloom.data.materials import Split
from seqloom.metrics.annealing import Normaliser
from seqloom.metrics.corpus_scores import Scored
from seqloom.models.energy.boltzmann import BoltzmannMachine
from seqloom.models.energy.rbm import RestrictedBoltzmannMachine, build_rbm
from seqloom.models.energy.units import BernoulliUnits
from seqloom.runs.capabilities import EmbedsImages, Pixels
from seqloom.runs.contests import ImageContest
from seqloom.runs.energy_model import BURN_IN, WATCHED, TrainedMachine, all_rows, as_array, watch
from seqloom.runs.image_model import ImageAssets, ImageKind, training_images
from seqloom.runs.kind import Report, Work
from seqloom.runs.stages import Steps
from seqloom.training import build_objective, read_metrics
from seqloom.training.randomness import seeded

SHOWN = 100  # filters and samples in a report
MOMENTS = [1, 10, 100, 1000]  # steps after which it shows chains


class TrainedRbm(TrainedMachine, EmbedsImages):
    """A restricted Boltzmann machine."""

    model: RestrictedBoltzmannMachine

    @cached_property
    def machine(self) -> BoltzmannMachine:
        """As a general machine."""
        return self.model.general()

    def sample(self, size: int, seed: int = 0, steps: int = BURN_IN, mean: bool = True) -> Pixels:
        """Draw images: chains of Gibbs sampling, begun at noise, after so many steps.

        With `mean`, pixels are shown by their mean given the hidden units, which is easier to look at; else as drawn.
        """
        return self.chains(size, [steps], seed, mean)[0]

    @torch.inference_mode()
    def chains(self, size: int, moments: list[int], seed: int = 0, mean: bool = True) -> list[Pixels]:
        """Where chains of Gibbs sampling, begun at noise, stand after numbers of steps in rising order."""
        pictures = []
        with seeded(seed):
            visible, done = self.model.noise(size), 0
            for moment in moments:
                visible, done = self.model.gibbs(visible, max(0, moment - 1 - done)), max(done, moment - 1)
                hidden = self.model.sample_hidden(visible)
                shown = self.model.visible_mean(hidden) if mean else self.model.sample_visible(hidden)
                pictures.append(self.as_images(shown))
        return pictures

    @torch.inference_mode()
    def reconstruct(self, images: ImageSet | Pixels, seed: int = 0) -> Pixels:
        """What comes back of images through one sample of the hidden units."""
        with seeded(seed):
            return np.concatenate([self.as_images(self.model.reconstruction(rows)) for rows in self.rows(images)])

    @torch.inference_mode()
    def transform(self, images: ImageSet | Pixels) -> NDArray[np.float32]:
        """The means of the hidden units: features for other tasks, [images, hidden]."""
        return as_array([self.model.hidden_mean(rows) for rows in self.rows(images)])

    @torch.inference_mode()
    def log_prob(self, images: ImageSet | Pixels) -> NDArray[np.float64]:
        """log p of each image in nats; log Z is estimated on first use, and kept in the run folder."""
        log_z = self.normaliser().log_z
        return as_array([self.model.log_prob(rows, log_z) for rows in self.rows(images)])

    def normaliser(self) -> Normaliser:
        """log Z and its error bars."""
        return self.normaliser_of(self.model)

    @property
    def method(self) -> str:
        """How log Z was found."""
        return self.normaliser().method

    @torch.inference_mode()
    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """The log-likelihood with its error bars, and what is watched in training, on images of `source`."""
        held_out = self.held_out(source)
        mean = float(self.log_prob(held_out).mean())
        begin = self.rows(held_out)[0][: self.config.model.annealing.chains]
        figures = self.likelihood_figures("log_likelihood", mean, self.model, begin, self.signature)
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


class Rbm(ImageKind[ImageAssets, TrainedRbm]):
    """A layer of visible and one of hidden units."""

    config = RbmConfig
    assets = ImageAssets
    trained = TrainedRbm
    contest = ImageContest

    def build(self, config: RunConfig, assets: ImageAssets) -> RestrictedBoltzmannMachine:
        nothing = torch.zeros(assets.images.pixels)
        return build_rbm(config.model, nothing, nothing)

    def begin(
        self, model: RestrictedBoltzmannMachine, config: RunConfig, assets: ImageAssets, data: Split[ImageSet]
    ) -> Iterable[str]:
        rows = all_rows(data.train, config.data)
        fitted = build_rbm(config.model, rows.mean(0), rows.var(0, correction=0))
        model.visible.load_state_dict(fitted.visible.state_dict())  # independent pixels, as frequent as in the data
        model.base.load_state_dict(fitted.base.state_dict())
        return ()

    def stages(self, work: Work[Split[ImageSet], ImageAssets]) -> Iterator[Steps]:
        config, images = work.config, work.data
        held_out, learned = (all_rows(each, config.data, WATCHED) for each in (images.valid, images.train))
        yield Steps(
            work.model,
            build_objective(config.objective),
            training_images(images.train, config),
            lambda: watch(work.model, learned, held_out, config.model.annealing),
            config.training,
        )

    def report(self, trained: TrainedRbm) -> Report:
        from seqloom.reports.energy import chains_section, energy_training_section

        weight = trained.model.weight.detach().T[:SHOWN]
        filters = trained.as_images(0.5 + weight / (2 * weight.abs().amax(1, keepdim=True).clamp(min=1e-9)))
        chains = dict(zip(MOMENTS, trained.chains(12, MOMENTS), strict=True))
        return Report(
            {name: score.value for name, score in trained.figures().items()},
            [chains_section(filters, trained.sample(SHOWN), chains)],
            energy_training_section(read_metrics(trained.path)),
        )


KIND = Rbm()
