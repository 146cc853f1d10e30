"""What quality costs: models as points, and the front of those that pay."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seqloom.reports.labels import EndLabel, label_ends
from seqloom.reports.ladder import Ladder
from seqloom.reports.numbers import compact, significant
from seqloom.reports.pair_ladder import PairLadder
from seqloom.reports.style import INK, MUTED, NO_LINE, SHORTEST, nothing_to_show, scale_ticks, series, styled


class Scale(NamedTuple):
    """How quality is measured."""

    label: str
    better: Literal["lower", "higher"]
    logarithmic: bool


class Point(NamedTuple):
    """One model."""

    cost: float
    quality: float
    """Not finite where the model fails."""
    parameters: int


PERPLEXITY = Scale("validation perplexity", better="lower", logarithmic=True)
BLEU = Scale("BLEU", better="higher", logarithmic=False)


@styled()
def quality_against_cost(ladder: Ladder) -> Figure:
    """Perplexity against seconds of training; a marker's area grows with the parameters.

    The line is the Pareto front: for no rung on it is another both faster to train and better. A rung without a
    finite perplexity stands at the upper edge.
    """
    points = [Point(rung.training_seconds, rung.perplexity, rung.parameters) for rung in ladder.rungs]
    if not any(math.isfinite(point.quality) for point in points):
        return nothing_to_show("no rung has a finite perplexity")
    figure = Figure(figsize=(8.6, 5.0))
    axes = figure.subplots()
    heights = _draw(axes, points, PERPLEXITY)
    axes.set(xlabel="seconds of training", ylabel=PERPLEXITY.label)
    front = axes.get_lines()[0]
    axes.legend(
        [front], ["Pareto front: nothing is both faster to train and better"], loc="lower right", bbox_to_anchor=(1, 1)
    )
    details = [
        f"{compact(rung.parameters)} parameters" + ("" if math.isfinite(rung.perplexity) else ", perplexity not finite")
        for rung in ladder.rungs
    ]
    _name(figure, axes, [f"{rung.name}, {detail}" for rung, detail in zip(ladder.rungs, details, strict=True)], heights)
    return figure


@styled()
def bleu_against_cost(ladder: PairLadder) -> Figure:
    """The BLEU of beam search against seconds of training and against parameters; a marker's area grows with these.

    The lines are the Pareto fronts: for no rung on one is another both cheaper and better. A rung without a BLEU
    stands near the lower edge.
    """
    if not any(math.isfinite(rung.beam_bleu) for rung in ladder.rungs):
        return nothing_to_show("no rung has a BLEU")
    figure = Figure(figsize=(10.4, 4.6))
    by_time, by_size = figure.subplots(1, 2, sharey=True)
    _draw(by_time, [Point(rung.training_seconds, rung.beam_bleu, rung.parameters) for rung in ladder.rungs], BLEU)
    by_time.set(xlabel="seconds of training", ylabel=f"{BLEU.label}, beam {ladder.beam}", title="By time spent")
    heights = _draw(by_size, [Point(rung.parameters, rung.beam_bleu, rung.parameters) for rung in ladder.rungs], BLEU)
    by_size.set(xlabel="parameters", title="By size")
    scores = [significant(rung.beam_bleu) if math.isfinite(rung.beam_bleu) else "no BLEU" for rung in ladder.rungs]
    _name(figure, by_size, [f"{rung.name}, {score}" for rung, score in zip(ladder.rungs, scores, strict=True)], heights)
    return figure


def pareto_front(points: Sequence[Point], better: Literal["lower", "higher"]) -> list[Point]:
    """The points that no other beats both in cost and in quality, cheapest first."""
    sign = 1 if better == "lower" else -1
    front: list[Point] = []
    for point in sorted(points, key=lambda point: (point.cost, sign * point.quality)):
        if math.isfinite(point.quality) and (not front or sign * point.quality < sign * front[-1].quality):
            front.append(point)
    return front


def _draw(axes: Axes, points: Sequence[Point], scale: Scale) -> list[float]:
    """Points and front; gives the height at which each point stands. Those that failed are at the edge of the bad."""
    points = [point._replace(cost=max(point.cost, SHORTEST)) for point in points]
    finite = [point for point in points if math.isfinite(point.quality)]
    axes.set_xlim(*_room([point.cost for point in points], 0.08, logarithmic=True))
    axes.set_ylim(*_room([point.quality for point in finite], 0.12, scale.logarithmic))
    scale_ticks(axes, "x", logarithmic=True)
    scale_ticks(axes, "y", scale.logarithmic)
    bottom, top = axes.get_ylim()
    inside = bottom + 0.06 * (top - bottom)  # clear of the numbers below the axis
    edge, arrow = (top, r"$\uparrow$") if scale.better == "lower" else (inside, r"$\downarrow$")

    front = pareto_front(finite, scale.better)
    axes.plot(
        *zip(*_steps(front, axes.get_xlim()[1]), strict=True),
        color=MUTED,
        linestyle=(0, (4, 2)),
        linewidth=1.2,
    )
    heights = []
    most = max(point.parameters for point in points)
    for index, point in enumerate(points):
        look, known = series(index), point in finite
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
    return heights


def _name(figure: Figure, axes: Axes, texts: Sequence[str], heights: Sequence[float]) -> None:
    """A legend in the margin, each text near the height of its point."""
    looks = [series(index)._replace(dashes=NO_LINE) for index in range(len(texts))]
    label_ends(figure, axes, list(map(EndLabel, heights, texts, looks)))


def _room(values: Sequence[float], part: float, logarithmic: bool) -> tuple[float, float]:
    """Limits of an axis that leave a part of its length free before and after the values."""
    if logarithmic:
        low, high = _room([math.log(value) for value in values], part, logarithmic=False)
        return math.exp(low), math.exp(high)
    low, high = min(values), max(values)
    free = part * max(high - low, 0.5)
    return low - free, high + free


def _steps(front: Sequence[Point], right: float) -> list[tuple[float, float]]:
    """The corners of the stairs through the front, from the cheapest to the right edge."""
    corners = []
    for point, end in zip(front, [*(point.cost for point in front[1:]), right], strict=True):
        corners += [(point.cost, point.quality), (end, point.quality)]
    return corners


def _radius(parameters: int, most: int) -> float:
    """A marker's radius in points: its area grows with the parameters."""
    return 4.0 + 7.0 * math.sqrt(parameters / most) if most else 4.0
