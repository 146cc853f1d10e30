"""Where a captioner looked: for each word of a caption, the image with the places it looked at coloured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seqloom.errors import DataError
from seqloom.files import write_text
from seqloom.reports import html
from seqloom.reports.numbers import significant
from seqloom.reports.pictures import Pixels, enlarged, inline_picture

WIDTH = 96  # a picture is drawn at least so many pixels wide
HEAT = np.array([255, 110, 30], np.float32)
OPAQUE = 0.75  # how much of the colour is seen where the model looked most

HOW_TO_READ = (
    "Beside each image stands the image once more for every word of its caption: the stronger the orange, the more the "
    "model looked there when it chose the word. The strongest orange is the word's largest weight, written below it."
)


@dataclass(frozen=True, eq=False)
class ImageAttention:
    """An image, what was written about it, and how much each word looked at each place."""

    image: Pixels
    """[height, width], or [height, width, 3] in colour."""
    words: list[str]
    weights: NDArray[np.floating]
    """[words, rows, columns]; each word's add up to 1."""
    text: str
    """The caption as a reader would write it."""
    log_prob: float

    def record(self) -> dict[str, Any]:
        """What a program wants of it."""
        return {"target": self.words, "weights": self.weights.round(4).tolist()}

    def __post_init__(self) -> None:
        if self.weights.ndim != 3 or len(self.weights) != len(self.words):
            raise ValueError(f"the weights are {list(self.weights.shape)}, not [words, rows, columns] of each word")


def write_image_attention(path: Path, maps: Sequence[ImageAttention], title: str) -> None:
    """Write a page with all captions to `path`, atomically."""
    if not maps:
        raise DataError(f"{path}: there is no attention to draw, as no image was captioned")
    write_text(Path(path), html.page(title, html.element("p", HOW_TO_READ), *(_figure(shown) for shown in maps)))


def captions_section(examples: Sequence[tuple[ImageAttention, Sequence[str]]]) -> html.Markup:
    """What a captioner writes about some images: each with its references, and where it looked."""
    figures = [_figure(shown, references) for shown, references in examples]
    return html.section(html.WRITES, html.element("p", HOW_TO_READ), *figures)


def heat_map(image: Pixels, weights: NDArray[np.floating], width: int = WIDTH) -> Image.Image:
    """An image, at least `width` pixels wide, coloured where the weights [rows, columns] are large."""
    picture = enlarged(Image.fromarray(image).convert("RGB"), width)
    pixels = np.asarray(picture, np.float32)
    strength = Image.fromarray((weights / max(float(weights.max()), 1e-9)).astype(np.float32))
    share = OPAQUE * np.asarray(strength.resize(picture.size, Image.Resampling.BILINEAR))[..., None]
    return Image.fromarray(((1 - share) * pixels + share * HEAT).round().astype(np.uint8))


def _figure(shown: ImageAttention, references: Sequence[str] = ()) -> html.Markup:
    said = [html.element("p", reference, dir="auto") for reference in references]
    said.append(html.element("p", html.element("strong", shown.text), dir="auto"))
    score = f"log-probability {significant(shown.log_prob)}"
    said.append(html.element("p", html.element("small", score)))
    plain = heat_map(shown.image, np.zeros(shown.weights.shape[1:], np.float32))
    looks = [
        _look(heat_map(shown.image, weights), word, significant(float(weights.max()), 2))
        for word, weights in zip(shown.words, shown.weights, strict=True)
    ]
    row = html.element("div", _look(plain, "", ""), *looks, class_="looks")
    return html.element("figure", html.element("figcaption", *said), row, class_="attention")


def _look(picture: Image.Image, word: str, weight: str) -> html.Markup:
    image = inline_picture(picture, f"where it looked for {word}" if word else "the image")
    return html.element("div", image, html.element("span", word, " ", html.element("small", weight), dir="auto"))
