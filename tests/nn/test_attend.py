"""Attention written out, against the library's kernel: values and gradients, for every kind of mask."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from seqloom.nn.attention import LONGEST_WRITTEN_OUT, attend, causal_mask
from seqloom.nn.occasions import exporting

BATCH, HEADS, SIZE = 3, 2, 16
MASKS = ["none", "causal", "padding", "window", "bias", "masked bias"]


def vectors(time: int, seed: int, dtype: torch.dtype = torch.float64) -> Tensor:
    """[batch, heads, time, size], of the strides that a projection of [batch, time, heads · size] has."""
    generator = torch.Generator().manual_seed(seed)
    together = torch.randn(BATCH, time, HEADS, SIZE, dtype=torch.float64, generator=generator)
    return together.to(dtype).transpose(1, 2).requires_grad_()


def make_mask(kind: str, time: int, length: int, dtype: torch.dtype = torch.float64) -> Tensor | None:
    """Of each kind that the models make; every query sees a key."""
    lengths = torch.tensor([length, (length + 1) // 2, 1])
    padding = (torch.arange(length) < lengths.unsqueeze(1))[:, None, None]
    bias = torch.randn(HEADS, time, length, dtype=dtype, generator=torch.Generator().manual_seed(9))
    if kind == "padding":
        return padding
    if kind == "window":
        return causal_mask(max(length - time, 0), time, length, torch.device("cpu"))
    if kind == "bias":
        return bias
    if kind == "masked bias":
        return bias.masked_fill(~padding, -torch.inf)
    return None


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("time", [1, 2, 20])
@pytest.mark.parametrize("length", [1, 2, 15, 16, 17, 40])
def test_values_and_gradients_are_those_of_the_kernel(kind: str, time: int, length: int) -> None:
    inputs = [vectors(time, 0), vectors(length, 1), vectors(length, 2)]
    mask = make_mask(kind, time, length)
    if mask is not None and mask.is_floating_point():
        mask.requires_grad_()
    learned = [*inputs, mask] if mask is not None and mask.requires_grad else inputs
    ours = attend(*inputs, mask, kind == "causal", 0.0)
    theirs = F.scaled_dot_product_attention(*inputs, mask, is_causal=kind == "causal")
    torch.testing.assert_close(ours, theirs)
    upstream = torch.randn(ours.shape, dtype=torch.float64, generator=torch.Generator().manual_seed(3))
    gradients = zip(
        torch.autograd.grad(ours, learned, upstream), torch.autograd.grad(theirs, learned, upstream), strict=True
    )
    for one, other in gradients:
        torch.testing.assert_close(one, other)


@pytest.mark.parametrize("kind", MASKS)
@pytest.mark.parametrize("length", [12, LONGEST_WRITTEN_OUT + 1])
def test_bfloat16_is_as_exact_as_the_kernels(kind: str, length: int) -> None:
    inputs = [vectors(length, seed) for seed in range(3)]
    low = [tensor.detach().bfloat16() for tensor in inputs]
    mask = make_mask(kind, length, length)
    exact = F.scaled_dot_product_attention(*inputs, mask, is_causal=kind == "causal")
    low_mask = mask.bfloat16() if mask is not None and mask.is_floating_point() else mask
    ours = attend(*low, low_mask, kind == "causal", 0.0)
    theirs = F.scaled_dot_product_attention(*low, low_mask, is_causal=kind == "causal")
    assert ours.dtype == torch.bfloat16
    assert (ours - exact).norm() < 1.5 * (theirs - exact).norm()


def test_autocast_computes_in_bfloat16_from_float32() -> None:
    inputs = [vectors(20, seed, torch.float32) for seed in range(3)]
    mask = make_mask("masked bias", 20, 20, torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        attended = attend(*inputs, mask, False, 0.1)
    attended.float().sum().backward()
    assert attended.dtype == torch.bfloat16
    assert all(tensor.grad.dtype == torch.float32 for tensor in inputs)


@pytest.mark.parametrize("length", [6, 30, LONGEST_WRITTEN_OUT + 1])
@pytest.mark.parametrize("additive", [False, True])
@pytest.mark.parametrize("dropout", [0.0, 0.5])
def test_a_query_that_sees_nothing_harms_no_other(length: int, additive: bool, dropout: float) -> None:
    """Its own output is finite; values and gradients of the rest are as if it were not there."""
    seen = torch.ones(BATCH, 1, length, length, dtype=torch.bool)
    seen[1, :, 2] = False
    mask = torch.zeros(seen.shape, dtype=torch.float64).masked_fill(~seen, -torch.inf) if additive else seen
    inputs = [vectors(length, seed) for seed in range(3)]
    torch.manual_seed(0)
    attended = attend(*inputs, mask, False, dropout)
    assert attended.isfinite().all()
    kept = torch.ones(BATCH, 1, length, 1, dtype=torch.float64)
    kept[1, :, 2] = 0.0
    gradients = torch.autograd.grad((attended * kept).pow(2).sum(), inputs)
    assert all(gradient.isfinite().all() for gradient in gradients)
    if dropout == 0.0:
        free = F.scaled_dot_product_attention(*inputs)
        torch.testing.assert_close(attended * kept, free * kept)
        for one, other in zip(gradients, torch.autograd.grad((free * kept).pow(2).sum(), inputs), strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("length", [10, 40])
def test_dropout_drops_weights_and_keeps_their_expectation(length: int) -> None:
    torch.manual_seed(0)
    queries, keys = vectors(5, 0), vectors(length, 1)
    values = torch.eye(length, dtype=torch.float64).expand(BATCH, HEADS, length, length)  # shows the weights
    weights = attend(queries, keys, values, None, False, 0.0)
    ratios = torch.stack([attend(queries, keys, values, None, False, 0.25) for _ in range(400)]) / weights
    assert torch.allclose(ratios, torch.where(ratios > 0.5, 4 / 3, 0.0).double())
    assert ratios.mean().item() == pytest.approx(1.0, abs=0.01)
    assert (ratios.mean(0) - 1.0).abs().max() < 0.2


def test_long_windows_are_left_to_the_kernel_which_holds_no_matrix_of_weights() -> None:
    kept: list[int] = []

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor.numel())
        return tensor

    length = LONGEST_WRITTEN_OUT + 1
    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        attend(*(vectors(length, seed, torch.float32) for seed in range(3)), None, True, 0.0)
    assert max(kept) < length * length


def test_a_compiler_is_given_the_kernel_of_the_library() -> None:
    """torch 2.11 says that it exports whenever it compiles, and then a GPU wrote out every matrix of weights."""
    length = LONGEST_WRITTEN_OUT + 1
    inputs, asked = [vectors(length, seed) for seed in range(3)], []

    def backend(graph: torch.fx.GraphModule, _: object) -> object:
        asked.extend(node.target for node in graph.graph.nodes)
        return graph.forward

    torch.compiler.reset()
    torch.compile(attend, backend=backend, fullgraph=True)(*inputs, None, True, 0.0)
    assert F.scaled_dot_product_attention in asked
    assert torch.softmax not in asked
    with exporting():
        written_out = attend(*inputs, None, True, 0.0)
    torch.testing.assert_close(written_out, attend(*inputs, None, True, 0.0))


def test_an_empty_memory_gives_zeros() -> None:
    attended = attend(vectors(2, 0), vectors(0, 1), vectors(0, 2), None, False, 0.0)
    assert attended.shape == (BATCH, HEADS, 2, SIZE)
    assert not attended.any()
