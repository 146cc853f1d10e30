"""What models with codes behind images have to show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqloom.reports import html
from seqloom.reports.pictures import Pixels, inline_sheet
from seqloom.reports.style import PALETTE, styled, svg

MARKS = ("o", "^", "s", "D")  # where there are more classes than colours


def pictures_section(heading: str, pictures: Mapping[str, tuple[Pixels, int]]) -> html.Markup:
    """Sheets of images, each by its caption: the images and how many stand in a row."""
    sheets = [inline_sheet(images, caption, columns) for caption, (images, columns) in pictures.items()]
    return html.section(heading, *sheets)


def rows_together(*rows: Pixels) -> Pixels:
    """Several rows of images below each other, as one sheet reads them."""
    return np.concatenate(rows)


def code_map_section(codes: NDArray[np.float32], labels: NDArray[np.int64] | None, names: Sequence[str]) -> html.Markup:
    """The first two numbers of codes as points, by class where it is known."""
    picture = svg(code_map(codes, labels, names), "Codes of held-out images in the plane")
    return html.section("Where images lie", html.figure(picture, "Codes of held-out images, by class."))


@styled()
def code_map(codes: NDArray[np.float32], labels: NDArray[np.int64] | None, names: Sequence[str]) -> Figure:
    """Points in the plane of the first two numbers of a code."""
    figure = Figure(figsize=(7.2, 5.6))
    axes = figure.subplots()
    known = np.zeros(len(codes), np.int64) if labels is None else labels
    for label in np.unique(known).tolist():
        chosen = codes[known == label]
        name = names[label] if label < len(names) else str(label)
        color, marker = PALETTE[label % len(PALETTE)], MARKS[label // len(PALETTE) % len(MARKS)]
        axes.scatter(chosen[:, 0], chosen[:, 1], s=12, color=color, marker=marker, label=name)
    axes.set(xlabel="first number of the code", ylabel="second number")
    if labels is not None:
        axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5))
    return figure
