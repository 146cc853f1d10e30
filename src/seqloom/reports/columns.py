"""A column of numbers, for a table on a page or in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from seqloom.reports.numbers import aligned, shared_decimals, spread

Better = Literal["lower", "higher"]


@dataclass(frozen=True)
class Column:
    """Numbers of one kind, one for each row."""

    title: str
    unit: str
    values: Sequence[float]
    better: Better | None = None
    """Which of them are good, if any are."""
    short: str = ""
    """A heading of few characters, for the terminal."""
    decimals: int = 2
    """At most so many."""
    digits: int = 3
    """As many as count, of the smallest number."""
    marks: Sequence[str] = ()
    """What stands before each number, if anything does."""
    deviations: Sequence[float | None] = ()
    """How far each number is from those of other seeds, where that is known."""

    def texts(self) -> list[str]:
        """The numbers as they are shown, their points in line."""
        texts = aligned(self.values, self.digits, self.decimals)
        return [mark + text for mark, text in zip(self.marks, texts, strict=True)] if self.marks else texts

    def spreads(self) -> list[str]:
        """The deviations as they are shown, as exact as the numbers, or as one digit needs: ±0.4. Nothing is said in a
        column where none deviates."""
        if not any(self.deviations):
            return [""] * len(self.values)
        decimals = shared_decimals(self.values, self.digits, self.decimals)
        return ["" if each is None else f"±{spread(each, decimals)}" for each in self.deviations]

    def best(self) -> list[bool]:
        """Which numbers are the best of the column; none where there is nothing to choose from."""
        finite = [value for value in self.values if math.isfinite(value)]
        if self.better is None or len(self.values) < 2 or not finite:
            return [False] * len(self.values)
        winner = min(finite) if self.better == "lower" else max(finite)
        return [value == winner for value in self.values]
