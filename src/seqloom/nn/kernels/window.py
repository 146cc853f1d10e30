"""Attention within short windows, for training: sentences, not books.

The library's kernels work on tiles of 64 or 128 queries and as many keys, so a sentence of 15 words costs as much as
one of 100. Here a program takes one head of one sentence, holds all of it in registers, and in the backward pass
computes the weights anew instead of keeping them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

SMALLEST = 16  # what a product of matrices has at least on either side


@dataclass(frozen=True)
class Shape:
    """What a kernel is compiled for."""

    causal: bool
    size: int
    """d, the numbers of a vector."""
    scale: float
    """s = 1/√d."""
    block_time: int
    """Queries, keys and numbers of a vector that a program has room for: powers of two."""
    block_length: int
    block_size: int
    precision: str
    """Of the products of matrices."""


def attend_window(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool, dropout: float
) -> Tensor:
    """softmax(Q Kᵀ / √d + mask) V: queries [batch, heads, time, d], keys and values [batch, heads, length, d] -> like
    the queries. `mask` [batch, length] is True for keys that count; `causal`: query t sees the keys up to t."""
    seed = torch.randint(1 << 31, (1,), device=queries.device) if dropout else None
    mask = None if mask is None else mask.contiguous()
    attended: Tensor = _window(queries, keys, values, mask, seed, causal, dropout)
    return attended.transpose(1, 2)


@torch.library.custom_op("seqloom::attend_window", mutates_args=())
def _window(
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    causal: bool,
    dropout: float,
) -> Tensor:
    output = _like(queries)
    inputs = [_unit(tensor) for tensor in (queries, keys, values)]
    _forward[_programs(queries)](*inputs, mask, seed, output, dropout=dropout, **_options(inputs, causal))
    return output


@torch.library.custom_op("seqloom::attend_window_backward", mutates_args=())
def _window_backward(
    gradient: Tensor,
    queries: Tensor,
    keys: Tensor,
    values: Tensor,
    mask: Tensor | None,
    seed: Tensor | None,
    causal: bool,
    dropout: float,
) -> tuple[Tensor, Tensor, Tensor]:
    inputs = [_unit(tensor) for tensor in (queries, keys, values)]
    found = _like(queries), _like(keys), _like(values)
    gradients = (gradient.contiguous(), *found)
    _backward[_programs(queries)](*inputs, mask, seed, gradients, dropout=dropout, **_options(inputs, causal))
    return found


@_window.register_fake
def _(queries: Tensor, *_: Any) -> Tensor:
    return _like(queries)


@_window_backward.register_fake
def _(_: Tensor, queries: Tensor, keys: Tensor, values: Tensor, *__: Any) -> tuple[Tensor, Tensor, Tensor]:
    return _like(queries), _like(keys), _like(values)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:  # noqa: ARG001 - called by name
    queries, keys, values, mask, seed, ctx.causal, ctx.dropout = inputs
    ctx.save_for_backward(queries, keys, values, mask, seed)


def _differentiate(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
    gradients = _window_backward(gradient, *ctx.saved_tensors, ctx.causal, ctx.dropout)
    return *(each.transpose(1, 2) for each in gradients), None, None, None, None


_window.register_autograd(_differentiate, setup_context=_keep)


def _unit(tensor: Tensor) -> Tensor:
    """The tensor with the numbers of a vector side by side."""
    return tensor if tensor.stride(-1) == 1 else tensor.contiguous()


def _like(tensor: Tensor) -> Tensor:
    """Room for as many numbers as a tensor [batch, heads, time, d] has, as [batch, time, heads, d]."""
    batch, heads, time, size = tensor.shape
    return tensor.new_empty(batch, time, heads, size)


def _programs(queries: Tensor) -> tuple[int]:
    """One for each head of each sentence."""
    return (queries.size(0) * queries.size(1),)


def _options(inputs: list[Tensor], causal: bool) -> dict[str, Any]:
    """What both kernels are told of their queries, keys and values."""
    (_, heads, time, size), length = inputs[0].shape, inputs[1].size(2)
    block_time, block_length, block_size = (
        max(SMALLEST, triton.next_power_of_2(number)) for number in (time, length, size)
    )
    precision = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    shape = Shape(causal, size, size**-0.5, block_time, block_length, block_size, precision)
    strides = tuple(stride for tensor in inputs for stride in tensor.stride()[:3])
    area = block_time * block_length
    warps = 4 if area >= 64 * 64 else 2 if area >= 32 * 32 else 1
    return {"strides": strides, "heads": heads, "time": time, "length": length, "shape": shape, "num_warps": warps}


@triton.jit
def _place(heads):  # type: ignore[no-untyped-def]
    """The sentence and the head that this program takes."""
    program = tl.program_id(0)
    return (program // heads).to(tl.int64), program % heads


@triton.jit  # type: ignore[untyped-decorator]
def _read(queries, keys, values, mask, seed, strides, heads, time, length, dropout, shape: tl.constexpr):  # type: ignore[no-untyped-def]
    """Q, K and V, P = softmax(s Q Kᵀ), row by row, and the factors F that dropout multiplies it by: the same ones in
    both passes, drawn from the seed and the place of a weight."""
    batch, head = _place(heads)
    query_batch, query_head, query_step, key_batch, key_head, key_step, value_batch, value_head, value_step = strides
    query = _load(queries + batch * query_batch + head * query_head, query_step, time, shape.block_time, shape)
    key = _load(keys + batch * key_batch + head * key_head, key_step, length, shape.block_length, shape)
    value = _load(values + batch * value_batch + head * value_head, value_step, length, shape.block_length, shape)
    rows = tl.arange(0, shape.block_time)
    columns = tl.arange(0, shape.block_length)
    scores = tl.dot(query, tl.trans(key), input_precision=shape.precision) * shape.scale
    lowest = -3.0e38  # finite, so that a query that sees no key stays so
    if mask is not None:
        seen = tl.load(mask + batch * length + columns, mask=columns < length, other=0) != 0
        scores = tl.where(seen[None, :], scores, lowest)
    if shape.causal:
        scores = tl.where(columns[None, :] <= rows[:, None], scores, lowest)
    scores = tl.where((columns < length)[None, :], scores, float("-inf"))
    exponentials = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    weights = exponentials / tl.sum(exponentials, axis=1)[:, None]
    if seed is not None:
        place = (tl.program_id(0) * shape.block_time + rows[:, None]) * shape.block_length + columns[None, :]
        factors = tl.where(tl.rand(tl.load(seed), place) >= dropout, 1.0 / (1.0 - dropout), 0.0)
    else:
        factors = tl.full([shape.block_time, shape.block_length], 1.0, tl.float32)
    return query, key, value, weights, factors


@triton.jit  # type: ignore[untyped-decorator]
def _load(start, step, count, block: tl.constexpr, shape: tl.constexpr):  # type: ignore[no-untyped-def]
    """A matrix [block, block_size], its rows `step` apart, zeros beyond `count` rows and `size` columns."""
    places, real = _places(step, count, block, shape)
    return tl.load(start + places, mask=real, other=0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _store(start, step, count, matrix, shape: tl.constexpr):  # type: ignore[no-untyped-def]
    """The reverse of `_load`."""
    places, real = _places(step, count, matrix.shape[0], shape)
    tl.store(start + places, matrix.to(start.dtype.element_ty), mask=real)


@triton.jit  # type: ignore[untyped-decorator]
def _places(step, count, block: tl.constexpr, shape: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.arange(0, block)
    numbers = tl.arange(0, shape.block_size)
    return rows[:, None] * step + numbers[None, :], (rows < count)[:, None] & (numbers < shape.size)[None, :]


@triton.jit  # type: ignore[untyped-decorator]
def _forward(queries, keys, values, mask, seed, output, strides, heads, time, length, dropout, shape: tl.constexpr):  # type: ignore[no-untyped-def]
    _, _, value, weights, factors = _read(
        queries, keys, values, mask, seed, strides, heads, time, length, dropout, shape
    )
    # O = (P ⊗ F) V
    mixed = tl.dot((weights * factors).to(value.dtype), value, input_precision=shape.precision)
    batch, head = _place(heads)
    start = output + (batch * time * heads + head) * shape.size
    _store(start, heads * shape.size, time, mixed, shape)


@triton.jit  # type: ignore[untyped-decorator]
def _backward(queries, keys, values, mask, seed, gradients, strides, heads, time, length, dropout, shape: tl.constexpr):  # type: ignore[no-untyped-def]
    """From dO, the gradient of the output, those of queries, keys and values: `gradients` are all four. With the scale
    s = 1/√d and the factors F of dropout (1/(1-p) for a weight that is kept, 0 for one that is dropped), the forward
    pass is

        S = s Q Kᵀ,   P = softmax(S) row by row,   O = (P ⊗ F) V

    and so

        dV = (P ⊗ F)ᵀ dO
        dP = (dO Vᵀ) ⊗ F
        dS = P ⊗ (dP - rowsum(dP ⊗ P))      as ∂P_ij / ∂S_ik = P_ij (δ_jk - P_ik)
        dQ = s dS K
        dK = s dSᵀ Q

    rowsum(dP ⊗ P) is rowsum(dO ⊗ O), which kernels that do not hold all of P compute instead.
    """
    for_output, for_queries, for_keys, for_values = gradients
    batch, head = _place(heads)
    step = heads * shape.size
    here = (batch * time * heads + head) * shape.size
    there = (batch * length * heads + head) * shape.size
    gradient = _load(for_output + here, step, time, shape.block_time, shape)
    query, key, value, weights, factors = _read(
        queries, keys, values, mask, seed, strides, heads, time, length, dropout, shape
    )
    # dV = (P ⊗ F)ᵀ dO
    used = tl.trans((weights * factors).to(value.dtype))
    _store(for_values + there, step, length, tl.dot(used, gradient, input_precision=shape.precision), shape)
    # dP = (dO Vᵀ) ⊗ F
    slopes = tl.dot(gradient, tl.trans(value), input_precision=shape.precision) * factors
    # s dS = s P ⊗ (dP - rowsum(dP ⊗ P)), in the place of dP
    slopes = weights * (slopes - tl.sum(slopes * weights, axis=1)[:, None]) * shape.scale
    slopes = slopes.to(query.dtype)
    # dQ = s dS K
    _store(for_queries + here, step, time, tl.dot(slopes, key, input_precision=shape.precision), shape)
    # dK = s dSᵀ Q
    _store(for_keys + there, step, length, tl.dot(tl.trans(slopes), query, input_precision=shape.precision), shape)
