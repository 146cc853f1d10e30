"""Word vectors as a map: what is near in many dimensions is near on paper."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqloom.models.word_vectors import WordVectors
from seqloom.reports import html
from seqloom.reports.style import INK, MUTED, PALETTE, nothing_to_show, styled, svg

Floats = NDArray[np.float64]

PERPLEXITY = 15.0
STEPS = 500
EXAGGERATED = 120  # first steps, in which neighbours attract each other more than they should
LETTER = 0.62  # width of a letter, in sizes of the font
SIZE = 8.5  # of the font, in points
INCHES = (10.4, 8.0)


def word_map_section(vectors: WordVectors, words: Sequence[str]) -> html.Markup:
    """The map as a part of a page."""
    drawn = svg(words_picture(vectors, words), "Words on a plane, those with similar vectors near each other")
    caption = (
        f"{len(words)} frequent words (t-SNE): words with similar vectors are near, distances far apart say little."
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
    places = project(vectors.unit[[vectors.place(word) for word in words]].astype(np.float64))
    figure = Figure(figsize=INCHES)
    axes = figure.subplots()
    axes.set_axis_off()
    span = np.ptp(places, axis=0)
    points = (places - places.min(0)) / span * np.array(INCHES) * 72 * 0.93  # roughly where they come to lie on paper
    shown = readable(points, words)
    axes.scatter(places[~shown, 0], places[~shown, 1], s=5, color=MUTED, alpha=0.6, linewidths=0)
    for word, place, named in zip(words, places, shown, strict=True):
        if named:
            axes.text(place[0], place[1], word, ha="center", va="center", fontsize=SIZE, color=INK).set_in_layout(False)
    axes.scatter(places[:, 0], places[:, 1], s=0, color=PALETTE[0])  # so that the limits hold all
    return figure


def readable(points: Floats, words: Sequence[str]) -> NDArray[np.bool_]:
    """Which names can be written without touching one before them."""
    half = np.array([[len(word) * LETTER * SIZE / 2 + 2, SIZE * 0.65] for word in words])
    shown = np.zeros(len(words), bool)
    for index in range(len(words)):
        taken = np.flatnonzero(shown)
        apart = np.abs(points[taken] - points[index]) > half[taken] + half[index]
        shown[index] = apart.any(1).all()
    return shown


def project(vectors: Floats, steps: int = STEPS) -> Floats:
    """t-SNE (van der Maaten & Hinton 2008), exact: places y that minimise KL(P‖Q) by gradient descent with momentum.

    p_ij ∝ exp(-‖x_i - x_j‖²/2σ_i²), symmetrised, with σ_i such that each point has `PERPLEXITY` neighbours;
    q_ij ∝ 1/(1 + ‖y_i - y_j‖²). The start is the two main components, so that the same vectors give the same map.
    """
    attraction = affinities(vectors)
    centred = vectors - vectors.mean(0)
    left, strength, _ = np.linalg.svd(centred, full_matrices=False)
    places = left[:, :2] * strength[:2]
    if places.shape[1] < 2:
        places = np.pad(places, ((0, 0), (0, 2 - places.shape[1])))
    places *= 1e-2 / max(places[:, 0].std(), 1e-12)
    velocity = np.zeros_like(places)
    gains = np.ones_like(places)
    for step in range(steps):
        wanted = attraction * (12.0 if step < EXAGGERATED else 1.0)
        kernel = 1 / (1 + squared_distances(places))
        np.fill_diagonal(kernel, 0.0)
        force = (wanted - kernel / kernel.sum()) * kernel
        gradient = 4 * (force.sum(1)[:, None] * places - force @ places)
        gains = np.where(np.sign(gradient) == np.sign(velocity), gains * 0.8, gains + 0.2).clip(0.01)
        momentum = 0.5 if step < EXAGGERATED else 0.8
        velocity = momentum * velocity - max(50.0, len(vectors) / 12) * gains * gradient
        places = places + velocity
    return places - places.mean(0)


def affinities(vectors: Floats) -> Floats:
    """p_ij of t-SNE; the width of each point's neighbourhood is found by bisection."""
    distances = squared_distances(vectors)
    wanted = np.log(min(PERPLEXITY, (len(vectors) - 1) / 3))
    low, high = np.full(len(vectors), 1e-6), np.full(len(vectors), 1e6)  # of 1/2σ²
    for _ in range(60):
        sharpness = np.sqrt(low * high)
        weights = np.exp(-distances * sharpness[:, None])
        np.fill_diagonal(weights, 0.0)
        total = np.maximum(weights.sum(1), 1e-300)
        entropy = np.log(total) + sharpness * (weights * distances).sum(1) / total
        low, high = np.where(entropy > wanted, sharpness, low), np.where(entropy > wanted, high, sharpness)
    shares = weights / total[:, None]
    return (shares + shares.T) / (2 * len(vectors))


def squared_distances(points: Floats) -> Floats:
    """‖x_i - x_j‖² of all pairs."""
    lengths = (points**2).sum(1)
    return np.maximum(lengths[:, None] + lengths[None] - 2 * points @ points.T, 0.0)
