"""Scenes: real digits and clothes put together, each with the one sentence that says what stands where.

    three above seven, left of a boot

The pictures are those of the bundled sets, but what a scene shows is chosen here, so that it is known exactly what its
caption must be, and which compositions a model has never seen.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seqloom.data.images import load_images
from seqloom.errors import DataError, did_you_mean

DESCRIPTION = "23,000 scenes of one to three of those digits and clothes, 40×40, each with its sentence"
SIDE = 40  # pixels of a scene
THING = 16  # of a thing in it
JITTER = 2  # how far it may stand from its place, either way
HELD_OUT = {"valid": 0.05, "test": 0.1}  # of the compositions of two and of three things
COUNTS = {"train": 20_000, "valid": 1000, "test": 2000}
KINDS = (0.1, 0.3, 0.6)  # how often a training scene has one, two, three things

DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
CLOTHES = {1: "trousers", 2: "a sweater", 3: "a dress", 5: "a sandal", 8: "a bag", 9: "a boot"}
"""What can be told apart by anybody, by its label in `fashion`."""
NAMES = (*DIGITS, *CLOTHES.values())


@dataclass(frozen=True)
class Layout:
    """How so many things stand, and how that is said: {0}, {1}, {2} are their names."""

    sentence: str
    places: tuple[tuple[int, int], ...]
    """Of the middle of each thing, from the top and from the left, in pixels."""


LAYOUTS: tuple[tuple[Layout, ...], ...] = (
    (Layout("{0}", ((20, 20),)),),
    (Layout("{0} above {1}", ((10, 20), (30, 20))), Layout("{0} left of {1}", ((20, 10), (20, 30)))),
    (
        Layout("{0} above {1}, left of {2}", ((10, 10), (30, 10), (20, 30))),
        Layout("{0}, left of {1} above {2}", ((20, 10), (10, 30), (30, 30))),
        Layout("{0} left of {1}, above {2}", ((10, 10), (10, 30), (30, 20))),
        Layout("{0}, above {1} left of {2}", ((10, 20), (30, 10), (30, 30))),
    ),
)
"""By the number of things less one."""


@dataclass(frozen=True)
class Scene:
    """What stands where, and the sentence that says so."""

    layout: Layout
    things: tuple[int, ...]
    """By their numbers in NAMES."""

    @property
    def caption(self) -> str:
        """The sentence."""
        return self.layout.sentence.format(*(NAMES[thing] for thing in self.things))

    @property
    def part(self) -> str:
        """Where it belongs: a composition is in one part only, and what has one thing always in `train`."""
        if len(self.things) == 1:
            return "train"
        digest = hashlib.blake2b(self.caption.encode(), digest_size=8).digest()
        drawn = int.from_bytes(digest) / 2**64
        for part, share in HELD_OUT.items():
            if drawn < share:
                return part
            drawn -= share
        return "train"


def load_scenes(part: str = "train", count: int | None = None) -> tuple[NDArray[np.uint8], list[str]]:
    """The scenes of a part, [count, 40, 40], and their captions; the same every time.

    Neither the compositions of `valid` and `test` nor the pictures in them are in `train`.
    """
    if part not in COUNTS:
        raise DataError(f"scenes have no part {part!r}{did_you_mean(part, COUNTS)}")
    random = np.random.default_rng(list(COUNTS).index(part))
    things = load_things(part)
    scenes = [_draw(random, part) for _ in range(count or COUNTS[part])]
    return np.stack([_paint(scene, things, random) for scene in scenes]), [scene.caption for scene in scenes]


def _draw(random: np.random.Generator, part: str) -> Scene:
    """A composition of this part."""
    while True:
        layouts = LAYOUTS[random.choice(len(KINDS), p=KINDS)]
        layout = layouts[random.integers(len(layouts))]
        scene = Scene(layout, tuple(random.integers(len(NAMES), size=len(layout.places)).tolist()))
        if scene.part == part:
            return scene


def _paint(scene: Scene, things: Sequence[NDArray[np.uint8]], random: np.random.Generator) -> NDArray[np.uint8]:
    canvas = np.zeros((SIDE, SIDE), np.uint8)
    for thing, middle in zip(scene.things, scene.layout.places, strict=True):
        pictures = things[thing]
        top, left = np.array(middle) - THING // 2 + random.integers(-JITTER, JITTER + 1, 2)
        where = canvas[top : top + THING, left : left + THING]
        np.maximum(where, pictures[random.integers(len(pictures))], out=where)
    return canvas


@cache
def load_things(part: str) -> tuple[NDArray[np.uint8], ...]:
    """The pictures of each thing that scenes of a part are made of, [pictures, 16, 16] by the order of NAMES."""
    digits, clothes = load_images("digits"), load_images("fashion:test" if part == "test" else "fashion")
    pictures = []
    for images, labels, shares in (
        (digits, range(len(DIGITS)), {"train": (0.0, 0.8), "valid": (0.8, 0.9), "test": (0.9, 1.0)}),
        (clothes, CLOTHES, {"train": (0.0, 0.9), "valid": (0.9, 1.0), "test": (0.0, 1.0)}),
    ):
        for label in labels:
            alike = images.images[images.labels == label]
            pictures.append(_resized(alike[_share(len(alike), *shares[part])]))
    return tuple(pictures)


def _share(count: int, first: float, last: float) -> NDArray[np.int64]:
    """The pictures that a part may use: writers of digits come in all parts, their digits in one."""
    return np.random.default_rng(0).permutation(count)[round(first * count) : round(last * count)]


def _resized(pictures: NDArray[np.uint8]) -> NDArray[np.uint8]:
    smooth = Image.Resampling.BICUBIC if pictures.shape[1] < THING else Image.Resampling.BOX
    return np.stack([np.asarray(Image.fromarray(each).resize((THING, THING), smooth)) for each in pictures])
