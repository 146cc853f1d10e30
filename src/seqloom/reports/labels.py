"""Labels that stand beside what they name and keep clear of each other."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.transforms import Bbox, BboxTransformTo, ScaledTranslation, blended_transform_factory
from numpy.typing import NDArray

from seqloom.reports.style import Series

LINE_HEIGHT = 15.0  # points from one label to the next


class EndLabel(NamedTuple):
    """The name of a line, to stand at the height where the line ends."""

    height: float
    text: str
    look: Series


class PointLabel(NamedTuple):
    """The name of a point, to stand beside it."""

    x: float
    y: float
    text: str
    radius: float
    """Of the marker, in points."""


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


def label_points(figure: Figure, axes: Axes, labels: Sequence[PointLabel], line: Sequence[tuple[float, float]]) -> None:
    """Name points, each on the side where the name covers least of the other names, of the points and of a line."""
    canvas = FigureCanvasAgg(figure)
    figure.draw_without_rendering()
    renderer = canvas.get_renderer()
    scale = figure.dpi / 72
    centers = axes.transData.transform([(label.x, label.y) for label in labels])
    taken = [
        Bbox.from_extents(*(center - label.radius * scale), *(center + label.radius * scale))
        for center, label in zip(centers, labels, strict=True)
    ]
    corners = axes.transData.transform(line)
    for start, end in pairwise(corners):
        taken.append(Bbox([np.minimum(start, end) - scale, np.maximum(start, end) + scale]))
    for label in labels:
        near = label.radius * 0.7 + 3
        far = label.radius + 5
        sides = [
            (far, 0, "left", "center"),
            (near, near, "left", "bottom"),
            (near, -near, "left", "top"),
            (-far, 0, "right", "center"),
            (0, far, "center", "bottom"),
            (0, -far, "center", "top"),
            (-near, near, "right", "bottom"),
            (-near, -near, "right", "top"),
        ]
        tried = []
        for x, y, horizontal, vertical in sides:
            note = axes.annotate(
                label.text,
                (label.x, label.y),
                (x, y),
                textcoords="offset points",
                ha=horizontal,
                va=vertical,
                fontsize=10.5,
                linespacing=1.3,
            )
            note.set_in_layout(False)
            box = note.get_window_extent(renderer)
            outside = box.width * box.height - _shared(box, axes.bbox)
            tried.append((outside + sum(_shared(box, other) for other in taken), note, box))
        best = min(range(len(tried)), key=lambda index: tried[index][0])
        for index, (_, note, _) in enumerate(tried):
            if index != best:
                note.remove()
        taken.append(tried[best][2])


def _shared(one: Bbox, other: Bbox) -> float:
    """The area two boxes share, in pixels."""
    width = min(one.x1, other.x1) - max(one.x0, other.x0)
    height = min(one.y1, other.y1) - max(one.y0, other.y0)
    return max(0.0, width) * max(0.0, height)
