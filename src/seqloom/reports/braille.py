"""Curves in a terminal: each character of Unicode's braille block is two dots wide and four high."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

EMPTY = 0x2800
DOTS = ((0x01, 0x08), (0x02, 0x10), (0x04, 0x20), (0x40, 0x80))
"""The bit of each dot of a character: [row][column]."""

Points = Sequence[tuple[float, float]]


class Cell(NamedTuple):
    """One character of a picture."""

    character: str
    line: int | None
    """Which line passes here, the last of several; None where there is none."""


def drawn(lines: Sequence[Points], columns: int, rows: int) -> list[list[Cell]]:
    """Lines through points (x, y), in rows of so many characters, the highest first.

    All share one scale, from the smallest to the largest x and y of them; what is all the same lies in the middle.
    """
    points = [point for line in lines for point in line]
    bits = [[0] * columns for _ in range(rows)]
    owners: list[list[int | None]] = [[None] * columns for _ in range(rows)]
    across, up = _Scale([x for x, _ in points], 2 * columns), _Scale([y for _, y in points], 4 * rows)
    for number, line in enumerate(lines):
        places = [(across.place(x), up.place(y)) for x, y in line]
        for begin, end in zip(places, places[1:] or places, strict=False):
            for column, height in _between(begin, end):
                row, inside = divmod(4 * rows - 1 - height, 4)
                bits[row][column // 2] |= DOTS[inside][column % 2]
                owners[row][column // 2] = number
    return [
        [Cell(chr(EMPTY + dots), owner) for dots, owner in zip(*row, strict=True)]
        for row in zip(bits, owners, strict=True)
    ]


class _Scale:
    """From numbers to dots, the first for the smallest and the last for the largest of some numbers."""

    def __init__(self, numbers: Sequence[float], dots: int) -> None:
        self.low, high = min(numbers, default=0.0), max(numbers, default=0.0)
        self.range, self.dots = high - self.low, dots

    def place(self, number: float) -> int:
        share = (number - self.low) / self.range if self.range else 0.5
        return round(share * (self.dots - 1))


def _between(begin: tuple[int, int], end: tuple[int, int]) -> Iterator[tuple[int, int]]:
    """The dots of a straight line, both ends included."""
    (left, bottom), (right, top) = begin, end
    count = max(abs(right - left), abs(top - bottom), 1)
    for step in range(count + 1):
        share = step / count
        yield round(left + share * (right - left)), round(bottom + share * (top - bottom))
