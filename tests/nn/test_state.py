"""A state's rows follow an index; what rows share of their source is neither moved nor copied."""

from __future__ import annotations

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
