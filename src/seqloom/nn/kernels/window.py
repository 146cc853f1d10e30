"""Attention within short windows, for training: sentences, not books.

The library's kernels work on tiles of 64 or 128 queries and as many keys, so a sentence of 15 words costs as much as
one of 100. Here a program takes one head of one sentence, holds all of it in registers, and in the backward pass
computes the weights anew instead of keeping them.
"""

from __future__ import annotations

from typing import Any

import torch
import triton  # type: ignore[import-not-found]
import triton.language as tl  # type: ignore[import-not-found]
from torch import Tensor

LONGEST = 64  # queries and keys
SMALLEST = 16  # what a product of matrices has at least on either side


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
    batch, heads, time, size = queries.shape
    output = torch.empty(batch, time, heads, size, dtype=queries.dtype, device=queries.device)
    inputs = [_unit(tensor) for tensor in (queries, keys, values)]
    _forward[(batch * heads,)](
        *inputs,
        mask,
        seed,
        output,
        *_strides(inputs),
        *_shape(queries, keys),
        dropout,
        **_options(queries, keys, mask, seed, causal),
    )
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
    gradients = [_like(tensor) for tensor in inputs]
    _backward[(queries.size(0) * queries.size(1),)](
        gradient.contiguous(),
        *inputs,
        mask,
        seed,
        *gradients,
        *_strides(inputs),
        *_shape(queries, keys),
        dropout,
        **_options(queries, keys, mask, seed, causal),
    )
    return gradients[0], gradients[1], gradients[2]


@_window.register_fake
def _(queries: Tensor, *_: Any) -> Tensor:
    batch, heads, time, size = queries.shape
    return queries.new_empty(batch, time, heads, size)


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
    """Room for a gradient: [batch, time, heads, d] for a tensor [batch, heads, time, d]."""
    batch, heads, time, size = tensor.shape
    return tensor.new_empty(batch, time, heads, size)


def _strides(tensors: list[Tensor]) -> list[int]:
    return [stride for tensor in tensors for stride in tensor.stride()[:3]]


def _shape(queries: Tensor, keys: Tensor) -> tuple[int, int, int, float]:
    return queries.size(1), queries.size(2), keys.size(2), queries.size(3) ** -0.5


def _options(
    queries: Tensor, keys: Tensor, mask: Tensor | None, seed: Tensor | None, causal: bool
) -> dict[str, int | bool | str]:
    time, length, size = (
        max(SMALLEST, triton.next_power_of_2(number)) for number in (queries.size(2), keys.size(2), queries.size(3))
    )
    options = {"masked": mask is not None, "dropping": seed is not None, "causal": causal, "size": queries.size(3)}
    precision = "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
    warps = 4 if time * length >= 64 * 64 else 2 if time * length >= 32 * 32 else 1
    blocks = {"block_time": time, "block_length": length, "block_size": size}
    return {**options, **blocks, "precision": precision, "num_warps": warps}


@triton.jit  # type: ignore[untyped-decorator]
def _weights(  # type: ignore[no-untyped-def]
    query,
    key,
    mask,
    seed,
    batch,
    length,
    scale,
    dropout,
    masked: tl.constexpr,
    dropping: tl.constexpr,
    causal: tl.constexpr,
    block_time: tl.constexpr,
    block_length: tl.constexpr,
    precision: tl.constexpr,
):
    """softmax of the scores, and what dropout multiplies them by."""
    rows = tl.arange(0, block_time)
    columns = tl.arange(0, block_length)
    scores = tl.dot(query, tl.trans(key), input_precision=precision) * scale
    lowest = -3.0e38  # finite, so that a query that sees no key stays so
    if masked:
        seen = tl.load(mask + batch * length + columns, mask=columns < length, other=0) != 0
        scores = tl.where(seen[None, :], scores, lowest)
    if causal:
        scores = tl.where(columns[None, :] <= rows[:, None], scores, lowest)
    scores = tl.where((columns < length)[None, :], scores, float("-inf"))
    exponentials = tl.exp(scores - tl.max(scores, axis=1)[:, None])
    weights = exponentials / tl.sum(exponentials, axis=1)[:, None]
    if dropping:
        place = (tl.program_id(0) * block_time + rows[:, None]) * block_length + columns[None, :]
        factors = tl.where(tl.rand(tl.load(seed), place) >= dropout, 1.0 / (1.0 - dropout), 0.0)
    else:
        factors = tl.full([block_time, block_length], 1.0, tl.float32)
    return weights, factors


