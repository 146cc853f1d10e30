"""Word vectors as a map: what is near in many dimensions is near on paper."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqloom.models.word_vectors import WordVectors
from seqloom.reports import html
from seqloom.reports.style import INK, MUTED, PALETTE, nothing_to_show, styled, svg

Floats = NDArray[np.float64]

LETTER, WIDE = 0.62, 1.0  # width of a letter, and of one of Chinese, in sizes of the font
SIZE = 8.5  # of the font, in points
INCHES = (10.4, 8.0)


def word_map_section(vectors: WordVectors, words: Sequence[str]) -> html.Markup:
    """The map as a part of a page."""
    drawn = svg(words_picture(vectors, words), "Words on a plane, those with similar vectors near each other")
    caption = (
        f"{len(words)} frequent words along the two main components of their vectors (PCA), spread evenly: words with "
        "similar vectors are near, but what is near may differ in other components."
    )
    return html.section("Map", html.figure(drawn, caption))


def neighbours_section(near: Sequence[tuple[str, Sequence[str]]], before: html.Markup) -> html.Markup:
    """The map, then some words with those that are nearest to them."""
    rows = [(word, [", ".join(others)]) for word, others in near]
    return html.join([before, html.section("Neighbours", html.side_by_side("Word", ["Nearest words"], rows))])


@styled()
def words_picture(vectors: WordVectors, words: Sequence[str]) -> Figure:
    """Words at their places on a plane; where names would lie on each other, that of the later word is left out."""
    if len(words) < 5:
        return nothing_to_show("fewer than five words")
    places = spread(project(vectors.unit[[vectors.place(word) for word in words]].astype(np.float64)))
    figure = Figure(figsize=INCHES)
    axes = figure.subplots()
    axes.set_axis_off()
    points = places / (len(words) - 1) * np.array(INCHES) * 72 * 0.93  # roughly where they come to lie on paper
    shown = readable(points, words)
    axes.scatter(places[~shown, 0], places[~shown, 1], s=5, color=MUTED, alpha=0.6, linewidths=0)
    for word, place, named in zip(words, places, shown, strict=True):
        if named:
            axes.text(place[0], place[1], word, ha="center", va="center", fontsize=SIZE, color=INK).set_in_layout(False)
    axes.scatter(places[:, 0], places[:, 1], s=0, color=PALETTE[0])  # so that the limits hold all
    return figure


def readable(points: Floats, words: Sequence[str]) -> NDArray[np.bool_]:
    """Which names can be written without touching one before them."""
    half = np.array([[_width(word) * SIZE / 2 + 2, SIZE * 0.65] for word in words])
    shown = np.zeros(len(words), bool)
    for index in range(len(words)):
        taken = np.flatnonzero(shown)
        apart = np.abs(points[taken] - points[index]) > half[taken] + half[index]
        shown[index] = apart.any(1).all()
    return shown


def _width(word: str) -> float:
    return sum(WIDE if unicodedata.east_asian_width(letter) in "WF" else LETTER for letter in word)


def project(vectors: Floats) -> Floats:
    """The two main components of vectors (PCA): the plane in which they differ most. [words, size] -> [words, 2]

    A component may point either way: it goes where its largest number is positive, so that a map is always the same.
    """
    left, strengths, directions = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    signs = np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(1)])
    places = (left * strengths * signs)[:, :2]
    return np.pad(places, ((0, 0), (0, 2 - places.shape[1])))


def spread(places: Floats) -> Floats:
    """Each coordinate by its rank: words crowd in the middle of the plane, and would hide each other there."""
    return places.argsort(0, kind="stable").argsort(0).astype(np.float64)
