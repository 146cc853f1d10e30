"""What drawn images are compared with real ones by: the features of a classifier, or principal components of pixels."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema import ImageClassifierConfig, OptimizerConfig, ScheduleConfig, TrainingConfig
from seqloom.data.image_batches import LEVELS
from seqloom.data.images import ImageSet
from seqloom.errors import ConfigError
from seqloom.metrics.frechet import classifier_score, frechet_distance, precision_recall
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_classifier import TrainedImageClassifier, train_image_classifier
from seqloom.runs.image_format import ImageFormat
from seqloom.runs.interpolation import copy_run
from seqloom.runs.language import PARTS
from seqloom.training import Processes, Reporter

JUDGE = "judge"
"""The part of a run folder that holds the classifier."""
STEPS = 600  # of the training of a classifier, where none was given
COMPONENTS = 64
FITTED = 2000  # images that principal components are found in
NEIGHBOURS = 3


class PixelComponents:
    """The largest principal components of training images: features where there are no classes to learn others by."""

    def __init__(self, images: ImageSet) -> None:
        pixels = _flat(images)[:FITTED]
        self.mean = pixels.mean(0)
        _, _, directions = np.linalg.svd(pixels - self.mean, full_matrices=False)
        self.directions = directions[:COMPONENTS]

    def features(self, images: ImageSet) -> NDArray[np.float32]:
        """[images, components]"""
        found: NDArray[np.float32] = (_flat(images) - self.mean) @ self.directions.T
        return found

    @property
    def name(self) -> str:
        """What features these are, to stand beside every figure that rests on them."""
        return f"{len(self.directions)} principal components of pixels"


Judge = TrainedImageClassifier | PixelComponents


def settle_judge(
    config: RunConfig, given: str | None, train: ImageSet, folder: RunFolder, processes: Processes, reporter: Reporter
) -> Judge:
    """The judge of a run, made before the run's own training: a copy of the run `given`, a classifier trained now, or,
    without classes, principal components.
    """
    part = RunFolder(folder.path / PARTS / JUDGE)
    if given is not None:
        if processes.main and not part.config_file.is_file():
            copy_run(RunFolder.open(given), part.path)
        processes.wait()
    elif train.labels is not None:
        reporter.say("a classifier of the images, to judge samples by")
        train_image_classifier(_classifier(config), None, part, processes, reporter)
    return load_judge(folder, train, config.training.device)


def load_judge(folder: RunFolder, train: ImageSet, device: str) -> Judge:
    """The judge of a run that was trained."""
    part = folder.path / PARTS / JUDGE
    return TrainedImageClassifier.load(part, device) if part.is_dir() else PixelComponents(train)


def check_judge(given: str, images: ImageSet) -> None:
    """Refuse a run that is no classifier of such images, before anything is written."""
    source = RunFolder.open(given)
    if not isinstance(source.config().model, ImageClassifierConfig):
        raise ConfigError(f"model.judge: {source.path} is not a run of kind image-classifier")
    wanted, found = ImageFormat.read(source).shape, ImageFormat.of(images).shape
    if wanted != found:
        raise ConfigError(
            f"model.judge: {source.path} reads images of {wanted[2]}×{wanted[1]} pixels and {wanted[0]} channels, and "
            f"these are {found[2]}×{found[1]} and {found[0]}: train it with the same data.size"
        )


def _classifier(config: RunConfig) -> RunConfig:
    """The configuration of a classifier of a run's images."""
    training = TrainingConfig(
        steps=STEPS,
        validate_every=max(1, STEPS // 4),
        device=config.training.device,
        optimizer=OptimizerConfig(learning_rate=2e-3),
        schedule=ScheduleConfig(kind="cosine", warmup=20),
    )
    return RunConfig(seed=config.seed, data=config.data, model=ImageClassifierConfig(width=16), training=training)


def compare_images(judge: Judge, real: ImageSet, drawn: ImageSet) -> dict[str, float]:
    """Drawn images beside real ones: distance, fidelity, coverage, and how clear and varied the classes are."""
    features, other = judge.features(real), judge.features(drawn)
    found = {"frechet_distance": frechet_distance(features, other)}
    if min(len(features), len(other)) > NEIGHBOURS:
        shares = precision_recall(features, other, NEIGHBOURS)
        found |= {"precision": 100 * shares.precision, "recall": 100 * shares.recall}
    if isinstance(judge, TrainedImageClassifier):
        found["classifier_score"] = classifier_score(judge.log_probs(drawn))
    return found


def _flat(images: ImageSet) -> NDArray[np.float32]:
    return images.images.reshape(len(images), -1).astype(np.float32) / np.float32(LEVELS)
