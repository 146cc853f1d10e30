"""Means, deviations and Welch's test against numpy, scipy and a printed table."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import special, stats

from seqloom.metrics.seeds import Readings, incomplete_beta, two_sided_p, welch

figures = st.floats(-1e3, 1e3).map(lambda value: round(value, 3))
samples = st.lists(figures, min_size=2, max_size=8)


@given(samples)
def test_the_deviation_is_that_of_a_sample(values: list[float]):
    found = Readings.of(values)
    assert found.mean == pytest.approx(np.mean(values), abs=1e-9)
    assert found.deviation == pytest.approx(np.std(values, ddof=1), abs=1e-9)
    assert found.number == len(values)


def test_one_reading_has_no_deviation_and_a_model_without_chance_has_none_of_any_size():
    assert Readings.of([3.0]) == Readings(3.0, None, 1)
    assert Readings.of([3.0], deterministic=True) == Readings(3.0, 0.0, math.inf)
    assert Readings.of([3.0, math.inf]).deviation is None
    assert math.isnan(Readings.of([3.0, math.nan]).mean)


@given(st.floats(0, 1 - 1e-6), st.floats(0.5, 300), st.floats(0.5, 300))  # beyond, scipy itself is inexact
def test_the_incomplete_beta_function_is_scipys(x: float, a: float, b: float):
    assert incomplete_beta(x, a, b) == pytest.approx(special.betainc(a, b, x), rel=1e-9, abs=1e-14)


@given(st.floats(-60, 60), st.floats(1, 500))
def test_p_is_that_of_the_t_distribution(t: float, freedom: float):
    assert two_sided_p(t, freedom) == pytest.approx(2 * stats.t.sf(abs(t), freedom), rel=1e-9, abs=1e-14)


@pytest.mark.parametrize(("freedom", "t"), [(1, 12.706), (2, 4.303), (4, 2.776), (10, 2.228), (30, 2.042)])
def test_printed_quantiles_leave_a_twentieth(freedom: int, t: float):
    rounded = 0.0005  # the table has three decimals
    assert two_sided_p(t + rounded, freedom) < 0.05 < two_sided_p(t - rounded, freedom)


@pytest.mark.filterwarnings("ignore:Precision loss")  # scipy says so of samples of equal values
@given(samples, samples)
def test_welch_is_scipys(first: list[float], second: list[float]):
    found = welch(Readings.of(first), Readings.of(second))
    if np.ptp(first) == np.ptp(second) == 0:
        assert found == float(first[0] == second[0])
    else:
        assert found == pytest.approx(stats.ttest_ind(first, second, equal_var=False).pvalue, rel=1e-6, abs=1e-12)
    assert found == welch(Readings.of(second), Readings.of(first))


@pytest.mark.filterwarnings("ignore:Precision loss")
@given(samples.filter(lambda values: np.ptp(values) > 0), figures)
def test_beside_a_value_without_chance_it_is_the_test_of_one_sample(values: list[float], known: float):
    found = welch(Readings.of(values), Readings.of([known], deterministic=True))
    assert found == pytest.approx(stats.ttest_1samp(values, known).pvalue, rel=1e-6, abs=1e-12)


@pytest.mark.parametrize("other", [Readings(2.0), Readings(math.inf), Readings(math.nan, 0.0, math.inf)])
def test_nothing_is_said_where_a_deviation_is_missing(other: Readings):
    assert welch(Readings.of([1.0, 2.0, 3.0]), other) is None
