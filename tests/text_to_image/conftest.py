"""Images of two shades, with captions that say so, and somebody who reads them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from seqloom.runs.capabilities import Captions
from seqloom.runs.generation import Generated
from seqloom.text.words import WordTokenizer

SHADES = {"black": 0, "grey": 120, "white": 240}


@pytest.fixture(scope="session")
def shades(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Images of 8×8 pixels, a shade on the left and another on the right, with captions that say so."""
    folder = tmp_path_factory.mktemp("shades")
    random = np.random.default_rng(0)
    lines = []
    for number in range(60):
        names = random.choice(list(SHADES), 2)
        pixels = np.concatenate([np.full((8, 4), SHADES[name]) for name in names], axis=1)
        Image.fromarray((pixels + random.integers(0, 15, pixels.shape)).astype(np.uint8)).save(folder / f"{number}.png")
        lines.append(json.dumps({"image": f"{number}.png", "caption": f"{names[0]} left of {names[1]}"}))
    (folder / "train.jsonl").write_text("\n".join(lines), encoding="utf-8")
    return folder / "train.jsonl"


class Reader(Captions):
    """Says what the brightness of both halves is: reads the real images right, and good drawings mostly."""

    path = Path("runs/reader")

    @property
    def tokenizer(self) -> WordTokenizer:
        return WordTokenizer.train([" ".join([*SHADES, "left of"])])

    def see(self, images: Any = (), features: Any = None) -> Iterator[Any]:
        return iter(images)

    def generate(self, images: Any, /, *_: Any, **__: Any) -> list[list[Generated]]:
        halves = [(image[:, :4].mean(), image[:, 4:].mean()) for image in images.astype(float)]
        return [[Generated(" left of ".join(map(_nearest, both)), 0.0, 5)] for both in halves]

    def caption(self, images: Any, **options: Any) -> list[str]:
        return [several[0].text for several in self.generate(images, **options)]


def _nearest(brightness: float) -> str:
    return min(SHADES, key=lambda name: abs(SHADES[name] + 7 - brightness))


@pytest.fixture
def reader() -> Captions:
    return Reader()
