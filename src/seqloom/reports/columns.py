"""A column of numbers, for a table on a page or in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from seqloom.reports.numbers import aligned


@dataclass(frozen=True)
class Column:
    """Numbers of one kind, one for each row."""

    title: str
    unit: str
    values: Sequence[float]
    better: Literal["lower", "higher"] | None
    """Which of them are good, if any are."""
    short: str
    """A heading of few characters, for the terminal."""
    decimals: int = 2
    """At most so many."""

    def texts(self) -> list[str]:
        """The numbers as they are shown, their points in line."""
        return aligned(self.values, most_decimals=self.decimals)

    def best(self) -> list[bool]:
        """Which numbers are the best of the column; none where there is nothing to choose from."""
        finite = [value for value in self.values if math.isfinite(value)]
        if self.better is None or len(self.values) < 2 or not finite:
            return [False] * len(self.values)
        winner = min(finite) if self.better == "lower" else max(finite)
        return [value == winner for value in self.values]
