"""Classifiers of images: images in, classes and features out. They judge what other models draw."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema.data import ImageData
from seqloom.config.schema.image_classifier import ImageClassifierConfig
from seqloom.data.images import ImageSet
from seqloom.data.materials import Split
from seqloom.metrics.corpus_scores import Scored
from seqloom.metrics.labelling import label_hits
from seqloom.models.image_classifier import ImageClassifier
from seqloom.runs.capabilities import Classified, ClassifiesImages, EmbedsImages, LabelsImages, Pixels
from seqloom.runs.image_model import (
    ImageAssets,
    ImageKind,
    TrainedImageModel,
    count_right,
    labels_of,
    training_images,
)
from seqloom.runs.kind import Report, Work
from seqloom.runs.stages import Figures, Steps
from seqloom.training import build_objective


class TrainedImageClassifier(TrainedImageModel, ClassifiesImages, LabelsImages, EmbedsImages):
    """A classifier of images."""

    model: ImageClassifier

    @property
    def name(self) -> str:
        """What features these are, to stand beside every figure that rests on them."""
        return f"{self.kind} of {Path(self.data.train).name} trained here"

    @torch.inference_mode()
    def features(self, images: ImageSet | Pixels) -> NDArray[np.float32]:
        """A vector for each image, [images, features]."""
        return np.concatenate([self.model.features(batch.images).cpu().numpy() for batch in self.batches(images)])

    @torch.inference_mode()
    def log_probs(self, images: ImageSet | Pixels) -> NDArray[np.float32]:
        """log p of every class for each image, [images, classes]."""
        return np.concatenate([self.model.log_probs(batch.images).cpu().numpy() for batch in self.batches(images)])

    def classify(self, images: ImageSet | Pixels) -> list[Classified]:
        """The likeliest class of each image, and the probabilities of all."""
        return Classified.by_rows(self.images.classes, np.exp(self.log_probs(images)))

    def transform(self, images: ImageSet | Pixels) -> NDArray[np.float32]:
        """The features of images, as codes for other tasks."""
        return self.features(images)

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """How many classes are right, and -log p of the right ones."""
        images = self.held_out(source)
        labels = labels_of(images, source or self.data.train)
        log_probs = self.log_probs(images)
        right = float((log_probs.argmax(1) == labels).mean())
        loss = -float(log_probs[np.arange(len(labels)), labels].mean())
        figures = {"accuracy": 100 * right, "error": 100 * (1 - right), "log_loss": loss}
        return {name: Scored(value, self.signature) for name, value in figures.items()}


class Classifying(ImageKind[ImageAssets, TrainedImageClassifier]):
    """A small network: convolutions, or a vision Transformer."""

    config = ImageClassifierConfig
    assets = ImageAssets
    trained = TrainedImageClassifier
    next_step = "predict {run} --image ..."

    def prepare(self, config: RunConfig, kept: ImageAssets | None) -> tuple[Split[ImageSet], ImageAssets]:
        data: ImageData = config.data
        images, assets = super().prepare(config, kept)
        labels_of(images.train, data.train)
        labels_of(images.valid, data.valid or data.train)
        return images, assets

    def build(self, config: RunConfig, assets: ImageAssets) -> ImageClassifier:
        return ImageClassifier(config.model, assets.images.shape, len(assets.images.classes))

    def stages(self, work: Work[Split[ImageSet], ImageAssets]) -> Iterator[Steps]:
        config, images = work.config, work.data
        model: ImageClassifier = work.model

        def validate() -> Figures:
            loss, right = count_right(model.log_probs, images.valid, config.data.values, work.processes.device)
            return {"valid_loss": loss / len(images.valid), "valid_accuracy": 100 * right / len(images.valid)}

        yield Steps(
            model, build_objective(config.objective), training_images(images.train, config), validate, config.training
        )

    def report(self, trained: TrainedImageClassifier) -> Report:
        from seqloom.reports.labelling import labelling_section

        images = trained.held_out()
        labels = [trained.images.classes[number] for number in labels_of(images, trained.data.train)]
        predicted = [each.label for each in trained.classify(images)]
        return Report(
            {name: score.value for name, score in trained.figures().items()},
            [labelling_section(label_hits(labels, predicted), [labels], [predicted], [])],
        )


KIND = Classifying()
