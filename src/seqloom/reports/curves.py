"""What was logged while a model was trained, as curves for its report."""

from __future__ import annotations

import math

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seqloom.reports import html
from seqloom.reports.labels import draw_line, label_ends
from seqloom.reports.logged import LOGGED, Entries, Logged, Panel
from seqloom.reports.numbers import significant
from seqloom.reports.style import nothing_to_show, scale_ticks, series, styled, svg

SMALL = 5  # the look of the first line of a small panel: another than those of the large one


class TrainingCurves:
    """What was logged, as a picture: a large panel, and small ones below it."""

    def __init__(self, logged: Logged) -> None:
        self.logged = logged

    def section(self, entries: Entries, heading: str = "Training") -> html.Markup:
        """The curves as a part of a page."""
        title = self.logged.large_panel(entries).title
        picture = svg(self.figure(entries), f"{title}, and what else was logged, over the training steps")
        return html.section(heading, html.figure(picture, self.logged.caption))

    @styled()
    def figure(self, entries: Entries) -> Figure:
        """The large panel, with the last value of each line beside it, and three small ones in a row."""
        large, small = self.logged.large_panel(entries), self.logged.small_panels(entries)
        if not large.lines and not small:
            return nothing_to_show("nothing was logged yet")
        rows = math.ceil(len(small) / 3)
        columns = math.ceil(len(small) / max(1, rows))
        figure = Figure(figsize=(9.4, 4.0 + 1.8 * rows))
        grid = figure.add_gridspec(1 + rows, max(1, columns), height_ratios=[1.9] + [1] * rows)
        axes = figure.add_subplot(grid[0, :])
        labels = []
        for name, number, steps, values in large.lines:
            text = f"{name} {significant(values[-1])}"
            labels.append(draw_line(axes, steps, values, series(number)._replace(dashes="-"), text))
        axes.set(title=large.title, xlabel="step")
        axes.margins(x=0.03)
        scale_ticks(axes)
        for place, panel in enumerate(small):
            self._small_panel(figure.add_subplot(grid[1 + place // columns, place % columns]), panel)
        label_ends(figure, axes, labels)
        return figure

    def _small_panel(self, axes: Axes, panel: Panel) -> None:
        for name, number, steps, values in panel.lines:
            marker = "o" if len(steps) == 1 else None
            color = series(SMALL + number).color
            axes.plot(steps, values, color=color, linewidth=1.4, marker=marker, label=name)
        axes.set_title(panel.title, fontsize=10.5)
        if panel.title in self.logged.probabilities:
            axes.set_ylim(-0.03, 1.03)
        if any(line.name for line in panel.lines):
            axes.legend(fontsize=9)
        axes.tick_params(labelsize=9.5)
        axes.margins(x=0.03)
        scale_ticks(axes)
        axes.xaxis.get_major_locator().set_params(nbins=4)  # type: ignore[call-arg]
        axes.yaxis.get_major_locator().set_params(nbins=4)  # type: ignore[call-arg]


CURVES = {name: TrainingCurves(logged) for name, logged in LOGGED.items()}
