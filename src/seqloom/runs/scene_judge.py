"""Who tells whether a drawn scene shows what was asked for: a classifier of the things that scenes are made of."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.config import RunConfig
from seqloom.config.schema import ImageClassifierConfig, ImageData, OptimizerConfig, ScheduleConfig, TrainingConfig
from seqloom.data.images import ImageSet
from seqloom.data.scenes import JITTER, LAYOUTS, NAMES, SIDE, THING, Scene, load_things
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_classifier import TrainedImageClassifier, fit_image_classifier
from seqloom.runs.image_materials import ImageMaterials
from seqloom.runs.images import Pixels
from seqloom.runs.judges import JUDGE
from seqloom.runs.language import PARTS
from seqloom.training import Processes, Reporter

PLACE = THING + 2 * JITTER  # pixels around the middle of a thing, in which all of it stands
PICTURES = {"train": 600, "valid": 60}  # of each thing, that the judge learns from and is validated on
STEPS = 1000  # of its training


@dataclass(frozen=True)
class Judged:
    """What a judge found in scenes."""

    scenes: tuple[Scene, ...]
    right: tuple[tuple[bool, ...], ...]
    """Of each scene, whether each thing in it was recognised where it should stand."""

    @property
    def things_right(self) -> float:
        """Per cent of all things."""
        return 100 * float(np.mean([right for several in self.right for right in several]))

    @property
    def scenes_right(self) -> float:
        """Per cent of the scenes of which all things are right."""
        return 100 * float(np.mean([all(several) for several in self.right]))

    def by_thing(self) -> dict[str, float]:
        """Per cent that are right of each thing that occurs, in the order of NAMES."""
        found: dict[int, list[bool]] = {}
        for scene, several in zip(self.scenes, self.right, strict=True):
            for thing, right in zip(scene.things, several, strict=True):
                found.setdefault(thing, []).append(right)
        return {NAMES[thing]: 100 * float(np.mean(found[thing])) for thing in sorted(found)}


class SceneJudge:
    """Looks at each place where a scene has a thing, and tells which of the 16 it is.

    It learned from the pictures of training scenes, one at a time, and has never seen a scene or a drawn image.
    """

    def __init__(self, classifier: TrainedImageClassifier) -> None:
        self.classifier = classifier

    @classmethod
    def train(cls, folder: RunFolder, seed: int, device: str, processes: Processes, reporter: Reporter) -> SceneJudge:
        """Train one as a part of a run, before the run's own training; one that stopped goes on."""
        reporter.say("a classifier of the things in scenes, to judge drawn ones by")
        part = RunFolder(folder.path / PARTS / JUDGE)
        materials = ImageMaterials(pictures_of_things("train"), pictures_of_things("valid"))
        fit_image_classifier(_configuration(seed, device), materials, part, processes, reporter)
        return cls.load(folder, device)

    @classmethod
    def load(cls, folder: RunFolder, device: str) -> SceneJudge:
        """That of a run."""
        return cls(TrainedImageClassifier.load(folder.path / PARTS / JUDGE, device))

    @staticmethod
    def of_run(folder: RunFolder) -> bool:
        """Whether a run has one."""
        return (folder.path / PARTS / JUDGE).is_dir()

    def __call__(self, images: Pixels, scenes: Sequence[Scene]) -> Judged:
        """What is found in images [count, 40, 40] that should show these scenes."""
        places = [place for image, scene in zip(images, scenes, strict=True) for place in _places(image, scene)]
        found = iter(self.classifier.classify(np.stack(places)))
        right = tuple(tuple(next(found) == NAMES[thing] for thing in scene.things) for scene in scenes)
        return Judged(tuple(scenes), right)


def pictures_of_things(part: str) -> ImageSet:
    """Pictures of each thing of a part of the scenes, alone, anywhere within its place: their classes are NAMES."""
    random = np.random.default_rng(0)
    images, labels = [], []
    for thing, pictures in enumerate(load_things(part)):
        for number in random.integers(len(pictures), size=PICTURES[part]).tolist():
            top, left = random.integers(0, 2 * JITTER + 1, 2)
            images.append(np.zeros((PLACE, PLACE), np.uint8))
            images[-1][top : top + THING, left : left + THING] = pictures[number]
            labels.append(thing)
    return ImageSet(np.stack(images), np.array(labels, np.int64), NAMES)


def scene_of(caption: str) -> Scene | None:
    """The scene that a sentence describes; none, if it is no sentence about a scene."""
    for layout in (layout for layouts in LAYOUTS for layout in layouts):
        match = re.fullmatch(layout.sentence.format(*[_ANY] * len(layout.places)), caption)
        if match is not None:
            return Scene(layout, tuple(NAMES.index(name) for name in match.groups()))
    return None


def scenes_of(captions: Iterable[str]) -> list[Scene] | None:
    """The scenes that sentences describe; none, if one of them does not."""
    found = [scene_of(caption) for caption in captions]
    known = [scene for scene in found if scene is not None]
    return known if known and len(known) == len(found) else None


_ANY = "(" + "|".join(NAMES) + ")"


def _places(image: NDArray[np.uint8], scene: Scene) -> list[NDArray[np.uint8]]:
    assert image.shape == (SIDE, SIDE)
    corners = [(top - PLACE // 2, left - PLACE // 2) for top, left in scene.layout.places]
    return [image[top : top + PLACE, left : left + PLACE] for top, left in corners]


def _configuration(seed: int, device: str) -> RunConfig:
    training = TrainingConfig(
        steps=STEPS,
        validate_every=max(1, STEPS // 4),
        device=device,
        optimizer=OptimizerConfig(learning_rate=2e-3, weight_decay=1e-2),
        schedule=ScheduleConfig(kind="cosine", warmup=20),
    )
    return RunConfig(seed=seed, data=ImageData(train="scenes"), model=ImageClassifierConfig(), training=training)
