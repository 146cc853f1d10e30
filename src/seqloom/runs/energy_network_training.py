"""Training deep belief networks into a run folder, stage by stage, and their reports."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.config import RunConfig
from seqloom.config.schema import DbnConfig, OptimizerConfig, ScheduleConfig, TrainingConfig
from seqloom.data.image_batches import ImageBatch, ImageBatches, all_batches
from seqloom.data.images import ImageSet
from seqloom.errors import ConfigError
from seqloom.files import atomic_file
from seqloom.metrics.annealing import log_z_above
from seqloom.models.energy import DeepBeliefNetwork, DeepClassifier, layer_machine
from seqloom.reports import write_run_report
from seqloom.reports.energy import chains_section, classifier_training_section, energy_training_section
from seqloom.reports.html import Markup
from seqloom.runs.energy_network import FINE_TUNED, TrainedDbn, build_classifier, build_network, read_as
from seqloom.runs.energy_training import WATCHED, all_rows, watch
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.image_materials import ImageMaterials, prepare_images
from seqloom.runs.images import BATCH, seeded
from seqloom.text import Tokenizer
from seqloom.training import (
    Journal,
    Objective,
    Processes,
    Reporter,
    Trainer,
    load_model_weights,
    load_weights,
    model_weights,
    read_metrics,
)
from seqloom.training.checkpoints import WEIGHTS, save_tensors
from seqloom.training.energy import ContrastiveDivergence, UpDown
from seqloom.training.own_loss import OwnLoss

SHOWN = 100  # samples in a report


def train_dbn(
    config: RunConfig, _: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit a network; a run that has a configuration already goes on within the stage where it stopped."""
    wanted = config.model
    assert isinstance(wanted, DbnConfig)
    going_on = folder.config_file.is_file()
    images = prepare_images(config)
    known = ImageFormat.of(images.train)
    if (wanted.labels or wanted.fine_tuning.epochs) and not known.classes:
        raise ConfigError("model.labels and model.fine_tuning need images with classes: a folder for each, or labels")
    if processes.main and not going_on:
        folder.write(config)
        known.write(folder)
    processes.wait()
    _Stages(config, wanted, images, known, folder, processes, reporter).run()


class _Stages:
    """The stages of a run, each trained by the one trainer in a folder of its own."""

    def __init__(
        self,
        config: RunConfig,
        wanted: DbnConfig,
        images: ImageMaterials,
        known: ImageFormat,
        folder: RunFolder,
        processes: Processes,
        reporter: Reporter,
    ) -> None:
        self.config, self.wanted, self.images, self.known = config, wanted, images, known
        self.folder, self.processes, self.reporter = folder, processes, reporter
        torch.manual_seed(config.seed)
        self.network = build_network(wanted, known).to(processes.device)
        self.names: list[str] = []

    def run(self) -> None:
        if self.wanted.pretrain:
            for layer in range(len(self.wanted.sizes)):
                self._layer(layer)
            if self.wanted.up_down.epochs:
                self._up_down()
        if self.wanted.fine_tuning.epochs:
            self._fine_tune()
        if self.processes.main:
            with atomic_file(self.folder.weights_file) as temporary:
                save_tensors(model_weights(self.network), temporary)
            self._gather()
        self.processes.wait()

    def _layer(self, layer: int) -> None:
        """Train one machine on what the layers below make of the images."""
        mean = self._lifted(self._rows(self.images.train), layer).mean(0).cpu()
        machine = layer_machine(self.network, layer, mean)
        at_top = layer == len(self.network.recognition)
        data = self.config.image_data
        batches = _Lifted(
            ImageBatches(self.images.train, data.batch_size, data.values, self.config.seed), self.network, layer, at_top
        )
        learned, held_out = (self._inputs(images, layer, at_top) for images in (self.images.train, self.images.valid))
        self._fit(
            f"layer-{layer + 1}",
            machine,
            ContrastiveDivergence(self.wanted.steps, self.wanted.persistent),
            batches,
            lambda: watch(machine, learned, held_out, self.wanted.annealing),
            self._slower() if layer else self.config.training,
        )
        self.network.take(layer, machine)

    def _up_down(self) -> None:
        data, wanted = self.config.image_data, self.wanted.up_down
        held_out = self._rows(self.images.valid)
        self._fit(
            "up-down",
            self.network,
            UpDown(wanted.steps),
            ImageBatches(self.images.train, data.batch_size, data.values, self.config.seed + 1),
            lambda: self._bound(held_out),
            self._training(wanted.epochs, OptimizerConfig(kind="sgd", learning_rate=wanted.learning_rate)),
        )

    def _fine_tune(self) -> None:
        data, wanted = self.config.image_data, self.wanted.fine_tuning
        torch.manual_seed(self.config.seed)
        classifier = build_classifier(self.wanted, self.known).to(self.processes.device)
        if self.wanted.pretrain:
            classifier.begin_with(self.network)
        values = read_as(data.values)
        self._fit(
            FINE_TUNED,
            classifier,
            OwnLoss(),
            ImageBatches(self.images.train, data.batch_size, values, self.config.seed + 2),
            lambda: _errors(classifier, self.images.valid, values, self.processes.device),
            self._training(wanted.epochs, OptimizerConfig(kind="adam", learning_rate=wanted.learning_rate)),
        )

    def _slower(self) -> TrainingConfig:
        """`training` of the run at the rate of the machines above the first."""
        optimizer = self.config.training.optimizer
        rate = optimizer.learning_rate * self.wanted.upper_rate
        changed = optimizer.model_copy(update={"learning_rate": rate})
        return self.config.training.model_copy(update={"optimizer": changed})

    def _training(self, epochs: float, optimizer: OptimizerConfig) -> TrainingConfig:
        """`training` of the run with other epochs and another optimiser; the rate falls to 0, one look an epoch."""
        steps = self.config.training.steps
        return self.config.training.model_copy(
            update={
                "epochs": None if steps else epochs,
                "validate_every": None,
                "optimizer": optimizer,
                "schedule": ScheduleConfig(kind="linear"),
            }
        )

    def _fit(
        self,
        name: str,
        model: nn.Module,
        objective: Objective,
        batches: Any,
        validate: Callable[[], dict[str, float]],
        training: TrainingConfig,
    ) -> None:
        """Train a stage to its end, whatever part of it was done before; the model has its best weights then."""
        path = self.folder.path / name
        path.mkdir(exist_ok=True)
        self.names.append(name)
        torch.manual_seed((self.config.seed + 1) * 1000 + 100 * len(self.names) + self.processes.rank)
        self.reporter.say(f"stage {name}")
        trainer = Trainer(model, objective, batches, validate, training, path, self.processes, self.reporter)
        trainer.resume()
        trainer.fit()
        load_model_weights(model, load_weights(path / WEIGHTS), str(path / WEIGHTS))

    def _gather(self) -> None:
        """`metrics.jsonl` of the run: the entries of all stages, one after another."""
        (self.folder.path / "metrics.jsonl").unlink(missing_ok=True)
        journal, before = Journal(self.folder.path, 0), 0
        for name in self.names:
            entries = read_metrics(self.folder.path / name)
            for entry in entries:
                journal.write({**entry, "stage": name, "step": before + entry["step"]})
            before += entries[-1]["step"] if entries else 0
        journal.close()

    @torch.inference_mode()
    def _bound(self, held_out: Tensor) -> dict[str, float]:
        annealing = self.wanted.annealing
        with seeded(0):
            begin = self._inputs(self.images.valid, len(self.network.recognition), at_top=True)[: annealing.chains]
            log_z = log_z_above(self.network.top, begin, annealing.valid_steps)
            return {"valid_loss": -float(self.network.bound(held_out, log_z).mean())}

    def _rows(self, images: ImageSet) -> Tensor:
        return all_rows(images, self.config, WATCHED).to(self.processes.device)

    @torch.inference_mode()
    def _lifted(self, rows: Tensor, layer: int) -> Tensor:
        with seeded(0):
            return self.network.rise(rows, layer)[-1]

    def _inputs(self, images: ImageSet, layer: int, at_top: bool) -> Tensor:
        """What a machine sees of images, drawn once."""
        rows = self._lifted(self._rows(images), layer)
        if not at_top or images.labels is None:
            return rows
        return self.network.joined(rows, torch.from_numpy(images.labels[: len(rows)]).to(rows.device))


