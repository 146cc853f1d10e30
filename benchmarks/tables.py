"""Tables that read well on a terminal and are Markdown at the same time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Table:
    """A title, a line on how to read the table, and rows of text."""

    title: str
    note: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    words: int = 2
    """So many columns at the left hold words; the others hold numbers."""

    def __str__(self) -> str:
        lines = [self.header, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        rule = ["-" * width if column < self.words else "-" * (width - 1) + ":" for column, width in enumerate(widths)]
        drawn = [self._draw(line, widths) for line in (self.header, rule, *self.rows)]
        return "\n".join([f"## {self.title}", "", self.note, "", *drawn, ""])

    def _draw(self, cells: Sequence[str], widths: Sequence[int]) -> str:
        padded = [
            cell.ljust(width) if column < self.words else cell.rjust(width)
            for column, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return "| " + " | ".join(padded) + " |"


def number(value: float) -> str:
    """Three or four digits that matter: 1,234,000, 56.7 or 0.0123."""
    if value >= 1000:
        digits = len(str(int(value)))
        return f"{round(value, 4 - digits):,.0f}"
    return f"{value:.3g}"
