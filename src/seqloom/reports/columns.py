"""A column of numbers, for a table on a page or in the terminal."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from seqloom.reports.numbers import aligned

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

    def texts(self) -> list[str]:
        """The numbers as they are shown, their points in line."""
        texts = aligned(self.values, self.digits, self.decimals)
        return [mark + text for mark, text in zip(self.marks, texts, strict=True)] if self.marks else texts

    def best(self) -> list[bool]:
        """Which numbers are the best of the column; none where there is nothing to choose from."""
        finite = [value for value in self.values if math.isfinite(value)]
        if self.better is None or len(self.values) < 2 or not finite:
            return [False] * len(self.values)
        winner = min(finite) if self.better == "lower" else max(finite)
        return [value == winner for value in self.values]