class _Lifted:
    """Batches of images as the machine of a layer sees them: drawn anew through the layers below each time."""

    def __init__(self, batches: ImageBatches, network: DeepBeliefNetwork, layer: int, at_top: bool) -> None:
        self.batches, self.network, self.layer, self.at_top = batches, network, layer, at_top
        self.batches_per_epoch, self.batch_size = batches.batches_per_epoch, batches.batch_size

    @torch.no_grad()
    def __next__(self) -> ImageBatch:
        batch = next(self.batches).to(self.network.device)
        rows = self.network.rise(batch.images.flatten(1), self.layer)[-1]
        return ImageBatch(self.network.joined(rows, batch.labels) if self.at_top else rows, None)

    def position(self) -> dict[str, int]:
        """Where the next batch comes from."""
        return self.batches.position()

    def seek(self, position: dict[str, int]) -> None:
        """Go on from a saved position."""
        self.batches.seek(position)


@torch.inference_mode()
def _errors(classifier: DeepClassifier, images: ImageSet, values: Any, device: torch.device) -> dict[str, float]:
    """The share of images that are taken for another class, in percent, and -log p of the right one.

    The errors decide which weights are kept: they go on falling when the cross-entropy has long been rising, for a few
    images are taken for another class with growing certainty.
    """
    loss = wrong = 0.0
    for batch in all_batches(images, BATCH, values):
        batch = batch.to(device)
        found = classifier.log_probs(batch.images)
        assert batch.labels is not None
        loss -= float(found.gather(1, batch.labels.unsqueeze(1)).sum())
        wrong += float((found.argmax(1) != batch.labels).sum())
    return {"valid_loss": 100 * wrong / len(images), "valid_cross_entropy": loss / len(images)}


def report_dbn(trained: TrainedDbn) -> None:
    """`report.html` of the run: its figures, the training of its stages, and samples, of each class if it can."""
    assert isinstance(trained.config.model, DbnConfig)
    path = trained.path
    sections = [_training_section(stage) for stage in _stages(path)]
    columns = trained.model.classes
    labels = [number for _ in range(10) for number in range(columns)] if columns else None
    samples = trained.sample(len(labels) if labels else SHOWN, labels=labels)
    write_run_report(
        path / "report.html",
        path.name,
        (path / "config.yaml").read_text(encoding="utf-8"),
        type(sections[0])("".join(sections)),
        {"parameters": trained.parameters} | {name: score.value for name, score in trained.figures().items()},
        chains_section(None, samples, {}, columns or None),
    )


def _training_section(stage: Path) -> Markup:
    section = classifier_training_section if stage.name == FINE_TUNED else energy_training_section
    return section(read_metrics(stage), f"Training: {stage.name}")


def _stages(path: Path) -> list[Path]:
    """The folders of the stages, in their order."""
    found = sorted(path.glob("layer-*"), key=lambda stage: int(stage.name.partition("-")[2]))
    return [*found, *(path / name for name in ("up-down", FINE_TUNED) if (path / name).is_dir())]
