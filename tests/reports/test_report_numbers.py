from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.reports.columns import Column
from seqloom.reports.numbers import aligned, compact, duration, significant


@pytest.mark.parametrize(
    ("value", "text"),
    [(0, "0"), (0.01234, "0.0123"), (1.234, "1.23"), (123.4, "123"), (12345.6, "12,346"), (1.5e-9, "1.50e-09")],
)
def test_three_significant_digits(value: float, text: str):
    assert significant(value) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.5, "0.5"), (950, "950"), (1200, "1.2k"), (999_900, "1M"), (34e6, "34M"), (1e-8, "10⁻⁸"), (2.5e-7, "2.5·10⁻⁷")],
)
def test_compact_numbers(value: float, text: str):
    assert compact(value) == text


def test_more_digits_show_what_three_hide():
    known = {2.7426: "2.743", 2.745: "2.745", 12_346: "12.35k", 999.96: "1k", 0.5: "0.5"}
    assert {value: compact(value, 4) for value in known} == known


@pytest.mark.parametrize("show", [significant, compact, duration, lambda value: aligned([value])[0]])
def test_numbers_that_are_none_have_a_sign_of_their_own(show):
    assert show(math.inf) == "∞"
    assert show(math.nan) == "–"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.42, "0.42 s"),
        (59.4, "59 s"),
        (59.6, "1 min 0 s"),
        (192, "3 min 12 s"),
        (3599.7, "1 h 0 min"),
        (7530, "2 h 6 min"),
    ],
)
def test_durations(seconds: float, text: str):
    assert duration(seconds).replace("\N{NO-BREAK SPACE}", " ") == text


@given(st.lists(st.floats(1e-4, 1e9), min_size=1))
def test_the_points_of_a_column_line_up(values: list[float]):
    decimals = {len(text.partition(".")[2]) for text in aligned(values)}
    assert len(decimals) == 1


def test_the_best_of_a_column_is_the_lowest_or_the_highest_finite_number():
    values = [math.inf, 3.0, 2.0, math.nan, 2.0]
    assert Column("loss", "", values, "lower", "loss").best() == [False, False, True, False, True]
    assert Column("speed", "", values, "higher", "speed").best() == [False, True, False, False, False]


@pytest.mark.parametrize("values", [[3.0], [math.nan, math.inf]])
def test_nothing_is_best_where_there_is_no_choice(values: list[float]):
    assert not any(Column("loss", "", values, "lower", "loss").best())


def test_nothing_is_best_in_a_column_that_is_neither_good_nor_bad():
    assert not any(Column("unknown", "tokens", [3, 7], None, "unknown").best())
