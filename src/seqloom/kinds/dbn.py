"""Deep belief networks of images: machines one on top of another, trained one after another, then all together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config import RunConfig
from seqloom.config.schema.data import ImageData
from seqloom.config.schema.energy import AnnealingConfig, DbnConfig
from seqloom.config.schema.objectives import OwnLossObjective
from seqloom.config.schema.training import OptimizerConfig, ScheduleConfig, TrainingConfig
from seqloom.data.image_batches import ImageBatch, Values, all_batches, image_stream
from seqloom.data.image_format import ImageFormat
from seqloom.data.images import ImageSet
from seqloom.data.materials import Split
from seqloom.errors import ConfigError, UserError
from seqloom.metrics.annealing import Normaliser, log_z_above
from seqloom.metrics.corpus_scores import Scored
from seqloom.models.energy.dbn import DeepBeliefNetwork, DeepClassifier, layer_machine
from seqloom.models.energy.rbm import RestrictedBoltzmannMachine
from seqloom.runs.capabilities import Classified, DrawsClasses, EmbedsLayers, LabelsImages, Pixels
from seqloom.runs.contests import ImageContest
from seqloom.runs.energy_model import BURN_IN, WATCHED, TrainedEnergyModel, all_rows, as_array, watch
from seqloom.runs.image_model import (
    BATCH,
    ImageAssets,
    ImageKind,
    count_right,
    labels_of,
    training_images,
)
from seqloom.runs.kind import Report, Work
from seqloom.runs.stages import Figures, Steps, saving
from seqloom.training import build_objective, load_model_weights, read_metrics
from seqloom.training.checkpoints import load_weights
from seqloom.training.energy import UpDown
from seqloom.training.objectives import OwnLoss
from seqloom.training.places import WEIGHTS
from seqloom.training.randomness import seeded

SAMPLES = 10  # of q, for each image: the bound is their mean
BOUND = f"variational lower bound, {SAMPLES} samples"
SHOWN = 100  # samples in a report
UP_DOWN, FINE_TUNING = "up-down", "fine-tuning"
"""Stages, and the folders in which they are fitted; the classifier's weights stay in that of the last."""

Images = Split[ImageSet]


