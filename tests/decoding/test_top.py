from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.decoding import top as decoding_top
from seqloom.decoding.top import falling, first_largest, only_top, top, top_sums


@given(st.lists(st.lists(st.integers(0, 4), min_size=9, max_size=9), min_size=1, max_size=4), st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_top_is_a_stable_sort(rows: list[list[int]], count: int) -> None:
    values, places = top(torch.tensor(rows, dtype=torch.float64), count)
    for row, row_values, row_places in zip(rows, values.tolist(), places.tolist(), strict=True):
        expected = sorted(range(9), key=lambda place: (-row[place], place))[:count]
        assert row_places == expected
        assert row_values == [row[place] for place in expected]


SOME = (0.0, -0.0, 1.0, -1.0, 1e-45, -1e-45, 3e38, -3e38, float("inf"), -float("inf"), float("nan"), -float("nan"))


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_numbers_sorted_as_integers_come_in_the_order_of_the_library(rows: int) -> None:
    draws = torch.Generator().manual_seed(rows)
    size = 2 * decoding_top.MANY
    values = torch.randn(rows, size, generator=draws)
    values[:, :size:2] = torch.tensor(SOME)[torch.randint(len(SOME), (rows, size // 2), generator=draws)]
    expected = values.sort(dim=1, descending=True, stable=True)
    found, places = falling(values)
    assert torch.equal(places, expected.indices)
    assert torch.equal(found.view(torch.int32), expected.values.view(torch.int32))


def test_top_of_distinct_values_agrees_with_topk() -> None:
    values = torch.randn(20, 1000, generator=torch.Generator().manual_seed(0))
    expected = values.topk(7)
    assert torch.equal(top(values, 7)[0], expected.values)
    assert torch.equal(top(values, 7)[1], expected.indices)


@pytest.mark.parametrize("rounded", [True, False])
@pytest.mark.parametrize(("prompts", "beam", "count"), [(1, 64, 128), (3, 7, 14), (2, 1, 30), (1, 40, 1)])
def test_the_best_sums_are_the_same_when_the_hopeless_ones_are_not_added(
    monkeypatch: pytest.MonkeyPatch, prompts: int, beam: int, count: int, rounded: bool
) -> None:
    generator = torch.Generator().manual_seed(prompts * beam + count)
    terms = torch.randn(prompts * beam, 300, generator=generator).log_softmax(1)
    terms = terms.round(decimals=1) if rounded else terms  # many equals, in which the first must win
    terms[:, 3] = -torch.inf
    totals = torch.randn(prompts, beam, dtype=torch.float64, generator=generator).round(decimals=1)
    if beam > 10:
        totals[0, 5] = -torch.inf
    sums = (totals.view(-1, 1) + terms).view(prompts, -1)
    expected = [part[:, :count] for part in sums.sort(dim=1, descending=True, stable=True)]
    monkeypatch.setattr(decoding_top, "MANY", 0)
    monkeypatch.setattr(decoding_top, "STRETCH", 2)
    values, places = top_sums(totals, terms, count)
    assert torch.equal(values, expected[0])
    assert torch.equal(places, expected[1])


@pytest.mark.parametrize("size", [128, 130, 191, 7])
@pytest.mark.parametrize("rounded", [True, False])
def test_the_first_of_the_largest_is_found_stretch_by_stretch(
    monkeypatch: pytest.MonkeyPatch, size: int, rounded: bool
) -> None:
    monkeypatch.setattr(decoding_top, "MANY", 64)
    values = torch.randn(200, size, generator=torch.Generator().manual_seed(size))
    values = values.round() if rounded else values
    expected = values.sort(dim=1, descending=True, stable=True).indices[:, 0]
    assert torch.equal(first_largest(values), expected)


@given(st.lists(st.lists(st.integers(0, 4), min_size=9, max_size=9), min_size=1, max_size=4), st.integers(1, 12))
@settings(max_examples=200, deadline=None)
def test_what_is_not_among_the_largest_becomes_impossible_and_of_equals_the_first_stay(
    rows: list[list[int]], count: int
) -> None:
    values = torch.tensor(rows).float().masked_fill(torch.tensor(rows) == 0, -torch.inf)
    kept = only_top(values, count)
    for row, found in zip(values.tolist(), kept.tolist(), strict=True):
        best = sorted(range(9), key=lambda place: -row[place])[:count]
        assert found == [value if place in best else -float("inf") for place, value in enumerate(row)]


def test_what_is_not_a_number_stays_to_be_found_out() -> None:
    values = torch.tensor([[1.0, float("nan"), 3.0, 2.0], [float("nan")] * 4])
    assert only_top(values, 2).isnan().any(1).all()
