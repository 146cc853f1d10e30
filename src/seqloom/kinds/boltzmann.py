"""General Boltzmann machines of small images: every unit may be connected to every other."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema.energy import AnnealingConfig, BoltzmannConfig
from seqloom.config.schema.objectives import ConditionalObjective
from seqloom.data.images import ImageSet
from seqloom.data.materials import Split
from seqloom.data.pixel_masks import half
from seqloom.errors import ConfigError
from seqloom.metrics.annealing import Normaliser, boltzmann_log_z
from seqloom.metrics.corpus_scores import Scored
from seqloom.models.energy.boltzmann import BoltzmannMachine, fitted_base
from seqloom.models.energy.inference import MOST_INFERRED
from seqloom.runs.capabilities import Pixels
from seqloom.runs.contests import ImageContest
from seqloom.runs.energy_model import WATCHED, TrainedMachine, all_rows, as_array
from seqloom.runs.image_model import ImageAssets, ImageKind, training_images
from seqloom.runs.kind import Report, Work
from seqloom.runs.stages import Figures, Steps
from seqloom.training import build_objective, read_metrics
from seqloom.training.randomness import seeded

SWEEPS = 200  # of Gibbs sampling from noise to an image
SHOWN = 100  # samples in a report


class TrainedBoltzmann(TrainedMachine):
    """A general Boltzmann machine."""

    model: BoltzmannMachine

    @property
    def machine(self) -> BoltzmannMachine:
        """The model itself."""
        return self.model

    @torch.inference_mode()
    def sample(self, size: int, seed: int = 0, steps: int = SWEEPS, temperature: float = 1.0) -> Pixels:
        """Draw images: chains of Gibbs sampling, begun at noise, after so many sweeps; cold ones are more alike."""
        with seeded(seed):
            states = self.model.gibbs(self.model.noise(size), steps, temperature)
        return self.as_images(states[:, : self.model.visible])

    @torch.inference_mode()
    def log_prob(self, images: ImageSet | Pixels) -> NDArray[np.float64]:
        """log p of each image in nats, its hidden units summed over."""
        log_z = self._normaliser.log_z
        return as_array([self.model.log_prob(rows, log_z) for rows in self.rows(images)])

    @property
    def method(self) -> str:
        """How log Z was found."""
        return self._normaliser.method

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """The log-likelihood of images of `source`, or of the run's test or validation images; of a machine that
        learned outputs given inputs, that of the outputs, and how many of them are right."""
        images, objective = self.held_out(source), self.config.objective
        if isinstance(objective, ConditionalObjective):
            found = self.complete(images, objective.inputs).figures
            signed = {
                name: Scored(score.value, f"{score.signature}; {self.signature}") for name, score in found.items()
            }
            return {"conditional_log_likelihood": signed.pop("log_prob"), **signed}
        mean = float(self.log_prob(images).mean())
        return {"log_likelihood": Scored(mean, f"{self.method}; {self.signature}")}

    @cached_property
    def _normaliser(self) -> Normaliser:
        annealing: AnnealingConfig = self.config.model.annealing
        with seeded(0):
            return boltzmann_log_z(self.model, annealing.chains, annealing.steps)


class Boltzmann(ImageKind[ImageAssets, TrainedBoltzmann]):
    """Visible and hidden units, all of them connected."""

    config = BoltzmannConfig
    assets = ImageAssets
    trained = TrainedBoltzmann
    contest = ImageContest

    def build(self, config: RunConfig, assets: ImageAssets) -> BoltzmannMachine:
        if isinstance(config.objective, ConditionalObjective):
            outputs = assets.images.pixels - int(half(config.objective.inputs, assets.images.shape).sum())
            if outputs + config.model.hidden > MOST_INFERRED:
                raise ConfigError(
                    f"{outputs} outputs and {config.model.hidden} hidden units are too many to sum over all their "
                    f"states: {MOST_INFERRED} is the most; lower data.size or model.hidden"
                )
        return BoltzmannMachine(assets.images.pixels, config.model.hidden)

    @torch.no_grad()
    def begin(
        self, model: BoltzmannMachine, config: RunConfig, assets: ImageAssets, data: Split[ImageSet]
    ) -> Iterable[str]:
        mean = all_rows(data.train, config.data).mean(0)
        model.base.copy_(fitted_base(mean, config.model.hidden))
        model.bias.copy_(model.base)  # independent pixels, as frequent as in the data
        return ()

    def stages(self, work: Work[Split[ImageSet], ImageAssets]) -> Iterator[Steps]:
        config = work.config
        model: BoltzmannMachine = work.model
        annealing: AnnealingConfig = config.model.annealing
        held_out = all_rows(work.data.valid, config.data, WATCHED)

        @torch.inference_mode()
        def validate() -> Figures:
            if isinstance(config.objective, ConditionalObjective):
                inputs = torch.from_numpy(half(config.objective.inputs, work.assets.images.shape).flatten())
                found = model.conditional_log_prob(held_out.to(model.device), inputs.to(model.device))
                return {"valid_loss": -float(found.mean())}
            with seeded(0):
                log_z = boltzmann_log_z(model, annealing.chains, annealing.valid_steps).log_z
            return {"valid_loss": -float(model.log_prob(held_out.to(model.device), log_z).mean())}

        yield Steps(
            model,
            build_objective(config.objective),
            training_images(work.data.train, config),
            validate,
            config.training,
        )

    def report(self, trained: TrainedBoltzmann) -> Report:
        from seqloom.reports.energy import chains_section, energy_training_section

        return Report(
            {name: score.value for name, score in trained.figures().items()},
            [chains_section(None, trained.sample(SHOWN), {})],
            energy_training_section(read_metrics(trained.path)),
        )


KIND = Boltzmann()