class TrainedDbn(TrainedEnergyModel, DrawsClasses, LabelsImages, EmbedsLayers):
    """A deep belief network, and the classifier that was made of it, if one was."""

    model: DeepBeliefNetwork
    bound = True

    @cached_property
    def classifier(self) -> DeepClassifier | None:
        """The network as a classifier, fine-tuned; none where `model.fine_tuning.epochs` is 0."""
        part: DbnConfig = self.config.model
        if not part.fine_tuning.epochs:
            return None
        classifier, file = build_classifier(part, self.images), self.path / FINE_TUNING / WEIGHTS
        load_model_weights(classifier, load_weights(file), str(file))
        return classifier.to(self.device).eval()

    @torch.inference_mode()
    def sample(
        self,
        size: int,
        seed: int = 0,
        labels: Sequence[int | str] | int | str | None = None,
        steps: int = BURN_IN,
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
        if not self.config.model.pretrain:
            raise UserError(f"{self.path} is a classifier alone, and has no density: train it with model.pretrain=true")
        log_z = self.normaliser().log_z
        with seeded(0):
            return as_array([self.model.bound(rows, log_z, SAMPLES) for rows in self.rows(images)])

    @property
    def method(self) -> str:
        """A bound, and how log Z of the top machine was found."""
        return f"{BOUND}; {self.normaliser().method}"

    def normaliser(self) -> Normaliser:
        """log Z of the top machine and its error bars."""
        return self.normaliser_of(self.model.top)

    @torch.inference_mode()
    def log_probs(self, images: ImageSet | Pixels) -> NDArray[np.float32]:
        """log p of every class for each image, [images, classes]: by the fine-tuned classifier, or by the top machine
        where there is none."""
        if self.classifier is not None:
            return as_array([self.classifier.log_probs(each) for each in self._grey(images)])
        if not self.model.classes:
            raise UserError(f"{self.path} knows no classes: set model.labels=true or model.fine_tuning.epochs")
        return as_array([self.model.log_probs(rows) for rows in self.rows(images)])

    def classify(self, images: ImageSet | Pixels) -> list[Classified]:
        """The likeliest class of each image, and the probabilities of all."""
        return Classified.by_rows(self.images.classes, np.exp(self.log_probs(images)))

    @torch.inference_mode()
    def transform(self, images: ImageSet | Pixels, layer: int | None = None) -> NDArray[np.float32]:
        """The means of a layer of hidden units, the last one if not given: features for other tasks, [images, units].

        Layers are numbered from 1 on, as the stages are. They are those of the network; of the classifier, where
        nothing else was trained.
        """
        layers = len(self.config.model.sizes)
        layer = layers if layer is None else layer
        if not 1 <= layer <= layers:
            raise UserError(f"{self.path} has no layer {layer}: its hidden layers are 1 to {layers}")
        if self.classifier is not None and not self.config.model.pretrain:
            return as_array([self.classifier.means(each)[layer - 1] for each in self._grey(images)])
        return as_array([self.model.means(rows)[layer - 1] for rows in self.rows(images)])

    def _grey(self, images: ImageSet | Pixels) -> list[Tensor]:
        """Images as the classifier reads them, some hundred at a time."""
        batches = all_batches(self.checked(images), BATCH, read_as(self.data.values))
        return [batch.images.to(self.device) for batch in batches]

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """The lower bound of the log-likelihood with its error bars, and the share of wrong classes if it knows any."""
        part: DbnConfig = self.config.model
        held_out = self.held_out(source)
        figures: dict[str, Scored] = {}
        if part.pretrain:
            mean = float(self.log_prob(held_out).mean())
            begin = self._arriving(self.rows(held_out)[0][: part.annealing.chains])
            figures = self.likelihood_figures(
                "log_likelihood_bound", mean, self.model.top, begin, f"{BOUND}; {self.signature}"
            )
        if held_out.labels is not None and (self.classifier is not None or self.model.classes):
            wrong = float((self.log_probs(held_out).argmax(1) != held_out.labels).mean())
            how = "fine-tuned classifier" if self.classifier is not None else "classes of the top machine"
            figures["error"] = Scored(100 * wrong, self.signed("% of images", how))
        return figures

    @torch.inference_mode()
    def _arriving(self, rows: Tensor) -> Tensor:
        """What the top machine sees of images, with the classes that it finds likeliest."""
        with seeded(0):
            labels = self.model.log_probs(rows).argmax(1) if self.model.classes else None
            return self.model.joined(self.model.rise(rows)[-1], labels)


class Dbn(ImageKind[ImageAssets, TrainedDbn]):
    """A stage for each machine, one for all of them by the up-down algorithm, one for the classifier."""

    config = DbnConfig
    assets = ImageAssets
    trained = TrainedDbn
    contest = ImageContest

    def prepare(self, config: RunConfig, kept: ImageAssets | None) -> tuple[Images, ImageAssets]:
        part: DbnConfig = config.model
        data: ImageData = config.data
        images, assets = super().prepare(config, kept)
        if part.labels or part.fine_tuning.epochs:
            if not assets.images.classes:
                raise ConfigError(
                    "model.labels and model.fine_tuning need images with classes: a folder for each, or labels"
                )
            labels_of(images.valid, data.valid or data.train)
        return images, assets

    def build(self, config: RunConfig, assets: ImageAssets) -> DeepBeliefNetwork:
        part: DbnConfig = config.model
        classes = len(assets.images.classes) if part.labels else 0
        return DeepBeliefNetwork(layer_sizes(part, assets.images), classes, part.visible == "gaussian")

    def stages(self, work: Work[Images, ImageAssets]) -> Iterator[Steps]:
        work = replace(work, config=sharing_time(work.config))
        part: DbnConfig = work.config.model
        network: DeepBeliefNetwork = work.model.to(work.processes.device)
        if part.pretrain:
            for layer in range(len(part.sizes)):
                inputs = arriving(work.data.train, network, layer, work.config.data).cpu()
                machine = layer_machine(network, layer, inputs)
                yield layer_stage(work, network, layer, machine)
                network.take(layer, machine)
            if part.up_down.epochs:
                yield up_down_stage(work, network)
        if part.fine_tuning.epochs:
            torch.manual_seed(work.config.seed)  # the same weights with and without the machines before it
            classifier = build_classifier(part, work.assets.images).to(work.processes.device)
            if part.pretrain:
                classifier.begin_with(network)
            yield fine_tuning_stage(work, classifier)
        if work.processes.main:
            saving(network)(work.folder.weights_file)

    def report(self, trained: TrainedDbn) -> Report:
        from seqloom.reports.energy import chains_section, classifier_training_section, energy_training_section
        from seqloom.reports.html import join

        layers = [f"layer-{layer + 1}" for layer in range(len(trained.config.model.sizes))]
        sections = [
            (classifier_training_section if name == FINE_TUNING else energy_training_section)(
                read_metrics(trained.path / name), f"Training: {name}"
            )
            for name in (*layers, UP_DOWN, FINE_TUNING)
            if (trained.path / name).is_dir()
        ]
        classes = trained.model.classes
        labels = [number for _ in range(10) for number in range(classes)] if classes else None
        samples = trained.sample(len(labels) if labels else SHOWN, labels=labels)
        return Report(
            {name: score.value for name, score in trained.figures().items()},
            [chains_section(None, samples, {}, classes or None)],
            join(sections),
        )


def layer_sizes(config: DbnConfig, images: ImageFormat) -> list[int]:
    """Units of each layer, the pixels first."""
    return [images.pixels, *config.sizes]


def build_classifier(config: DbnConfig, images: ImageFormat) -> DeepClassifier:
    """The classifier of a configuration, with fresh weights."""
    return DeepClassifier(layer_sizes(config, images), len(images.classes), config.fine_tuning.dropout)


def read_as(values: Values) -> Values:
    """How a classifier reads pixels: as their mean, where they would be drawn."""
    return "grey" if values == "sampled" else values


# ----------------------------------------------------------------------------------------------------------- stages


def layer_stage(
    work: Work[Images, ImageAssets], network: DeepBeliefNetwork, layer: int, machine: RestrictedBoltzmannMachine
) -> Steps:
    """Train one machine on what the layers below make of the images."""
    config, images = work.config, work.data
    learned, held_out = (seen(each, network, layer, config.data) for each in (images.train, images.valid))
    return Steps(
        machine,
        build_objective(config.objective),
        training_images(images.train, config).map(lifting(network, layer)),
        lambda: watch(machine, learned, held_out, config.model.annealing),
        slower(config.training, config.model.upper_rate) if layer else config.training,
        name=f"layer-{layer + 1}",
    )


def up_down_stage(work: Work[Images, ImageAssets], network: DeepBeliefNetwork) -> Steps:
    """Train all layers together; validation gives the bound of images held out."""
    config, images = work.config, work.data
    part: DbnConfig = config.model
    data: ImageData = config.data
    annealing: AnnealingConfig = part.annealing
    rows = all_rows(images.valid, data, WATCHED).to(work.processes.device)

    @torch.inference_mode()
    def validate() -> Figures:
        with seeded(0):
            begin = seen(images.valid, network, len(network.recognition), data)[: annealing.chains]
            log_z = log_z_above(network.top, begin, annealing.valid_steps)
            return {"valid_loss": -float(network.bound(rows, log_z).mean())}

    descent = OptimizerConfig(kind="sgd", learning_rate=part.up_down.learning_rate)
    return Steps(
        network,
        UpDown(part.up_down),
        image_stream(images.train, data.batch_size, data.values, config.seed + 1),
        validate,
        fading(config.training, part.up_down.epochs, descent),
        name=UP_DOWN,
    )


def fine_tuning_stage(work: Work[Images, ImageAssets], classifier: DeepClassifier) -> Steps:
    """Train the layers as a classifier.

    The errors decide which weights are kept: they go on falling when the cross-entropy has long been rising, for a few
    images are taken for another class with growing certainty.
    """
    config, images = work.config, work.data
    part: DbnConfig = config.model
    data: ImageData = config.data
    values = read_as(data.values)

    def validate() -> Figures:
        count = len(images.valid)
        loss, right = count_right(classifier.log_probs, images.valid, values, work.processes.device)
        return {"valid_loss": 100 * (count - right) / count, "valid_cross_entropy": loss / count}

    adam = OptimizerConfig(kind="adam", learning_rate=part.fine_tuning.learning_rate)
    return Steps(
        classifier,
        OwnLoss(OwnLossObjective()),
        image_stream(images.train, data.batch_size, values, config.seed + 2),
        validate,
        fading(config.training, part.fine_tuning.epochs, adam),
        name=FINE_TUNING,
        loss="valid error, %:",
    )


def sharing_time(config: RunConfig) -> RunConfig:
    """The same run, with an equal share of its minutes for each stage."""
    part: DbnConfig = config.model
    machines = len(part.sizes) + bool(part.up_down.epochs) if part.pretrain else 0
    minutes = config.training.minutes and config.training.minutes / max(1, machines + bool(part.fine_tuning.epochs))
    return config.model_copy(update={"training": config.training.model_copy(update={"minutes": minutes})})


def slower(training: TrainingConfig, part: float) -> TrainingConfig:
    """The same training at a part of its learning rate."""
    rate = training.optimizer.learning_rate * part
    optimizer = training.optimizer.model_copy(update={"learning_rate": rate})
    return training.model_copy(update={"optimizer": optimizer})


def fading(training: TrainingConfig, epochs: float, optimizer: OptimizerConfig) -> TrainingConfig:
    """The same training with other epochs and another optimiser; the rate falls to 0, one look an epoch."""
    return training.model_copy(
        update={
            "epochs": None if training.steps else epochs,
            "validate_every": None,
            "optimizer": optimizer,
            "schedule": ScheduleConfig(kind="linear"),
        }
    )


# ------------------------------------------------------------------------------------------- what a machine sees


@torch.inference_mode()
def arriving(images: ImageSet, network: DeepBeliefNetwork, layer: int, data: ImageData) -> Tensor:
    """What the first images are below the machine of a layer, drawn once: [images, units]."""
    rows = all_rows(images, data, WATCHED).to(network.device)
    with seeded(0):
        return network.rise(rows, layer)[-1]


def seen(images: ImageSet, network: DeepBeliefNetwork, layer: int, data: ImageData) -> Tensor:
    """The same as the machine sees it: the one at the top sees the classes too, where it knows any."""
    rows = arriving(images, network, layer, data)
    if layer < len(network.recognition) or images.labels is None:
        return rows
    return network.joined(rows, torch.from_numpy(images.labels[: len(rows)]).to(rows.device))


def lifting(network: DeepBeliefNetwork, layer: int) -> Callable[[ImageBatch], ImageBatch]:
    """What makes of a batch of images what the machine of a layer sees: drawn anew through the layers below."""
    at_top = layer == len(network.recognition)

    @torch.no_grad()
    def lift(batch: ImageBatch) -> ImageBatch:
        batch = batch.to(network.device)
        rows = network.rise(batch.images.flatten(1), layer)[-1]
        return ImageBatch(network.joined(rows, batch.labels) if at_top else rows, None)

    return lift


KIND = Dbn()
