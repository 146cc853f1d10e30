"""Do drawn scenes show what was asked for? python -m benchmarks.scene_judge RUN [--temperature T ...]

A model of text to image draws every caption of some scenes once, and a classifier of the things that scenes are made of
looks at each place where a thing should stand. It prints a line for each temperature and one for the real scenes:

    things_right   per cent of the things that are recognised
    scenes_right   per cent of the scenes of which all things are
    by_thing       per cent of each thing

The classifier learns from the pictures of training scenes, one thing at a time, and sees neither scenes nor drawn
images. It is trained once, in less than a minute on a processor, and kept in the folder --judge.
"""

from __future__ import annotations

import argparse
import json
import re
import struct
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

import seqloom
from seqloom.data.images import ImageSet
from seqloom.data.scenes import JITTER, LAYOUTS, NAMES, THING, Scene, load_things
from seqloom.training import Reporter, reporter

Pixels = NDArray[np.uint8]

PLACE = THING + 2 * JITTER  # pixels around the middle of a thing, in which all of it stands
PICTURES = {"train": 600, "valid": 60}  # of each thing, that the judge learns from and is validated on
STEPS = 1000  # of its training
ANY = "(" + "|".join(NAMES) + ")"


# ------------------------------------------------------------------------------------------------------ the judge


class Classifier(Protocol):
    """Tells which thing is on each of some images."""

    def classify(self, images: Pixels) -> list[str]:
        """The numbers of things in NAMES, written out."""


@dataclass(frozen=True)
class Judgement:
    """What was recognised in scenes."""

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
        answers: dict[int, list[bool]] = {}
        for scene, several in zip(self.scenes, self.right, strict=True):
            for thing, right in zip(scene.things, several, strict=True):
                answers.setdefault(thing, []).append(right)
        return {NAMES[thing]: 100 * float(np.mean(answers[thing])) for thing in sorted(answers)}

    def line(self, **what: Any) -> str:
        """All of it as a line of JSON, after what was judged."""
        figures = {"things_right": self.things_right, "scenes_right": self.scenes_right, "by_thing": self.by_thing()}
        return json.dumps({**what, **figures})


@dataclass(frozen=True)
class SceneJudge:
    """Looks at each place where a scene has a thing, and tells which of the 16 it is."""

    classifier: Classifier

    @classmethod
    def train(cls, folder: Path, device: str = "auto", reporter: Reporter | None = None) -> SceneJudge:
        """The judge of a folder, trained where there is none; a training that stopped goes on."""
        files = {part: folder / "pictures" / f"{part}-images-idx3-ubyte" for part in PICTURES}
        for part, file in files.items():
            write_idx(pictures_of_things(part), file)
        config = {
            "data": {"kind": "images", "train": str(files["train"]), "valid": str(files["valid"])},
            "model": {"kind": "image-classifier"},
            "training": {
                "steps": STEPS,
                "validate_every": max(1, STEPS // 4),
                "device": device,
                "optimizer": {"learning_rate": 2e-3, "weight_decay": 1e-2},
                "schedule": {"kind": "cosine", "warmup": 20},
            },
        }
        run = folder / "classifier"
        begun = (run / "run.json").is_file()
        classifier: Any = seqloom.train(config, out=run, resume=begun, reporter=reporter, report=False)
        return cls(classifier)

    def __call__(self, images: Pixels, scenes: Sequence[Scene]) -> Judgement:
        """What is recognised in images [count, 40, 40] that should show these scenes."""
        places = [place for image, scene in zip(images, scenes, strict=True) for place in _places(image, scene)]
        answers = (NAMES[int(each.label)] for each in self.classifier.classify(np.stack(places)))
        right = tuple(tuple(next(answers) == NAMES[thing] for thing in scene.things) for scene in scenes)
        return Judgement(tuple(scenes), right)


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


def write_idx(pictures: ImageSet, file: Path) -> None:
    """Images and their labels as MNIST is published: the labels beside the images, under the name that goes with it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    labels = file.with_name(file.name.replace("images", "labels").replace("idx3", "idx1"))
    for path, array in ((file, pictures.images), (labels, pictures.labels)):
        sizes = struct.pack(f">{array.ndim}I", *array.shape)
        path.write_bytes(bytes([0, 0, 8, array.ndim]) + sizes + array.astype(np.uint8).tobytes())


def _places(image: Pixels, scene: Scene) -> list[Pixels]:
    corners = [(top - PLACE // 2, left - PLACE // 2) for top, left in scene.layout.places]
    return [image[top : top + PLACE, left : left + PLACE] for top, left in corners]


# -------------------------------------------------------------------------------------------- what captions ask for


def scene_of(caption: str) -> Scene | None:
    """The scene that a sentence describes; none, if it is no sentence about a scene."""
    for layout in (layout for layouts in LAYOUTS for layout in layouts):
        match = re.fullmatch(layout.sentence.format(*[ANY] * len(layout.places)), caption)
        if match is not None:
            return Scene(layout, tuple(NAMES.index(name) for name in match.groups()))
    return None


def scenes_of(captions: Iterable[str]) -> list[Scene]:
    """The scenes that sentences describe."""
    scenes = []
    for caption in captions:
        scene = scene_of(caption)
        if scene is None:
            raise seqloom.UserError(f"{caption!r} tells of no scene: --source takes `scenes:valid` or `scenes:test`")
        scenes.append(scene)
    return scenes


# ----------------------------------------------------------------------------------------------------- the command


def main() -> None:
    """Print one line for each temperature, and one for the real scenes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", help="the folder of a run of kind text-to-image")
    parser.add_argument("--source", default="scenes:test", help="the scenes whose captions are drawn")
    parser.add_argument("--temperature", type=float, nargs="+", default=[1.0], help="of the draws, one or more")
    parser.add_argument("--judge", type=Path, default=Path("runs/scene-judge"), help="where the classifier is kept")
    parser.add_argument("--device", default="auto", choices=["auto", "cpu", "cuda"])
    arguments = parser.parse_args()
    model: Any = seqloom.load(arguments.run, arguments.device)
    captioned = model.captioned(arguments.source)
    captions = [several[0] for several in captioned.captions]
    scenes = scenes_of(captions)
    judge = SceneJudge.train(arguments.judge, arguments.device, reporter())
    for temperature in arguments.temperature:
        drawn = model.draw_each(captions, temperature=temperature)
        print(judge(drawn, scenes).line(images="drawn", temperature=temperature))
        sys.stdout.flush()
    print(judge(captioned.images, scenes).line(images="real"))


if __name__ == "__main__":
    main()
