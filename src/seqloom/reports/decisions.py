"""A grid world as a picture: what each field is worth, and where to go from it."""

from __future__ import annotations

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from seqloom.models.decisions.grid import BAD, GOOD, MOVES, START, GridWorld
from seqloom.models.decisions.process import Solution
from seqloom.reports.style import INK, MUTED, styled


@styled()
def grid_figure(world: GridWorld, solution: Solution, title: str) -> Figure:
    """The values of fields as colours and numbers, the best move as an arrow."""
    height, width = len(world.rows), len(world.rows[0])
    values = np.full((height, width), np.nan)
    for state, (row, column) in enumerate(world.fields):
        values[row, column] = solution.values[state]
    size = max(0.45, min(1.1, 12 / width))
    figure = Figure(figsize=(max(4.0, size * width + 0.4), size * height + 0.8))
    axes = figure.subplots()
    colours = matplotlib.colormaps["RdYlGn"].with_extremes(bad="#4b5563")
    widest = float(np.nanmax(np.abs(values))) or 1.0
    axes.imshow(values, cmap=colours, vmin=-widest, vmax=widest, alpha=0.75)
    for state, (row, column) in enumerate(world.fields):
        field = world.rows[row][column]
        ended = field in (GOOD, BAD)
        axes.text(
            column,
            row + (0 if ended else 0.3),
            f"{values[row, column]:.2f}",
            ha="center",
            va="center",
            color=INK,
            fontsize=9.5 * min(1.0, size + 0.2),
        )
        if not ended:
            down, right = MOVES[int(solution.policy[state].argmax())]
            axes.annotate(
                "",
                xy=(column + 0.22 * right, row - 0.1 + 0.22 * down),
                xytext=(column - 0.22 * right, row - 0.1 - 0.22 * down),
                arrowprops={"arrowstyle": "-|>", "color": INK, "linewidth": 1.3},
            )
        if field == START:
            axes.text(column - 0.42, row - 0.36, "start", ha="left", va="center", color=MUTED, fontsize=8.5)
    axes.set(title=title, xticks=[], yticks=[])
    axes.grid(visible=False)
    for side in axes.spines.values():
        side.set_visible(False)
    return figure
