"""General Boltzmann machines of small images: trained into a run folder, and what comes out of it."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema import BoltzmannConfig
from seqloom.data.image_batches import ImageBatches
from seqloom.data.images import ImageSet
from seqloom.errors import UserError
from seqloom.metrics import Scored
from seqloom.metrics.annealing import boltzmann_log_z
from seqloom.models.energy import BoltzmannMachine
from seqloom.models.energy.boltzmann import fitted_base
from seqloom.reports import write_run_report
from seqloom.reports.energy import chains_section, energy_training_section
from seqloom.runs.energy import TrainedEnergyModel
from seqloom.runs.energy_training import WATCHED, all_rows
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.image_materials import prepare_images
from seqloom.runs.images import Pixels, seeded
from seqloom.text import Tokenizer
from seqloom.training import (
    Processes,
    Reporter,
    Trainer,
    choose_device,
    load_model_weights,
    load_weights,
    read_metrics,
)
from seqloom.training.energy import ClampedAndFree

SWEEPS = 200  # of Gibbs sampling from noise to an image


class TrainedBoltzmann(TrainedEnergyModel):
    """What `seqloom.load` gives back for a general Boltzmann machine."""

    model: BoltzmannMachine

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> Self:
        """A run folder, with its best weights."""
        folder = RunFolder.open(path)
        config, images = folder.config(), ImageFormat.read(folder)
        assert isinstance(config.model, BoltzmannConfig)
        model = BoltzmannMachine(int(np.prod(images.shape)), config.model.hidden)
        load_model_weights(model, load_weights(folder.weights_file), str(folder.weights_file))
        return cls(model.to(choose_device(device)).eval(), images, config, folder.path)

    @torch.inference_mode()
    def sample(
        self, size: int, seed: int = 0, steps: int = SWEEPS, temperature: float = 1.0, labels: Any = None, **_: Any
    ) -> Pixels:
        """Draw images: chains of Gibbs sampling, begun at noise, after so many sweeps; cold ones are more alike."""
        if labels is not None:
            raise UserError(f"{self.path} knows no classes: a deep belief network with model.labels draws them")
        with seeded(seed):
            states = self.model.gibbs(self.model.noise(size), steps, temperature)
        return self.as_images(states[:, : self.model.visible])

    @torch.inference_mode()
    def log_prob(self, images: ImageSet | Pixels) -> NDArray[np.float64]:
        """log p of each image in nats, its hidden units summed over."""
        log_z = self._normaliser().log_z
        parts = [self.model.log_prob(rows, log_z) for rows in self.rows(images)]
        found: NDArray[np.float64] = torch.cat(parts).cpu().numpy()
        return found

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """The log-likelihood of images of `source`, or of the run's test or validation images."""
        signature = f"{self._normaliser().method}; {self.signature}"
        return {"log_likelihood": Scored(float(self.log_prob(self.held_out(source)).mean()), signature)}

    def _normaliser(self) -> Any:
        assert isinstance(self.config.model, BoltzmannConfig)
        annealing = self.config.model.annealing
        with seeded(0):
            return boltzmann_log_z(self.model, annealing.chains, annealing.steps)


def train_boltzmann(
    config: RunConfig, _: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit a machine; a run that has a configuration already goes on from its last checkpoint."""
    wanted, data = config.model, config.image_data
    assert isinstance(wanted, BoltzmannConfig)
    going_on = folder.config_file.is_file()
    images = prepare_images(config)
    rows, held_out = all_rows(images.train, config), all_rows(images.valid, config, WATCHED)
    torch.manual_seed(config.seed)
    model = BoltzmannMachine(rows.size(1), wanted.hidden)
    with torch.no_grad():
        model.base.copy_(fitted_base(rows.mean(0), wanted.hidden))
        model.bias.copy_(model.base)
    torch.manual_seed(config.seed * 1000 + processes.rank)  # the same weights, other chains, in each process

    @torch.inference_mode()
    def validate() -> dict[str, float]:
        with seeded(0):
            log_z = boltzmann_log_z(model, wanted.annealing.chains, wanted.annealing.valid_steps).log_z
        return {"valid_loss": -float(model.log_prob(held_out.to(model.device), log_z).mean())}

    batches = ImageBatches(images.train, data.batch_size, data.values, config.seed)
    objective = ClampedAndFree(wanted.sweeps)
    trainer = Trainer(model, objective, batches, validate, config.training, folder.path, processes, reporter)
    if processes.main and not going_on:
        folder.write(config)
        ImageFormat.of(images.train).write(folder)
    processes.wait()
    if going_on:
        trainer.resume()
    trainer.fit()


def report_boltzmann(trained: TrainedBoltzmann) -> None:
    """`report.html` of the run: its figures, its training, and samples."""
    figures = {name: score.value for name, score in trained.figures().items()}
    write_run_report(
        trained.path / "report.html",
        trained.path.name,
        (trained.path / "config.yaml").read_text(encoding="utf-8"),
        energy_training_section(read_metrics(trained.path)),
        {"parameters": trained.parameters, **figures},
        chains_section(None, trained.sample(100), {}),
    )
