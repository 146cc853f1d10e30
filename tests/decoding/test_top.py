from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.decoding.top import top


@given(st.lists(st.lists(st.integers(0, 4), min_size=9, max_size=9), min_size=1, max_size=4), st.integers(1, 9))
@settings(max_examples=200, deadline=None)
def test_top_is_a_stable_sort(rows: list[list[int]], count: int) -> None:
    values, places = top(torch.tensor(rows, dtype=torch.float64), count)
    for row, row_values, row_places in zip(rows, values.tolist(), places.tolist(), strict=True):
        expected = sorted(range(9), key=lambda place: (-row[place], place))[:count]
        assert row_places == expected
        assert row_values == [row[place] for place in expected]


def test_top_of_distinct_values_agrees_with_topk() -> None:
    values = torch.randn(20, 1000, generator=torch.Generator().manual_seed(0))
    expected = values.topk(7)
    assert torch.equal(top(values, 7)[0], expected.values)
    assert torch.equal(top(values, 7)[1], expected.indices)
