"""What quality costs: models as points, and the front of those that pay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seqloom.reports.columns import Better
from seqloom.reports.labels import EndLabel, label_ends
from seqloom.reports.ladder import PARAMETERS, SECONDS, Ladder, Rung
from seqloom.reports.style import DASHED, INK, MUTED, NO_LINE, SHORTEST, nothing_to_show, scale_ticks, series, styled

BARS: dict[str, Any] = {"ecolor": INK, "elinewidth": 1.0, "capsize": 3.0, "zorder": 3}  # seen on the largest markers
TICKS = 6  # along each of two axes side by side
# The corners of an arrow that points up: further on, beyond the edge.
ARROW = np.array([(-0.5, 0.2), (0, 1), (0.5, 0.2), (0.1, 0.2), (0.1, -1), (-0.1, -1), (-0.1, 0.2), (-0.5, 0.2)])


class Point(NamedTuple):
    """One model."""

    cost: float
    """Not finite where nobody knows: a run that was imported."""
    quality: float
    """Not finite where the model fails."""
    parameters: float


@styled()
def quality_against_cost(ladder: Ladder) -> Figure:
    """The yardstick against seconds of training and against parameters; a marker's area grows with these.

    The lines are the Pareto fronts: for no rung on one is another both cheaper and better. A rung without a finite
    value stands at the edge of the bad.
    """
    yardstick = ladder.yardstick
    if not any(math.isfinite(ladder.value(rung)) for rung in ladder.rungs):
        return nothing_to_show(f"no rung has a finite {yardstick.name}")
    figure = Figure(figsize=(10.4, 4.6))
    by_time, by_size = figure.subplots(1, 2, sharey=True)
    _draw(by_time, ladder, SECONDS)
    by_time.set(xlabel="seconds of training", ylabel=yardstick.axis, title="By time spent")
    heights = _draw(by_size, ladder, PARAMETERS)
    by_size.set(xlabel="parameters", title="By size")
    looks = [series(index)._replace(dashes=NO_LINE) for index in range(len(ladder.rungs))]
    names = [_name(ladder, rung) for rung in ladder.rungs]
    label_ends(figure, by_size, list(map(EndLabel, heights, names, looks)))
    return figure


def _name(ladder: Ladder, rung: Rung) -> str:
    if math.isfinite(ladder.value(rung)):
        return f"{rung.name}, {ladder.shown(rung)}"
    return f"{rung.name}, {ladder.yardstick.name} not finite"


def pareto_front(points: Sequence[Point], better: Better | None) -> list[Point]:
    """The points that no other beats both in cost and in quality, cheapest first."""
    sign = 1 if better == "lower" else -1
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.cost, sign * point.quality)):
        if math.isfinite(point.quality) and (not front or sign * point.quality < sign * front[-1].quality):
            front.append(point)
    return front


def _draw(axes: Axes, ladder: Ladder, cost: str) -> list[float]:
    """Points and front; gives the height at which each point stands. Those that failed are at the edge of the bad."""
    yardstick, better = ladder.yardstick, ladder.yardstick.measure.better
    points = [
        Point(max(rung.values[cost], SHORTEST), ladder.value(rung), rung.values[PARAMETERS]) for rung in ladder.rungs
    ]
    apart = [(rung.deviation(cost) or 0.0, rung.deviation(yardstick.measure.key) or 0.0) for rung in ladder.rungs]
    finite = [point for point in points if math.isfinite(point.quality)]
    across = [end for point, (wide, _) in zip(points, apart, strict=True) for end in _bar(point.cost, wide, True)]
    upright = [
        end
        for point, (_, high) in zip(points, apart, strict=True)
        for end in _bar(point.quality, high, yardstick.logarithmic)
    ]
    axes.set_xlim(*_room([end for end in across if math.isfinite(end)] or [1.0], 0.08, logarithmic=True))
    axes.set_ylim(*_room([end for end in upright if math.isfinite(end)], 0.12, yardstick.logarithmic))
    scale_ticks(axes, log_x=True, log_y=yardstick.logarithmic, most_x=TICKS)
    bottom, top = axes.get_ylim()
    inside = bottom + 0.06 * (top - bottom)  # clear of the numbers below the axis
    edge, arrow = (top, ARROW) if better == "lower" else (inside, -ARROW)

    front = pareto_front([point for point in finite if math.isfinite(point.cost)], better)
    stairs = [*front, front[-1]._replace(cost=axes.get_xlim()[1])] if front else []
    costs, qualities = [point.cost for point in stairs], [point.quality for point in stairs]
    axes.step(costs, qualities, where="post", color=MUTED, **DASHED)
    heights = []
    most = max(point.parameters for point in points)
    for index, point in enumerate(points):
        look, known = series(index), math.isfinite(point.quality)
        heights.append(point.quality if known else edge)
        axes.plot(
            point.cost,
            heights[-1],
            color=look.color,
            marker=look.marker if known else arrow,
            markersize=2 * _radius(point.parameters, most),
            markeredgecolor=INK if point in front else look.color,
            markeredgewidth=1.0,
            linestyle="none",
            clip_on=False,
        )
        wide, high = apart[index]
        if known and high:
            axes.errorbar(point.cost, point.quality, high, wide or None, fmt="none", **BARS)
    return heights


def _bar(value: float, deviation: float, logarithmic: bool) -> tuple[float, float]:
    """From one deviation below to one above; on a logarithmic axis, not down to where it has no place."""
    low = value - deviation
    return max(low, value / 10) if logarithmic else low, value + deviation


def _room(values: Sequence[float], part: float, logarithmic: bool) -> tuple[float, float]:
    """Limits of an axis that leave a part of its length free before and after the values."""
    if logarithmic:
        low, high = _room([math.log(value) for value in values], part, logarithmic=False)
        return math.exp(low), math.exp(high)
    low, high = min(values), max(values)
    free = part * max(high - low, 0.5)
    return low - free, high + free


def _radius(parameters: float, most: float) -> float:
    """A marker's radius in points: its area grows with the parameters."""
    return 4.0 + 7.0 * math.sqrt(parameters / most) if most else 4.0
