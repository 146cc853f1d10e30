"""The plots: what a comparison, a corpus or a model looked like. Each function gives a matplotlib figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqloom.errors import DataError
from seqloom.reports.labels import draw_line, label_ends
from seqloom.reports.ladder import Ladder
from seqloom.reports.style import DASHED, PALETTE, SHORTEST, nothing_to_show, scale_ticks, series, styled
from seqloom.text.statistics import CorpusStatistics

WIDE = 30.0  # an axis that spans more than this factor is logarithmic
MOST_POINTS = 400  # of one line; more cannot be seen


@styled()
def learning_curves(ladder: Ladder) -> Figure:
    """Validation loss against the tokens or images seen and against the seconds spent, one line per rung."""
    figure = Figure(figsize=(10.4, 4.4))
    by_tokens, by_time = figure.subplots(1, 2, sharey=True)
    labels = []
    for index, rung in enumerate(ladder.rungs):
        points = [point for point in rung.curve if math.isfinite(point.loss) and point.tokens > 0]
        if points:
            losses = [point.loss for point in points]
            seconds = [max(point.seconds, SHORTEST) for point in points]
            draw_line(by_tokens, [point.tokens for point in points], losses, series(index), rung.name)
            labels.append(draw_line(by_time, seconds, losses, series(index), rung.name))
    by_tokens.set(
        xlabel=f"{ladder.unit}s seen",
        ylabel=f"validation loss, nats per {ladder.unit}",
        title=f"By {ladder.unit}s seen",
    )
    by_time.set(xlabel="seconds of training", title="By time spent")
    if not labels:
        return nothing_to_show("no rung has a finite validation loss")
    for axes in (by_tokens, by_time):
        axes.margins(x=0.04, y=0.06)
        values = np.concatenate([line.get_xdata() for line in axes.get_lines()])
        scale_ticks(axes, log_x=bool(values.max() / values.min() > WIDE))
    label_ends(figure, by_time, labels)
    return figure


@styled()
def zipf(statistics: CorpusStatistics) -> Figure:
    """Frequency against rank of words, bigrams and trigrams, both logarithmic, with the fitted lines."""
    figure = Figure(figsize=(7.6, 5.0))
    axes = figure.subplots()
    for order, name in enumerate(("words", "bigrams", "trigrams")[: len(statistics.tables)], start=1):
        frequencies = statistics.frequencies(order)
        if not len(frequencies):
            continue
        look = series(order - 1)
        try:
            fit = statistics.zipf(order)
        except DataError:  # a single distinct n-gram has no slope
            label = name
        else:
            label = f"{name}: α = {fit.exponent:.2f} (R² = {fit.r_squared:.2f})"
            ends = np.array([fit.ranks[0], fit.ranks[-1]], dtype=np.float64)
            axes.plot(ends, fit.frequency(ends), color=look.color, **DASHED)
        ranks = np.unique(np.geomspace(1, len(frequencies), MOST_POINTS).round().astype(np.int64))
        shown = frequencies[ranks - 1]
        axes.plot(ranks, shown, color=look.color, marker=look.marker, markersize=2.5, linewidth=1.2, label=label)
    axes.set(xlabel="rank", ylabel="frequency")
    scale_ticks(axes, log_x=True, log_y=True)
    axes.legend(loc="upper right", title="dashed: frequency ∝ rank⁻ᵅ", alignment="left")
    return figure


@styled()
def gradient_flow(distances: Sequence[int], norms_by_name: Mapping[str, Sequence[float]]) -> Figure:
    """‖∂loss_T/∂h_t‖ against the distance T - t: how the gradient vanishes or explodes on its way back."""
    figure = Figure(figsize=(8.6, 4.4))
    axes = figure.subplots()
    labels = []
    for index, (name, norms) in enumerate(norms_by_name.items()):
        shown = [(x, y) for x, y in zip(distances, norms, strict=True) if math.isfinite(y) and y > 0]
        if shown:
            x, y = zip(*shown, strict=True)
            labels.append(draw_line(axes, x, y, series(index), name))
    if not labels:
        return nothing_to_show("no gradient is finite and above 0")
    axes.set(xlabel="distance T − t, time steps", ylabel="‖∂ loss at T / ∂ hidden state at t‖")
    axes.margins(x=0.03)
    scale_ticks(axes, log_y=True)
    label_ends(figure, axes, labels)
    return figure


@styled()
def normaliser_histogram(values: NDArray[np.floating]) -> Figure:
    """How often log Z(h) has which value; a line where scores are log-probabilities by themselves."""
    figure = Figure(figsize=(8.6, 3.6))
    axes = figure.subplots()
    shares = np.full(len(values), 100 / max(1, len(values)))
    axes.hist(values, bins=60, weights=shares, color=PALETTE[0])
    axes.axvline(0.0, color=PALETTE[1], linestyle="--", label="normalised")
    axes.set(xlabel="log Z(h)", ylabel="% of the places")
    axes.legend(loc="upper right")
    return figure
