"""What was logged while a model was trained, as curves for its report."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from seqloom.reports import html
from seqloom.reports.labels import draw_line, label_ends
from seqloom.reports.numbers import significant
from seqloom.reports.style import Series, nothing_to_show, scale_ticks, series, styled, svg

Entries = Sequence[Mapping[str, Any]]
"""A run's `metrics.jsonl`."""
SMALL = 5  # the look of the first line of a small panel: another than those of the large one


class Line(NamedTuple):
    """One number that was logged, step by step."""

    name: str
    look: Series
    steps: list[int]
    values: list[float]


@dataclass(frozen=True)
class TrainingCurves:
    """Which numbers a report shows: some as lines of a large panel, the others in small panels below it.

    A line is given by the key under which its numbers were logged, and by its name, which is empty where the title of
    its panel says what it is. Lines of which nothing was logged are left out.
    """

    title: str
    lines: Mapping[str, str]
    panels: Mapping[str, Mapping[str, str]]
    """The lines of each small panel, by its title."""
    caption: str
    probabilities: Sequence[str] = ()
    """The titles of small panels that show the whole range from 0 to 1."""

    def section(self, entries: Entries, heading: str = "Training") -> html.Markup:
        """The curves as a part of a page."""
        title = _named(self.title, entries)
        picture = svg(self.figure(entries), f"{title}, and what else was logged, over the training steps")
        return html.section(heading, html.figure(picture, self.caption))

    @styled()
    def figure(self, entries: Entries) -> Figure:
        """The large panel, with the last value of each line beside it, and three small ones in a row."""
        large = _logged(entries, self.lines, 0)
        small = {_named(title, entries): _logged(entries, lines, SMALL) for title, lines in self.panels.items()}
        small = {title: lines for title, lines in small.items() if lines}
        if not large and not small:
            return nothing_to_show("nothing was logged yet")
        rows = math.ceil(len(small) / 3)
        columns = math.ceil(len(small) / max(1, rows))
        figure = Figure(figsize=(9.4, 4.0 + 1.8 * rows))
        grid = figure.add_gridspec(1 + rows, max(1, columns), height_ratios=[1.9] + [1] * rows)
        axes = figure.add_subplot(grid[0, :])
        labels = []
        for name, look, steps, values in large:
            text = f"{name} {significant(values[-1])}"
            labels.append(draw_line(axes, steps, values, look._replace(dashes="-"), text))
        axes.set(title=_named(self.title, entries), xlabel="step")
        axes.margins(x=0.03)
        scale_ticks(axes)
        for place, (title, lines) in enumerate(small.items()):
            self._small_panel(figure.add_subplot(grid[1 + place // columns, place % columns]), title, lines)
        label_ends(figure, axes, labels)
        return figure

    def _small_panel(self, axes: Axes, title: str, lines: Sequence[Line]) -> None:
        for name, look, steps, values in lines:
            marker = "o" if len(steps) == 1 else None
            axes.plot(steps, values, color=look.color, linewidth=1.4, marker=marker, label=name)
        axes.set_title(title, fontsize=10.5)
        if title in self.probabilities:
            axes.set_ylim(-0.03, 1.03)
        if any(line.name for line in lines):
            axes.legend(fontsize=9)
        axes.tick_params(labelsize=9.5)
        axes.margins(x=0.03)
        scale_ticks(axes)
        axes.xaxis.get_major_locator().set_params(nbins=4)  # type: ignore[call-arg]
        axes.yaxis.get_major_locator().set_params(nbins=4)  # type: ignore[call-arg]


CURVES = {
    name: TrainingCurves(**shown)
    for name, shown in yaml.safe_load(Path(__file__).with_name("curves.yaml").read_text("utf-8")).items()
}


def _named(title: str, entries: Entries) -> str:
    """A title with what was learned from in it."""
    units = next((entry["unit"] for entry in entries if "unit" in entry), "tokens")
    return title.format(Units=units.capitalize(), unit=units.removesuffix("s"))


def _logged(entries: Entries, lines: Mapping[str, str], first: int) -> list[Line]:
    """The lines of a panel, through the values that are finite numbers; the first has the look of number `first`."""
    logged = []
    for index, (key, name) in enumerate(lines.items(), start=first):
        points = [(entry["step"], entry[key]) for entry in entries if isinstance(entry.get(key), int | float)]
        points = [point for point in points if math.isfinite(point[1])]
        if points:
            steps, values = map(list, zip(*points, strict=True))
            logged.append(Line(name, series(index), steps, values))
    return logged
