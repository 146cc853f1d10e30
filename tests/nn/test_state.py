"""A state's rows follow an index; what rows share of their source is neither moved nor copied."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from seqloom.nn.state import State


def a_state(sources: int = 3, hypotheses: int = 2) -> State:
    rows = torch.arange(sources * hypotheses)
    memory = 10.0 * torch.arange(sources)[:, None]
    return State({"hidden": rows[:, None].float()}, 4, {"memory": memory})


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9))
def test_every_row_keeps_its_own_values_and_its_own_source(index: list[int]) -> None:
    state = a_state().reorder(torch.tensor(index))
    assert state["hidden"][:, 0].tolist() == index
    assert state.position == 4
    sources = state.of_sources("memory")
    each = len(index) // len(sources)  # one row of memory per source, or one per row
    seen = sources.repeat_interleave(each, 0)[:, 0].tolist()
    assert seen == [10.0 * (row // 2) for row in index]


def test_reordering_within_the_sources_copies_nothing_of_them() -> None:
    state = a_state()
    memory = state.shared["memory"]
    assert state.of_sources("memory") is memory
    swapped = state.reorder(torch.tensor([1, 0, 3, 3, 5, 4]))
    assert swapped.of_sources("memory") is memory


def test_a_source_goes_with_its_last_row() -> None:
    state = a_state().reorder(torch.tensor([0, 1, 4, 5]))
    assert state.shared["memory"][:, 0].tolist() == [0.0, 20.0]
    assert state.owners is None
    same = a_state().reorder(torch.tensor([0, 1, 4, 5]), sources=torch.tensor([0, 2]))
    assert same.shared["memory"].tolist() == state.shared["memory"].tolist()


def test_uneven_rows_get_their_sources_row_by_row() -> None:
    state = a_state().reorder(torch.tensor([0, 2, 3]))
    assert state.of_sources("memory")[:, 0].tolist() == [0.0, 10.0, 10.0]


def test_a_layers_part_knows_the_sources_too() -> None:
    whole = State()
    whole.put("decoder", a_state())
    part = whole.part("decoder").reorder(torch.tensor([5, 4]))
    assert part.of_sources("memory").tolist() == [[20.0]]
    assert whole.part("decoder").after({"hidden": torch.zeros(6, 1)}, 2).position == 2


def test_changes_reach_rows_sources_and_owners() -> None:
    moved = a_state().map(torch.clone)
    assert moved.of_sources("memory").tolist() == a_state().of_sources("memory").tolist()
    assert not a_state().detach()["hidden"].requires_grad


def test_rows_that_are_alone_have_places_and_sources_of_their_own() -> None:
    alone = a_state().alone()
    assert alone.position.tolist() == [4] * 6
    assert alone.shared["memory"][:, 0].tolist() == [0.0, 0.0, 10.0, 10.0, 20.0, 20.0]
    moved = alone.reorder(torch.tensor([5, 0])).apart()
    assert moved.position.tolist() == [4, 4]
    assert moved.of_sources("memory")[:, 0].tolist() == [20.0, 0.0]


def test_joined_rows_keep_what_they_have_and_the_room_is_zeros() -> None:
    short = State({"cache": torch.ones(1, 2, 3)}, 2, {"mask": torch.ones(1, 2, dtype=torch.bool)}).alone()
    long = State({"cache": torch.full((2, 4, 3), 2.0)}, 4, {"mask": torch.ones(2, 5, dtype=torch.bool)}).alone()
    joined = State.join([short, long])
    assert joined.position.tolist() == [2, 4, 4]
    assert joined["cache"][:, :, 0].tolist() == [[1, 1, 0, 0], [2, 2, 2, 2], [2, 2, 2, 2]]
    assert joined.shared["mask"].sum(1).tolist() == [2, 5, 5]
    joined.put_rows(torch.tensor([2]), short)
    assert joined.position.tolist() == [2, 4, 2]
    assert joined["cache"][2, :, 0].tolist() == [1, 1, 0, 0]
    short.put_rows(torch.tensor([0]), long.reorder(torch.tensor([1])).apart())
    assert short["cache"][0, :, 0].tolist() == [2, 2, 2, 2]
    assert short.position.tolist() == [4]


def test_rows_at_different_places_are_not_joined_as_if_they_stood_at_one() -> None:
    states = [State({"hidden": torch.zeros(1, 2)}, position) for position in (3, 4)]
    with pytest.raises(ValueError, match="different places"):
        State.join(states)
