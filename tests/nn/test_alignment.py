"""Attention over a memory: every kind against its formula place by place, padding, empty rows, shared hypotheses."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from seqloom.errors import ConfigError
from seqloom.nn.alignment import (
    AdditiveAlignment,
    Alignment,
    BilinearAlignment,
    ContextAttention,
    CoverageAlignment,
    DotAlignment,
    LocationAlignment,
    ScaledDotAlignment,
    share,
)

BATCH, TIME, PLACES, QUERY, MEMORY, SIZE = 3, 4, 5, 6, 6, 7
KINDS: dict[str, Callable[[int, int], Alignment]] = {
    "dot": DotAlignment,
    "scaled-dot": ScaledDotAlignment,
    "bilinear": BilinearAlignment,
    "additive": lambda query, memory: AdditiveAlignment(query, memory, SIZE),
    "coverage": lambda query, memory: CoverageAlignment(query, memory, SIZE),
    "location": lambda query, memory: LocationAlignment(query, memory, SIZE, filters=2, width=3),
}
LOOKING_BACK = ["coverage", "location"]
AT_ONCE = [kind for kind in KINDS if kind not in LOOKING_BACK]

kinds = pytest.mark.parametrize("kind", KINDS)


def make(kind: str, query: int = QUERY, memory: int = MEMORY) -> Alignment:
    """With random values in all weights, those that start at zero included."""
    torch.manual_seed(1)
    alignment = KINDS[kind](query, memory).double()
    with torch.no_grad():
        for parameter in alignment.parameters():
            parameter.normal_()
    return alignment


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))


def first(lengths: list[int], places: int = PLACES) -> Tensor:
    """The mask of rows with so many real places each, padding last."""
    return torch.arange(places) < torch.tensor(lengths).unsqueeze(1)


def past_of(kind: str, rows: int, places: int = PLACES) -> Tensor | None:
    return numbers(rows, places, seed=9).abs() if kind in LOOKING_BACK else None


def energy(alignment: Alignment, query: Tensor, memory: Tensor, place: int, past: Tensor) -> Tensor:
    """e(q, m_s) of one query, one place and one past [places], from the formula alone."""
    here = memory[place]
    weight = dict(alignment.named_parameters())
    if type(alignment) is DotAlignment:
        return (query * here).sum()
    if type(alignment) is ScaledDotAlignment:
        return (query * here).sum() / math.sqrt(len(query))
    if type(alignment) is BilinearAlignment:
        return query @ weight["key.weight"] @ here
    total = weight["query.weight"] @ query + weight["key.weight"] @ here + weight["key.bias"]
    if type(alignment) is CoverageAlignment:
        total = total + weight["coverage.weight"][:, 0] * past[place]
    if type(alignment) is LocationAlignment:
        half = weight["filter.weight"].size(2) // 2
        near = [past[s] if 0 <= s < len(past) else 0.0 * past[0] for s in range(place - half, place + half + 1)]
        total = total + weight["location.weight"] @ weight["filter.weight"][:, 0] @ torch.stack(near)
    return weight["energy.weight"][0] @ torch.tanh(total)


def plain_weights(alignment: Alignment, query: Tensor, memory: Tensor, length: int, past: Tensor) -> Tensor:
    """α of one query over the first `length` places; the others get 0."""
    exponentials = [torch.exp(energy(alignment, query, memory, place, past)) for place in range(length)]
    return torch.stack([*exponentials, *[0.0 * query[0]] * (len(memory) - length)]) / sum(exponentials)


@kinds
def test_weights_and_contexts_follow_the_formula_place_by_place(kind: str) -> None:
    alignment, lengths = make(kind), [5, 2, 1]
    time = 1 if alignment.looks_back else TIME
    queries, memory = numbers(BATCH, time, QUERY), numbers(BATCH, PLACES, MEMORY, seed=1)
    looked = past_of(kind, BATCH)
    contexts, weights = ContextAttention(alignment)(queries, memory, alignment.prepare(memory), first(lengths), looked)
    past = torch.zeros(BATCH, PLACES) if looked is None else looked
    for row in range(BATCH):
        for step in range(time):
            expected = plain_weights(alignment, queries[row, step], memory[row], lengths[row], past[row])
            torch.testing.assert_close(weights[row, step], expected)
            context = sum(expected[place] * memory[row, place] for place in range(PLACES))
            torch.testing.assert_close(contexts[row, step], context)


@pytest.mark.parametrize("kind", LOOKING_BACK)
def test_what_is_remembered_over_several_steps_follows_the_formula(kind: str) -> None:
    alignment = make(kind)
    queries, memory, mask = numbers(1, 4, QUERY), numbers(1, PLACES, MEMORY, seed=1), first([4])
    keys, looked, earlier = alignment.prepare(memory), None, [torch.zeros(PLACES, dtype=torch.float64)]
    for step in range(4):
        weights = alignment.weights(queries[:, step : step + 1], keys, mask, looked)
        looked = alignment.remember(looked, weights)
        past = sum(earlier) if kind == "coverage" else earlier[-1]
        expected = plain_weights(alignment, queries[0, step], memory[0], 4, past)
        torch.testing.assert_close(weights[0, 0], expected)
        earlier.append(expected)


@pytest.mark.parametrize("kind", AT_ONCE)
def test_kinds_that_do_not_look_back_neither_use_nor_change_what_they_are_told_of_the_past(kind: str) -> None:
    alignment, looked = make(kind), numbers(BATCH, PLACES)
    queries, keys, mask = numbers(BATCH, 1, QUERY), alignment.prepare(numbers(BATCH, PLACES, MEMORY)), first([5, 2, 1])
    weights = alignment.weights(queries, keys, mask, looked)
    assert torch.equal(weights, alignment.weights(queries, keys, mask))
    assert alignment.remember(looked, weights) is looked
    assert alignment.remember(None, weights) is None


@pytest.mark.parametrize(("kind", "scale"), [("dot", 1.0), ("scaled-dot", QUERY**-0.5)])
def test_dot_kinds_equal_the_library(kind: str, scale: float) -> None:
    queries, memory, mask = numbers(BATCH, TIME, QUERY), numbers(BATCH, PLACES, MEMORY, seed=1), first([5, 2, 1])
    contexts, _ = ContextAttention(make(kind))(queries, memory, memory, mask)
    expected = F.scaled_dot_product_attention(queries, memory, memory, mask.unsqueeze(1), scale=scale)
    torch.testing.assert_close(contexts, expected)


def test_coverage_starts_as_additive_attention() -> None:
    coverage = CoverageAlignment(QUERY, MEMORY, SIZE).double()
    additive = AdditiveAlignment(QUERY, MEMORY, SIZE).double()
    additive.load_state_dict({name: w for name, w in coverage.state_dict().items() if name != "coverage.weight"})
    queries, memory, mask = numbers(BATCH, 1, QUERY), numbers(BATCH, PLACES, MEMORY), first([5, 2, 1])
    ours = coverage.weights(queries, coverage.prepare(memory), mask, past_of("coverage", BATCH))
    torch.testing.assert_close(ours, additive.weights(queries, additive.prepare(memory), mask))
    ours[:, 0, 0].sum().backward()
    assert coverage.coverage.weight.grad.any()  # zero is a place to start from, not one to be stuck in


@settings(deadline=None, max_examples=60)
@given(data=st.data(), kind=st.sampled_from(sorted(KINDS)))
def test_weights_are_a_distribution_over_real_places_and_padding_changes_nothing(
    data: st.DataObject, kind: str
) -> None:
    sizes = st.integers(1, 4)
    batch, places, query = data.draw(sizes), data.draw(sizes), data.draw(sizes)
    time = 1 if kind in LOOKING_BACK else data.draw(sizes)
    memory_size = query if "dot" in kind else data.draw(sizes)
    mask = torch.tensor(
        data.draw(st.lists(st.lists(st.booleans(), min_size=places, max_size=places), min_size=batch, max_size=batch))
    )
    alignment = make(kind, query, memory_size)
    attention, looked = ContextAttention(alignment), past_of(kind, batch, places)
    queries, memory = numbers(batch, time, query), numbers(batch, places, memory_size, seed=1)
    contexts, weights = attention(queries, memory, alignment.prepare(memory), mask, looked)

    assert contexts.shape == (batch, time, memory_size)
    assert weights.shape == (batch, time, places)
    assert (weights >= 0).all()
    assert not weights.masked_select(~mask.unsqueeze(1)).any()
    torch.testing.assert_close(weights.sum(-1), mask.any(-1, keepdim=True).double().expand(batch, time))

    garbage = torch.where(mask.unsqueeze(-1), memory, 1e6 * numbers(*memory.shape, seed=2))
    garbage = torch.cat([garbage, 1e6 * numbers(batch, 3, memory_size, seed=3)], dim=1)
    wider = F.pad(mask, (0, 3))
    further = None if looked is None else F.pad(looked, (0, 3))
    padded_contexts, padded = attention(queries, garbage, alignment.prepare(garbage), wider, further)
    torch.testing.assert_close(padded_contexts, contexts)
    torch.testing.assert_close(padded, F.pad(weights, (0, 3)))


@kinds
def test_hypotheses_share_the_keys_of_their_source_as_if_each_had_its_own(kind: str) -> None:
    alignment, hypotheses = make(kind), 4
    rows, time = BATCH * hypotheses, 1 if alignment.looks_back else 2
    queries, memory, mask = numbers(rows, time, QUERY), numbers(BATCH, PLACES, MEMORY, seed=1), first([5, 2, 1])
    keys, looked, attention = alignment.prepare(memory), past_of(kind, rows), ContextAttention(alignment)

    contexts, weights = attention(queries, memory, keys, mask, looked)
    repeated = [tensor.repeat_interleave(hypotheses, 0) for tensor in (memory, keys, mask)]
    expected_contexts, expected = attention(queries, *repeated, looked)
    torch.testing.assert_close(contexts, expected_contexts)
    torch.testing.assert_close(weights, expected)

    folded = alignment.weights(share(queries, BATCH), keys, mask, looked)
    torch.testing.assert_close(folded.view(rows, time, PLACES), expected)
    remembered = alignment.remember(looked, folded)
    if alignment.looks_back:
        torch.testing.assert_close(remembered, alignment.remember(looked, expected))


def test_sharing_copies_nothing() -> None:
    queries = numbers(6, 2, QUERY)
    folded = share(queries, 3)
    assert folded.shape == (3, 4, QUERY)
    assert folded.data_ptr() == queries.data_ptr()


@kinds
def test_gradients_are_right(kind: str) -> None:
    alignment = make(kind)
    queries, memory = numbers(2, 1, QUERY).requires_grad_(), numbers(2, 3, MEMORY, seed=1).requires_grad_()
    looked, mask = past_of(kind, 2, 3), first([3, 2], 3)
    leaves = [queries, memory, *([] if looked is None else [looked.requires_grad_()]), *alignment.parameters()]

    def attend(*_: Tensor) -> tuple[Tensor, ...]:
        return ContextAttention(alignment)(queries, memory, alignment.prepare(memory), mask, looked)

    assert torch.autograd.gradcheck(attend, leaves)


@kinds
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16])
def test_a_row_of_padding_gives_zeros_and_disturbs_no_gradient(kind: str, dtype: torch.dtype) -> None:
    alignment = make(kind).to(dtype)
    queries, memory = numbers(2, 1, QUERY).to(dtype).requires_grad_(), numbers(2, PLACES, MEMORY).to(dtype)
    memory.requires_grad_()
    looked = None if (past := past_of(kind, 2)) is None else past.float()
    mask = first([0, 3])
    contexts, weights = ContextAttention(alignment)(queries, memory, alignment.prepare(memory), mask, looked)
    assert not weights[0].any()
    assert not contexts[0].any()
    with torch.autograd.set_detect_anomaly(True):  # not even on the way
        (contexts.square().sum() + weights.square().sum()).backward()
    for leaf in (queries, memory, *alignment.parameters()):
        assert leaf.grad.isfinite().all()
    assert not queries.grad[0].any()
    assert not memory.grad[0].any()
    assert queries.grad[1].any()


@kinds
@pytest.mark.parametrize("autocast", [True, False])
def test_bfloat16_stays_near_float64_and_normalises_in_float32(kind: str, autocast: bool) -> None:
    exact = make(kind)
    with torch.no_grad():
        for parameter in exact.parameters():
            parameter.mul_(0.3)
    queries, memory, mask = numbers(BATCH, 1, QUERY), numbers(BATCH, PLACES, MEMORY, seed=1), first([5, 2, 1])
    looked = past_of(kind, BATCH)
    expected_contexts, expected = ContextAttention(exact)(queries, memory, exact.prepare(memory), mask, looked)

    dtype = torch.float32 if autocast else torch.bfloat16
    rough = copy.deepcopy(exact).to(dtype)
    queries, memory = queries.to(dtype), memory.to(dtype)
    looked = None if looked is None else looked.float()
    with torch.autocast("cpu", torch.bfloat16, enabled=autocast):
        contexts, weights = ContextAttention(rough)(queries, memory, rough.prepare(memory), mask, looked)
    assert contexts.dtype is torch.bfloat16
    assert weights.dtype is torch.float32
    torch.testing.assert_close(weights.sum(-1), torch.ones(BATCH, 1))
    torch.testing.assert_close(weights.double(), expected, atol=0.03, rtol=0.0)
    torch.testing.assert_close(contexts.double(), expected_contexts, atol=0.1, rtol=0.0)


@kinds
def test_weights_survive_saving_and_loading(kind: str) -> None:
    saved, fresh = make(kind), KINDS[kind](QUERY, MEMORY).double()
    queries, memory, mask = numbers(BATCH, 1, QUERY), numbers(BATCH, PLACES, MEMORY), first([5, 2, 1])
    fresh.load_state_dict(saved.state_dict())
    looked = past_of(kind, BATCH)
    ours, theirs = (a.weights(queries, a.prepare(memory), mask, looked) for a in (saved, fresh))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("kind", [DotAlignment, ScaledDotAlignment])
def test_dot_kinds_refuse_unequal_sizes_and_say_what_to_do(kind: type[DotAlignment]) -> None:
    with pytest.raises(ConfigError, match=r"queries have 4 values and the memory has 6.*bilinear"):
        kind(4, 6)


@pytest.mark.parametrize("kind", ["bilinear", "additive", *LOOKING_BACK])
def test_other_kinds_take_queries_and_memory_of_any_sizes(kind: str) -> None:
    alignment = make(kind, query=4, memory=9)
    weights = alignment.weights(numbers(1, 1, 4), alignment.prepare(numbers(1, PLACES, 9)), first([PLACES]))
    torch.testing.assert_close(weights.sum(), torch.tensor(1.0, dtype=torch.float64))


def test_location_refuses_a_width_without_a_middle() -> None:
    with pytest.raises(ConfigError, match=r"odd width.*got 4"):
        LocationAlignment(QUERY, MEMORY, SIZE, filters=2, width=4)


def test_wrong_shapes_are_told() -> None:
    alignment, keys, mask = make("dot"), numbers(2, PLACES, MEMORY), first([5, 3])
    with pytest.raises(ValueError, match="queries are of size 7, but this attention takes 6"):
        alignment.weights(numbers(2, 1, 7), keys, mask)
    with pytest.raises(ValueError, match=r"6 rows of queries meet the keys of 2 sources.*share"):
        alignment.weights(numbers(6, 1, QUERY), keys, mask)
    with pytest.raises(ValueError, match=r"the mask is \[1, 5\], but the keys have \[2, 5\] places"):
        alignment.weights(numbers(2, 1, QUERY), keys, mask[:1])
    with pytest.raises(ValueError, match="5 rows of queries cannot be shared out among 2 sources"):
        share(numbers(5, 1, QUERY), 2)


@pytest.mark.parametrize("kind", LOOKING_BACK)
@pytest.mark.parametrize(("looked", "got"), [(None, "none"), (torch.zeros(2, PLACES), r"\[2, 5\]")])
def test_kinds_that_look_back_refuse_several_steps_at_once(kind: str, looked: Tensor | None, got: str) -> None:
    alignment, keys = make(kind), numbers(2, PLACES, SIZE)
    with pytest.raises(ValueError, match=rf"looks back: give it one query at a time.*6 rows of 5 places.*got {got}"):
        alignment.weights(numbers(2, 3, QUERY), keys, first([5, 3]), looked)
