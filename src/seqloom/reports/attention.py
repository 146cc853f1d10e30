"""Where a decoder looked: for each pair of sentences, a heat map of the attention weights."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import DataError
from seqloom.files import write_text
from seqloom.reports import html
from seqloom.reports.numbers import significant

ROUNDING = 1e-2  # rows of half precision add up to 1 only so nearly
SWATCHES = (0.1, 0.25, 0.5, 0.75, 1.0)
# The mark keeps source and target in this order where both are written from the right.
ARROW = "\N{LEFT-TO-RIGHT MARK}→"
HOW_TO_READ = (
    "Down the side stands what was written, along the top what was read. The stronger the colour of a cell, the more "
    "the word on its left looked at the word above it; a frame marks where it looked most. Point at a cell to see its "
    "weight."
)


@dataclass(frozen=True, eq=False)
class AttentionMap:
    """What was read, what was written, and how much each word written looked at each word read."""

    source: list[str]
    target: list[str]
    weights: NDArray[np.floating]
    """[target, source]; no row adds up to more than 1."""
    log_prob: float | None = None
    """Of the target given the source, if known."""
    source_text: str = ""
    """The sentence as a reader would write it; its tokens with spaces between them if not given."""
    target_text: str = ""

    def record(self) -> dict[str, Any]:
        """What a program wants of it."""
        return {"source": self.source, "target": self.target, "weights": self.weights.round(4).tolist()}

    def __post_init__(self) -> None:
        shape = (len(self.target), len(self.source))
        if self.weights.shape != shape:
            raise ValueError(
                f"the weights are {list(self.weights.shape)}, but there are [target, source] {list(shape)}"
            )
        if not (np.all(self.weights >= 0) and np.all(self.weights.sum(axis=1) <= 1 + ROUNDING)):
            raise ValueError("attention weights are not negative, and those of a row add up to 1 at most")


def write_attention(path: Path, maps: Sequence[AttentionMap], title: str) -> None:
    """Write a page with one heat map for each pair to `path`, atomically."""
    if not maps:
        raise DataError(f"{path}: there is no attention to draw, as no sentence was decoded")
    swatches = [html.join([html.element("i", style=_shade(weight)), f"{weight:g}"]) for weight in SWATCHES]
    legend = html.element("p", "Weight", *swatches, class_="shades")
    write_text(Path(path), html.page(title, html.element("p", HOW_TO_READ), legend, *map(_figure, maps)))


def _figure(shown: AttentionMap) -> html.Markup:
    sentences = [
        html.element("p", shown.source_text or " ".join(shown.source), dir="auto"),
        html.element("p", shown.target_text or " ".join(shown.target), dir="auto"),
    ]
    if shown.log_prob is not None:
        each = shown.log_prob / max(1, len(shown.target))
        score = f"log-probability {significant(shown.log_prob)}, {significant(each)} per token"
        sentences.append(html.element("p", html.element("small", score)))
    scroll = html.element("div", _heat_map(shown), class_="scroll", tabindex="0")
    return html.element("figure", html.element("figcaption", *sentences), scroll, class_="attention")


def _heat_map(shown: AttentionMap) -> html.Markup:
    """A table whose cells are shaded; where a weight would read 0.00, the cell is left empty, and the page small."""
    words = [html.element("th", html.element("span", word, class_=_direction(word))) for word in shown.source]
    rows = [html.element("tr", html.Markup("<td></td>"), *words)]
    for word, weights in zip(shown.target, shown.weights.tolist(), strict=True):
        strongest = int(np.argmax(weights)) if weights else None
        cells = [
            _cell(weight, f"{source} {ARROW} {word}", index == strongest)
            for index, (weight, source) in enumerate(zip(weights, shown.source, strict=True))
        ]
        rows.append(html.element("tr", html.element("th", html.element("span", word, dir="auto")), *cells))
    return html.element("table", *rows)


def _cell(weight: float, words: str, strongest: bool) -> html.Markup:
    text = f"{weight:.2f}"
    if text == "0.00":
        return html.Markup("<td></td>")
    marked = {"class_": "most"} if strongest else {}
    return html.element("td", title=f"{text}  {words}", style=_shade(weight), **marked)


def _shade(weight: float) -> str:
    return f"--w:{weight:.2f}".replace("0.", ".")


def _direction(word: str) -> str:
    """Words along the top read upwards; those of Chinese, Japanese or Korean read downwards, their signs upright."""
    return "down" if any(unicodedata.east_asian_width(sign) in "WF" for sign in word) else "up"