@triton.jit  # type: ignore[untyped-decorator]
def _load(start, step, count, size: tl.constexpr, block: tl.constexpr, block_size: tl.constexpr):  # type: ignore[no-untyped-def]
    """A matrix [block, block_size], zeros beyond `count` rows and `size` columns."""
    rows = tl.arange(0, block)
    numbers = tl.arange(0, block_size)
    real = (rows < count)[:, None] & (numbers < size)[None, :]
    return tl.load(start + rows[:, None] * step + numbers[None, :], mask=real, other=0.0)


@triton.jit  # type: ignore[untyped-decorator]
def _store(start, step, count, matrix, size: tl.constexpr, block: tl.constexpr, block_size: tl.constexpr):  # type: ignore[no-untyped-def]
    rows = tl.arange(0, block)
    numbers = tl.arange(0, block_size)
    real = (rows < count)[:, None] & (numbers < size)[None, :]
    tl.store(start + rows[:, None] * step + numbers[None, :], matrix.to(start.dtype.element_ty), mask=real)


@triton.jit  # type: ignore[untyped-decorator]
def _forward(  # type: ignore[no-untyped-def]
    queries,
    keys,
    values,
    mask,
    seed,
    output,
    query_batch,
    query_head,
    query_step,
    key_batch,
    key_head,
    key_step,
    value_batch,
    value_head,
    value_step,
    heads,
    time,
    length,
    scale,
    dropout,
    masked: tl.constexpr,
    dropping: tl.constexpr,
    causal: tl.constexpr,
    size: tl.constexpr,
    block_time: tl.constexpr,
    block_length: tl.constexpr,
    block_size: tl.constexpr,
    precision: tl.constexpr,
):
    program = tl.program_id(0)
    batch = (program // heads).to(tl.int64)
    head = program % heads
    query = _load(queries + batch * query_batch + head * query_head, query_step, time, size, block_time, block_size)
    key = _load(keys + batch * key_batch + head * key_head, key_step, length, size, block_length, block_size)
    value = _load(values + batch * value_batch + head * value_head, value_step, length, size, block_length, block_size)
    weights, factors = _weights(
        query,
        key,
        mask,
        seed,
        batch,
        length,
        scale,
        dropout,
        masked,
        dropping,
        causal,
        block_time,
        block_length,
        precision,
    )
    mixed = tl.dot((weights * factors).to(value.dtype), value, input_precision=precision)
    start = output + (batch * time * heads + head) * size
    _store(start, heads * size, time, mixed, size, block_time, block_size)


@triton.jit  # type: ignore[untyped-decorator]
def _backward(  # type: ignore[no-untyped-def]
    gradients,
    queries,
    keys,
    values,
    mask,
    seed,
    for_queries,
    for_keys,
    for_values,
    query_batch,
    query_head,
    query_step,
    key_batch,
    key_head,
    key_step,
    value_batch,
    value_head,
    value_step,
    heads,
    time,
    length,
    scale,
    dropout,
    masked: tl.constexpr,
    dropping: tl.constexpr,
    causal: tl.constexpr,
    size: tl.constexpr,
    block_time: tl.constexpr,
    block_length: tl.constexpr,
    block_size: tl.constexpr,
    precision: tl.constexpr,
):
    program = tl.program_id(0)
    batch = (program // heads).to(tl.int64)
    head = program % heads
    query = _load(queries + batch * query_batch + head * query_head, query_step, time, size, block_time, block_size)
    key = _load(keys + batch * key_batch + head * key_head, key_step, length, size, block_length, block_size)
    value = _load(values + batch * value_batch + head * value_head, value_step, length, size, block_length, block_size)
    step = heads * size
    here = (batch * time * heads + head) * size
    there = (batch * length * heads + head) * size
    gradient = _load(gradients + here, step, time, size, block_time, block_size)
    weights, factors = _weights(
        query,
        key,
        mask,
        seed,
        batch,
        length,
        scale,
        dropout,
        masked,
        dropping,
        causal,
        block_time,
        block_length,
        precision,
    )
    used = (weights * factors).to(value.dtype)
    _store(
        for_values + there,
        step,
        length,
        tl.dot(tl.trans(used), gradient, input_precision=precision),
        size,
        block_length,
        block_size,
    )
    slopes = tl.dot(gradient, tl.trans(value), input_precision=precision) * factors
    slopes = weights * (slopes - tl.sum(slopes * weights, axis=1)[:, None]) * scale
    slopes = slopes.to(query.dtype)
    _store(for_queries + here, step, time, tl.dot(slopes, key, input_precision=precision), size, block_time, block_size)
    _store(
        for_keys + there,
        step,
        length,
        tl.dot(tl.trans(slopes), query, input_precision=precision),
        size,
        block_length,
        block_size,
    )
