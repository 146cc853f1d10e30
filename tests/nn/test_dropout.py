"""Dropout of single values: what is dropped, how often, and that it can be repeated."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.nn.dropout import Dropout, VariationalDropout, choose_dropout, drop_values


@settings(deadline=None)
@given(probability=st.floats(0.01, 0.99), seed=st.integers(0, 1000))
def test_values_are_dropped_as_often_as_asked_and_keep_their_expectation(probability: float, seed: int) -> None:
    torch.manual_seed(seed)
    count = 20_000
    dropped = drop_values(torch.ones(count, dtype=torch.float64), probability, training=True)
    rounded = round(256 * probability) / 256
    assert abs(rounded - probability) <= 1 / 512
    kept = dropped[dropped > 0]
    assert kept.unique().tolist() == pytest.approx([1 / (1 - rounded)])
    assert abs(len(kept) / count - (1 - rounded)) < 6 * math.sqrt(rounded * (1 - rounded) / count)


def test_every_place_and_every_pair_of_neighbours_is_dropped_equally_often() -> None:
    """Eight places share a random number: no place within it may differ from the others, nor depend on them."""
    torch.manual_seed(0)
    kept = (drop_values(torch.ones(40_000, 8), 0.5, training=True) > 0).double()
    assert (kept.mean(0) - 0.5).abs().max() < 0.02
    assert (torch.corrcoef(kept.t()) - torch.eye(8)).abs().max() < 0.03


def test_the_same_seed_gives_the_same_mask_and_another_seed_another() -> None:
    dropout, inputs = Dropout(0.3), torch.randn(4, 33)
    torch.manual_seed(1)
    first, second = dropout(inputs), dropout(inputs)
    torch.manual_seed(1)
    assert torch.equal(dropout(inputs), first)
    assert torch.equal(dropout(inputs), second)
    assert not torch.equal(first, second)


def test_restoring_the_state_of_the_generator_repeats_the_mask() -> None:
    dropout, inputs = Dropout(0.3), torch.randn(7, 9)
    dropout(inputs)
    state = torch.get_rng_state()
    dropped = dropout(inputs)
    torch.set_rng_state(state)
    assert torch.equal(dropout(inputs), dropped)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_the_gradient_is_the_mask(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    inputs = torch.randn(5, 6, 7).to(dtype).transpose(0, 2).requires_grad_()  # of strides that are not in order
    upstream = torch.randn(7, 6, 5).to(dtype)
    dropped = Dropout(0.25)(inputs)
    dropped.backward(upstream)
    assert dropped.dtype == inputs.grad.dtype == dtype
    mask = (dropped != 0).to(dtype)
    torch.testing.assert_close(dropped, inputs.detach() * mask * (4 / 3))
    torch.testing.assert_close(inputs.grad, upstream * mask * (4 / 3))
    assert 0 < mask.sum() < mask.numel()


def test_second_derivatives_pass_through() -> None:
    def cube(inputs: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(0)
        return drop_values(inputs, 0.5, training=True) ** 3

    inputs = torch.randn(6, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradgradcheck(cube, [inputs])


def test_only_the_mask_is_kept_for_the_backward_pass() -> None:
    kept: list[torch.Tensor] = []
    inputs = torch.randn(8, 8, requires_grad=True)
    with torch.autograd.graph.saved_tensors_hooks(lambda tensor: kept.append(tensor), lambda _: None):
        Dropout(0.5)(inputs)
    assert [tensor.dtype for tensor in kept] == [torch.uint8]


@pytest.mark.parametrize("layer", [Dropout(0.0), Dropout(0.7).eval()])
def test_without_probability_or_training_nothing_happens(layer: Dropout) -> None:
    inputs = torch.randn(3, 4)
    before = torch.get_rng_state()
    assert layer(inputs) is inputs
    assert torch.equal(torch.get_rng_state(), before)


def test_a_probability_of_nearly_one_still_keeps_something() -> None:
    torch.manual_seed(0)
    dropped = drop_values(torch.ones(100_000), 0.9999, training=True)
    assert dropped.unique().tolist() == [0.0, 256.0]


def test_values_differ_from_step_to_step_unless_variational() -> None:
    torch.manual_seed(0)
    assert isinstance(choose_dropout(0.5, variational=True), VariationalDropout)
    dropped = choose_dropout(0.5, variational=False)(torch.ones(2, 5, 30))
    assert not torch.equal(dropped[:, 0], dropped[:, 1])
