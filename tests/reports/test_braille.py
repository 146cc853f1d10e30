"""Curves in a terminal: which dots a line passes."""

from __future__ import annotations

import pytest

from seqloom.reports.braille import Points, drawn


def text(lines: list[Points], columns: int, rows: int) -> list[str]:
    return ["".join(cell.character for cell in row) for row in drawn(lines, columns, rows)]


def test_nothing_is_drawn_of_nothing() -> None:
    assert text([], 3, 2) == text([[]], 3, 2) == ["⠀⠀⠀"] * 2


def test_one_point_lies_in_the_middle() -> None:
    assert text([[(5, 7)]], 1, 1) == ["⠂"]


def test_a_line_that_stays_the_same_is_level() -> None:
    (row,) = text([[(0, 1.0), (9, 1.0)]], 4, 1)
    assert row == "⠒⠒⠒⠒"


def test_a_line_rises_from_the_left_below_to_the_right_above() -> None:
    assert text([[(0, 0), (3, 3)]], 2, 1) == ["⡠⠊"]
    assert text([[(0, 3), (3, 0)]], 2, 1) == ["⠑⢄"]
    assert text([[(0, 0), (7, 7)]], 4, 2) == ["⠀⠀⡠⠊", "⡠⠊⠀⠀"]


def test_points_are_joined_without_gaps() -> None:
    rows = text([[(0, 0), (1, 100), (50, 0), (100, 100)]], 20, 6)
    assert all(any(row[column] != "⠀" for row in rows) for column in range(20))


def test_lines_share_a_scale_and_the_last_owns_where_they_meet() -> None:
    cells = drawn([[(0, 0), (3, 3)], [(0, 3), (3, 3)]], 2, 1)
    assert [[cell.line for cell in row] for row in cells] == [[1, 1]]
    low, high = drawn([[(0, 0), (3, 0)], [(0, 9), (3, 9)]], 2, 2)[::-1]
    assert [cell.line for cell in low] == [0, 0]
    assert [cell.line for cell in high] == [1, 1]


@pytest.mark.parametrize("columns", [1, 7, 40])
def test_all_extremes_are_inside(columns: int) -> None:
    rows = drawn([[(step, (-1) ** step * step) for step in range(30)]], columns, 3)
    assert [len(row) for row in rows] == [columns] * 3
    assert all(any(cell.line == 0 for cell in row) for row in rows)
