"""Lines with labels in the margin, at the height of what they name, that keep clear of each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import BboxTransformTo, ScaledTranslation, blended_transform_factory
from numpy.typing import NDArray

from seqloom.reports.style import Series

LINE_HEIGHT = 15.0  # points from one label to the next


class EndLabel(NamedTuple):
    """The name of a line or of a point, to stand at the height where the line ends or the point is."""

    height: float
    text: str
    look: Series


def spread(positions: Sequence[float], gap: float, low: float, high: float) -> NDArray[np.float64]:
    """Move positions as little as possible (least squares) until neighbours are `gap` apart, within [low, high].

    With positions sorted, the differences y_i - i·gap must not fall: an isotonic regression, solved by pooling
    adjacent violators (Barlow et al. 1972). Where there is no room for the gap, it shrinks.
    """
    values = np.asarray(positions, dtype=np.float64)
    if not len(values):
        return values
    gap = min(gap, (high - low) / max(1, len(values) - 1))
    order = np.argsort(values, kind="stable")
    steps = gap * np.arange(len(values))
    pools: list[tuple[float, int]] = []  # (mean, size), rising
    for value in values[order] - steps:
        mean, size = float(value), 1
        while pools and pools[-1][0] >= mean:
            last, count = pools.pop()
            mean, size = (mean * size + last * count) / (size + count), size + count
        pools.append((mean, size))
    level = np.repeat([mean for mean, _ in pools], [size for _, size in pools])
    result = np.empty_like(values)
    result[order] = np.clip(level, low, high - steps[-1]) + steps
    return result


def draw_line(axes: Axes, x: Sequence[float], y: Sequence[float], look: Series, name: str) -> EndLabel:
    """Draw a line with eight markers at most, on its first and its last point too, and give the label for its end."""
    markers = np.unique(np.linspace(0, len(x) - 1, 8).round().astype(int)).tolist()
    axes.plot(x, y, color=look.color, linestyle=look.dashes, marker=look.marker, markevery=markers)
    return EndLabel(y[-1], name, look)


def label_ends(figure: Figure, axes: Axes, labels: Sequence[EndLabel]) -> None:
    """Name the lines in the right margin: a legend in the order, and near the height, of the lines' ends."""
    figure.draw_without_rendering()  # fixes where the axes lie
    to_axes = axes.transData - axes.transAxes
    x = axes.get_xlim()[1]
    ends = [float(to_axes.transform((x, label.height))[1]) for label in labels]
    heights = spread(ends, LINE_HEIGHT * figure.dpi / 72 / axes.bbox.height, 0.0, 1.0)
    # x in inches from the right edge of the axes, y as a fraction of their height
    inches = figure.dpi_scale_trans + ScaledTranslation(1, 0, BboxTransformTo(axes.bbox))
    beside = blended_transform_factory(inches, axes.transAxes)
    for label, height in zip(labels, heights.tolist(), strict=True):
        color, marker, dashes = label.look
        sample = Line2D([0.1, 0.28, 0.46], [height] * 3, color=color, marker=marker, linestyle=dashes, markevery=[1])
        sample.set(transform=beside, clip_on=False)
        axes.add_artist(sample)
        axes.text(0.54, height, label.text, transform=beside, va="center", fontsize=10.5)
