"""What was logged while a model was trained, as lines of panels: for reports, which draw them, and for who watches."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import yaml

Entries = Sequence[Mapping[str, Any]]
"""A run's `metrics.jsonl`."""


class Line(NamedTuple):
    """One number that was logged, step by step."""

    name: str
    number: int
    """Its place among the lines of its panel, those included of which nothing was logged."""
    steps: list[int]
    values: list[float]


class Panel(NamedTuple):
    """The lines that are shown together."""

    title: str
    lines: list[Line]


@dataclass(frozen=True)
class Logged:
    """Which numbers are shown: some as lines of a large panel, the others in small panels.

    A line is given by the key under which its numbers were logged, with a - before it where the negative is shown, and
    by its name, which is empty where the title of its panel says what it is. Lines of which nothing was logged are left
    out.
    """

    title: str
    lines: Mapping[str, str]
    small: Mapping[str, Mapping[str, str]]
    """The lines of each small panel, by its title."""
    caption: str
    probabilities: Sequence[str] = ()
    """The titles of small panels that show the whole range from 0 to 1."""
    told_by: str = ""
    """What is logged by such trainings, and no others."""

    def large_panel(self, entries: Entries) -> Panel:
        """The large panel."""
        return Panel(_named(self.title, entries), _lines(entries, self.lines))

    def small_panels(self, entries: Entries) -> list[Panel]:
        """The small panels that have a line."""
        panels = [Panel(_named(title, entries), _lines(entries, lines)) for title, lines in self.small.items()]
        return [panel for panel in panels if panel.lines]

    def panels(self, entries: Entries) -> list[Panel]:
        """All that have a line, the large one first."""
        large = self.large_panel(entries)
        return [*([large] if large.lines else []), *self.small_panels(entries)]


LOGGED = {
    name: Logged(**shown)
    for name, shown in yaml.safe_load(Path(__file__).with_name("curves.yaml").read_text("utf-8")).items()
}


def name_of(entries: Entries) -> str:
    """Which of `LOGGED` shows a training: that of the numbers which only such a training logs, or the usual one."""
    keys = {key for entry in entries for key in entry}
    return next((name for name, logged in LOGGED.items() if logged.told_by in keys), "usual")


def _named(title: str, entries: Entries) -> str:
    """A title with what was learned from in it."""
    units = next((entry["unit"] for entry in entries if "unit" in entry), "tokens")
    return title.format(Units=units.capitalize(), unit=units.removesuffix("s"))


def _lines(entries: Entries, lines: Mapping[str, str]) -> list[Line]:
    """The lines of a panel, through the values that are finite numbers."""
    found = []
    for number, (signed, name) in enumerate(lines.items()):
        key, sign = signed.removeprefix("-"), -1 if signed.startswith("-") else 1
        points = [(entry["step"], sign * entry[key]) for entry in entries if isinstance(entry.get(key), int | float)]
        points = [point for point in points if math.isfinite(point[1])]
        if points:
            steps, values = map(list, zip(*points, strict=True))
            found.append(Line(name, number, steps, values))
    return found
