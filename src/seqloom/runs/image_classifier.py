"""Trained classifiers of images: images in, classes and features out."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema import ImageClassifierConfig
from seqloom.data.image_batches import ImageBatch, ImageBatches, all_batches
from seqloom.data.images import ImageSet
from seqloom.errors import DataError, UserError
from seqloom.metrics import Scored
from seqloom.metrics.labelling import label_hits
from seqloom.models.image_classifier import ImageClassifier
from seqloom.reports import labelling_section, training_section, write_run_report
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.image_materials import ImageMaterials, image_shape, prepare_images
from seqloom.runs.images import BATCH, Pixels, TrainedImageModel
from seqloom.text import Tokenizer
from seqloom.training import Processes, Reporter, Trainer, choose_device, load_model_weights, load_weights, read_metrics
from seqloom.training.own_loss import OwnLoss


class TrainedImageClassifier(TrainedImageModel):
    """What `seqloom.load` gives back for a classifier of images."""

    def __init__(self, model: ImageClassifier, images: ImageFormat, config: RunConfig, path: Path) -> None:
        super().__init__(model, config, path)
        self.images = images

    @classmethod
    def load(cls, path: str | Path, device: str = "auto") -> Self:
        """A run folder, with its best weights."""
        folder = RunFolder.open(path)
        config, images = folder.config(), ImageFormat.read(folder)
        assert isinstance(config.model, ImageClassifierConfig)
        model = ImageClassifier(config.model, images.shape, len(images.classes))
        load_model_weights(model, load_weights(folder.weights_file), str(folder.weights_file))
        return cls(model.to(choose_device(device)).eval(), images, config, folder.path)

    def sample(self, size: int, seed: int = 0, **options: Any) -> Pixels:
        """A classifier draws nothing."""
        raise UserError(f"{self.path} is a classifier: it tells what is on an image, and draws none")

    @torch.inference_mode()
    def features(self, images: ImageSet | Pixels) -> NDArray[np.float32]:
        """A vector for each image, [images, features]."""
        found = [self.model.features(batch.images).cpu().numpy() for batch in self._read(images)]
        return np.concatenate(found)

    @torch.inference_mode()
    def log_probs(self, images: ImageSet | Pixels) -> NDArray[np.float32]:
        """log p of every class for each image, [images, classes]."""
        return np.concatenate([self.model.log_probs(batch.images).cpu().numpy() for batch in self._read(images)])

    def classify(self, images: ImageSet | Pixels) -> list[str]:
        """The most probable class of each image."""
        return [self.images.classes[number] for number in self.log_probs(images).argmax(1)]

    def figures(self, source: str | None = None) -> dict[str, Scored]:
        """How many classes are right, and -log p of the right ones."""
        images = self.held_out(source)
        labels = labels_of(images, source or self.config.image_data.train)
        log_probs = self.log_probs(images)
        right = float((log_probs.argmax(1) == labels).mean())
        loss = -float(log_probs[np.arange(len(labels)), labels].mean())
        found = {"accuracy": 100 * right, "error": 100 * (1 - right), "log_loss": loss}
        return {name: Scored(value, self.signature) for name, value in found.items()}

    def _read(self, images: ImageSet | Pixels) -> list[ImageBatch]:
        given = images if isinstance(images, ImageSet) else ImageSet(images, None)
        if image_shape(given) != self.images.shape:
            wanted, found = ("×".join(map(str, shape)) for shape in (self.images.shape, image_shape(given)))
            raise DataError(f"{self.path} reads images of {wanted} (channels, height, width), and these are {found}")
        return self.batches(given)

    @property
    def name(self) -> str:
        """What features these are, to stand beside every figure that rests on them."""
        return f"{self.kind} of {Path(self.config.image_data.train).name} trained here"


def labels_of(images: ImageSet, source: str) -> NDArray[np.int64]:
    """The classes of images that must have them."""
    if images.labels is None:
        raise DataError(f"the images of {source} have no classes: a subfolder for each class, or a file of labels")
    return images.labels


def train_image_classifier(
    config: RunConfig, _: Tokenizer | None, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit a classifier of the images that a configuration names."""
    materials = prepare_images(config)
    labels_of(materials.train, config.image_data.train)
    labels_of(materials.valid, config.image_data.valid or config.image_data.train)
    fit_image_classifier(config, materials, folder, processes, reporter)


def fit_image_classifier(
    config: RunConfig, materials: ImageMaterials, folder: RunFolder, processes: Processes, reporter: Reporter
) -> None:
    """Fit a classifier; a run that has begun goes on from its last checkpoint."""
    wanted, data = config.model, config.image_data
    assert isinstance(wanted, ImageClassifierConfig)
    going_on = folder.config_file.is_file()
    images = ImageFormat.of(materials.train)
    torch.manual_seed(config.seed)
    model = ImageClassifier(wanted, images.shape, len(images.classes))
    torch.manual_seed(config.seed * 1000 + processes.rank)  # the same weights, another dropout, in each process
    batches = ImageBatches(materials.train, data.batch_size, data.values, config.seed)

    def validate() -> dict[str, float]:
        return _validate(model, [*all_batches(materials.valid, BATCH, data.values)], processes.device)

    trainer = Trainer(model, OwnLoss(), batches, validate, config.training, folder.path, processes, reporter)
    if processes.main and not going_on:
        folder.write(config)
        images.write(folder)
    processes.wait()
    if going_on:
        trainer.resume()
    trainer.fit()


@torch.inference_mode()
def _validate(model: ImageClassifier, batches: list[ImageBatch], device: torch.device) -> dict[str, float]:
    """-log p per image, and the share of classes that are right."""
    loss, right = 0.0, 0
    for batch in batches:
        log_probs, labels = model.log_probs(batch.images.to(device)).cpu(), batch.labels
        assert labels is not None
        loss -= float(log_probs.gather(1, labels[:, None]).sum())
        right += int((log_probs.argmax(1) == labels).sum())
    count = sum(batch.tokens for batch in batches)
    return {"valid_loss": loss / count, "valid_accuracy": 100 * right / count}


def report_image_classifier(trained: TrainedImageClassifier) -> None:
    """`report.html` of the run: its figures, how it came about, and what it takes for what."""
    images = trained.held_out()
    names = trained.images.classes
    true = [names[number] for number in labels_of(images, trained.config.image_data.train)]
    found = trained.classify(images)
    write_run_report(
        trained.path / "report.html",
        trained.path.name,
        (trained.path / "config.yaml").read_text(encoding="utf-8"),
        training_section(read_metrics(trained.path)),
        {"parameters": trained.parameters, **{name: each.value for name, each in trained.figures().items()}},
        labelling_section(label_hits(true, found), [true], [found], []),
    )
