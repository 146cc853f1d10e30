"""Word vectors as a map: what is near in many dimensions is near on paper."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure

from seqloom.models.word_vectors import WordVectors
from seqloom.reports import html
from seqloom.reports.style import INK, MUTED, PALETTE, nothing_to_show, styled, svg
from seqloom.reports.word_places import FEWEST, INCHES, SIZE, WordPlaces


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
    if len(words) < FEWEST:
        return nothing_to_show("fewer than five words")
    found = WordPlaces.of(vectors, words)
    places, shown = found.places, found.shown
    figure = Figure(figsize=INCHES)
    axes = figure.subplots()
    axes.set_axis_off()
    axes.scatter(places[~shown, 0], places[~shown, 1], s=5, color=MUTED, alpha=0.6, linewidths=0)
    for word, place, named in zip(words, places, shown, strict=True):
        if named:
            axes.text(place[0], place[1], word, ha="center", va="center", fontsize=SIZE, color=INK).set_in_layout(False)
    axes.scatter(places[:, 0], places[:, 1], s=0, color=PALETTE[0])  # so that the limits hold all
    return figure
