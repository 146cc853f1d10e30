"""The plots: what a comparison, a corpus or a training looked like. Each function gives a matplotlib figure."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqloom.errors import DataError
from seqloom.reports.labels import EndLabel, label_ends
from seqloom.reports.ladder import Ladder, RungResult
from seqloom.reports.numbers import significant
from seqloom.reports.pair_ladder import PairLadder, PairRung
from seqloom.reports.style import PALETTE, SHORTEST, nothing_to_show, scale_ticks, series, styled
from seqloom.text.statistics import CorpusStatistics

WIDE = 30.0  # an axis that spans more than this factor is logarithmic
MOST_POINTS = 400  # of one line; more cannot be seen
TEACHER = "Teacher forcing probability"
PANELS = {  # what a training curve shows of `metrics.jsonl` beside the losses, where it was logged
    "Learning rate": "learning_rate",
    "Gradient norm": "gradient_norm",
    "Tokens per second": "tokens_per_second",
    TEACHER: "teacher",
    "Validation BLEU": "valid_bleu",
}


@styled()
def learning_curves(ladder: Ladder | PairLadder) -> Figure:
    """Validation loss against the tokens seen and against the seconds spent, one line per rung."""
    figure = Figure(figsize=(10.4, 4.4))
    by_tokens, by_time = figure.subplots(1, 2, sharey=True)
    labels = []
    rungs: Sequence[RungResult | PairRung] = ladder.rungs
    for index, rung in enumerate(rungs):
        points = [point for point in rung.curve if math.isfinite(point.loss) and point.tokens > 0]
        look = series(index)
        if points:
            losses = [point.loss for point in points]
            for axes, values in (
                (by_tokens, [point.tokens for point in points]),
                (by_time, [max(point.seconds, SHORTEST) for point in points]),
            ):
                axes.plot(
                    values,
                    losses,
                    color=look.color,
                    linestyle=look.dashes,
                    marker=look.marker,
                    markevery=_few_markers(len(points)),
                )
            labels.append(EndLabel(losses[-1], rung.name, look))
    by_tokens.set(xlabel="tokens seen", ylabel="validation loss, nats per token", title="By text read")
    by_time.set(xlabel="seconds of training", title="By time spent")
    if not labels:
        return nothing_to_show("no rung has a finite validation loss")
    for axes in (by_tokens, by_time):
        axes.margins(x=0.04, y=0.06)
        _scale_x(axes)
    scale_ticks(by_tokens, "y", logarithmic=False)
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
        shown = np.unique(np.geomspace(1, len(frequencies), MOST_POINTS).round().astype(np.int64))
        try:
            fit = statistics.zipf(order)
        except DataError:  # a single distinct n-gram has no slope
            label = name
        else:
            label = f"{name}: α = {fit.exponent:.2f} (R² = {fit.r_squared:.2f})"
            ends = np.array([fit.ranks[0], fit.ranks[-1]], dtype=np.float64)
            axes.plot(ends, fit.frequency(ends), color=look.color, linestyle=(0, (4, 2)), linewidth=1.2)
        axes.plot(
            shown,
            frequencies[shown - 1],
            color=look.color,
            marker=look.marker,
            markersize=2.5,
            linewidth=1.2,
            label=label,
        )
    axes.set(xlabel="rank", ylabel="frequency")
    scale_ticks(axes, "x", logarithmic=True)
    scale_ticks(axes, "y", logarithmic=True)
    axes.legend(loc="upper right", title="dashed: frequency ∝ rank⁻ᵅ", alignment="left")
    return figure


@styled()
def gradient_flow(distances: Sequence[int], norms_by_name: Mapping[str, Sequence[float]]) -> Figure:
    """‖∂loss_T/∂h_t‖ against the distance T - t: how the gradient vanishes or explodes on its way back."""
    figure = Figure(figsize=(8.6, 4.4))
    axes = figure.subplots()
    labels = []
    for index, (name, norms) in enumerate(norms_by_name.items()):
        look = series(index)
        shown = [(x, y) for x, y in zip(distances, norms, strict=True) if math.isfinite(y) and y > 0]
        if shown:
            x, y = zip(*shown, strict=True)
            axes.plot(
                x, y, color=look.color, linestyle=look.dashes, marker=look.marker, markevery=_few_markers(len(shown))
            )
            labels.append(EndLabel(y[-1], name, look))
    if not labels:
        return nothing_to_show("no gradient is finite and above 0")
    axes.set(xlabel="distance T − t, time steps", ylabel="‖∂ loss at T / ∂ hidden state at t‖")
    axes.margins(x=0.03)
    scale_ticks(axes, "x", logarithmic=False)
    scale_ticks(axes, "y", logarithmic=True)
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
def training_curve(entries: Sequence[Mapping[str, Any]]) -> Figure:
    """A run's `metrics.jsonl`: the losses, and below them a panel for each other number that was logged."""
    losses = {name: _logged(entries, key) for name, key in (("training", "loss"), ("validation", "valid_loss"))}
    losses = {name: points for name, points in losses.items() if points}
    small = {title: _logged(entries, key) for title, key in PANELS.items()}
    small = {title: points for title, points in small.items() if points}
    if not losses and not small:
        return nothing_to_show("nothing was logged yet")
    rows = math.ceil(len(small) / 3)
    columns = math.ceil(len(small) / max(1, rows))
    figure = Figure(figsize=(9.4, 4.0 + 1.8 * rows))
    grid = figure.add_gridspec(1 + rows, max(1, columns), height_ratios=[1.9] + [1] * rows)
    axes = figure.add_subplot(grid[0, :])
    labels = []
    for index, (name, points) in enumerate(losses.items()):
        look = series(0 if name == "training" else 1)
        x, y = zip(*points, strict=True)
        axes.plot(
            x, y, color=look.color, linestyle="-", marker=look.marker, markevery=_few_markers(len(x)), zorder=2 + index
        )
        labels.append(EndLabel(y[-1], f"{name} {significant(y[-1])}", look._replace(dashes="-")))
    axes.set(title="Loss, nats per token", xlabel="step")
    axes.margins(x=0.03)
    scale_ticks(axes, "x", logarithmic=False)
    scale_ticks(axes, "y", logarithmic=False)
    for place, (title, points) in enumerate(small.items()):
        panel = figure.add_subplot(grid[1 + place // columns, place % columns])
        x, y = zip(*points, strict=True)
        panel.plot(x, y, color=PALETTE[5], linewidth=1.4, marker="o" if len(x) == 1 else None)
        panel.set_title(title, fontsize=10.5)
        if title == TEACHER:
            panel.set_ylim(-0.03, 1.03)
        panel.tick_params(labelsize=9.5)
        panel.margins(x=0.03)
        scale_ticks(panel, "x", logarithmic=False)
        scale_ticks(panel, "y", logarithmic=False)
        panel.xaxis.get_major_locator().set_params(nbins=4)  # type: ignore[call-arg]
        panel.yaxis.get_major_locator().set_params(nbins=4)  # type: ignore[call-arg]
    label_ends(figure, axes, labels)
    return figure


def _logged(entries: Sequence[Mapping[str, Any]], key: str) -> list[tuple[float, float]]:
    """(step, value) where the value was logged and is a finite number."""
    points = [(entry["step"], entry[key]) for entry in entries if isinstance(entry.get(key), int | float)]
    return [point for point in points if math.isfinite(point[1])]


def _scale_x(axes: Axes) -> None:
    """Logarithmic where the lines span a wide range."""
    values = np.concatenate([np.asarray(line.get_xdata(), dtype=np.float64) for line in axes.get_lines()])
    scale_ticks(axes, "x", logarithmic=bool(values.max() / values.min() > WIDE))


def _few_markers(points: int) -> list[int]:
    """At most eight markers to a line, the first and the last point among them."""
    return np.unique(np.linspace(0, points - 1, 8).round().astype(int)).tolist()
