"""The plots: what a comparison, a corpus or a model looked like. Each function gives a matplotlib figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqloom.data.graphs import Graph
from seqloom.errors import DataError
from seqloom.reports.labels import draw_line, label_ends
from seqloom.reports.ladder import Ladder, Rung
from seqloom.reports.numbers import compact
from seqloom.reports.style import DASHED, PALETTE, SHORTEST, nothing_to_show, scale_ticks, series, styled
from seqloom.text.statistics import CorpusStatistics

WIDE = 30.0  # an axis that spans more than this factor is logarithmic
FAINT = "#9aa3af"  # edges that are as they should be
SETTLING = 20  # times that the nodes of a graph are put in order
THIN: dict[str, Any] = {"linewidth": 0.6, "alpha": 0.5}
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
            for run in rung.runs:
                _thin_lines((by_tokens, by_time), run, series(index).color)
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


def _thin_lines(panels: tuple[Axes, Axes], run: Rung, color: str) -> None:
    """The curve of one seed."""
    points = [point for point in run.curve if math.isfinite(point.loss) and point.tokens > 0]
    by_tokens, by_time = panels
    losses = [point.loss for point in points]
    by_tokens.plot([point.tokens for point in points], losses, color=color, **THIN)
    by_time.plot([max(point.seconds, SHORTEST) for point in points], losses, color=color, **THIN)


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


@styled()
def cut_figure(graph: Graph, sides: NDArray[np.integer], cuts: NDArray[np.float64]) -> Figure:
    """A cut of a graph, each side an arc, and how the cuts of all chains, [sweeps, chains], grew while they cooled."""
    figure = Figure(figsize=(10.4, 4.6))
    drawn, grown = figure.subplots(1, 2)
    x, y = _two_arcs(graph, sides)
    crossing = graph.crossing(sides)
    for chosen, color, width in ((crossing, FAINT, 0.6), (~crossing, PALETTE[1], 1.1)):
        ends = graph.first[chosen], graph.second[chosen]
        lines = np.stack([np.stack([x[end], y[end]], 1) for end in ends], 1)
        drawn.add_collection(LineCollection(list(lines), colors=color, linewidths=width, zorder=1))
    for side, look in enumerate((series(0), series(2))):
        chosen = sides == side
        drawn.scatter(x[chosen], y[chosen], s=min(60.0, 3000 / len(x)), color=look.color, marker=look.marker, zorder=2)
    drawn.set_aspect("equal")
    drawn.set_axis_off()
    kept, total = graph.weights[~crossing].sum(), graph.total
    drawn.set_title(f"Cut {compact(float(total - kept))} of {compact(total)}; orange: not cut")
    sweeps = np.arange(1, len(cuts) + 1)
    best = np.maximum.accumulate(cuts.max(1))
    grown.fill_between(sweeps, cuts.min(1), cuts.max(1), color=PALETTE[0], alpha=0.2, linewidth=0, label="all chains")
    grown.plot(sweeps, cuts.mean(1), color=PALETTE[0], label="their mean")
    grown.plot(sweeps, best, color=PALETTE[2], label="the best so far")
    grown.set(xlabel="sweeps, from hot to cold", ylabel="weight of the cut")
    scale_ticks(grown)
    grown.legend(loc="lower right")
    return figure


def _two_arcs(graph: Graph, sides: NDArray[np.integer]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Where nodes stand: side 0 on the left arc of a circle and side 1 on the right one, each node near the mean height
    of its neighbours."""
    nodes = len(sides)
    height = np.zeros(nodes)
    degrees = np.maximum(np.bincount(np.concatenate([graph.first, graph.second]), minlength=nodes), 1)
    for _ in range(SETTLING):
        for side in (0, 1):
            (own,) = np.nonzero(sides == side)
            ranks = np.argsort(np.argsort(height[own], kind="stable"), kind="stable")
            height[own] = (ranks + 0.5) / max(1, len(own)) * 2 - 1
        drawn = np.bincount(graph.first, height[graph.second], nodes) + np.bincount(
            graph.second, height[graph.first], nodes
        )
        below, height = height, drawn / degrees
    angle = below * (np.pi / 2 * 0.92)
    return np.where(sides == 0, -np.cos(angle), np.cos(angle)) + np.where(sides == 0, -0.15, 0.15), np.sin(angle)
