"""One step of attention: every row has a single query.

Keys are read a few at a time, and the softmax over their scores s_i = q·k_i / √d is kept as it grows: the largest score
m so far, the sum of exponentials relative to it, and the values weighted by these. With the scores of the next few,

    m' = max(m, max_i s_i)
    total' = total e^(m - m') + Σ_i e^(s_i - m')
    mixed' = mixed e^(m - m') + Σ_i e^(s_i - m') v_i

and at the end the output is mixed / total (Milakov and Gimelshein 2018, "Online normalizer calculation for softmax").
"""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

STEPS = ((128, 128, 8), (256, 64, 4))
"""Up to so many programs, each takes so many steps of a history at once, by so many warps. To wait for memory takes
longer than to compute: one program on a multiprocessor asks for much at once, and two for half of it."""
MANY = 32, 2  # the same where six share one: steps and warps
PLACES = tl.constexpr(16)  # of a source at once


def attend_history(
    queries: Tensor, new_keys: Tensor, new_values: Tensor, keys: Tensor, values: Tensor, origins: Tensor, now: Tensor
) -> Tensor:
    """Write the new keys and values [rows, heads, 1, d] at step `now` of the caches [rows, heads, capacity, d], and
    attend from queries [rows, heads, 1, d] to the steps up to it: softmax(Q Kᵀ / √d) V -> like the queries.

    Step t of row r stands in row origins[r, t] of the caches; the new step, in the row itself.
    """
    rows, heads, capacity, size = keys.shape
    steps, warps = next(((steps, warps) for most, steps, warps in STEPS if rows * heads <= most), MANY)
    output = torch.empty(rows, 1, heads, size, dtype=queries.dtype, device=queries.device)
    new = (queries, new_keys, new_values)
    strides = tuple(stride for tensor in new for stride in tensor.stride()[:2])
    blocks = triton.next_power_of_2(size), steps
    _attend_history[(rows * heads,)](
        new, keys, values, origins, now, output, strides, heads, capacity, size, *blocks, num_warps=warps
    )
    return output.transpose(1, 2)


@triton.jit  # type: ignore[untyped-decorator]
def _attend_history(  # type: ignore[no-untyped-def]
    new,
    keys,
    values,
    origins,
    now,
    output,
    strides,
    heads,
    capacity,
    size: tl.constexpr,
    block_size: tl.constexpr,
    block_steps: tl.constexpr,
):
    program = tl.program_id(0)
    row = (program // heads).to(tl.int64)
    head = program % heads
    queries, new_keys, new_values = new
    query_row, query_head, key_row, key_head, value_row, value_head = strides
    end = tl.load(now)
    numbers = tl.arange(0, block_size)
    real = numbers < size
    query = tl.load(queries + row * query_row + head * query_head + numbers, mask=real, other=0.0).to(tl.float32)
    query = query * size**-0.5
    new_key = tl.load(new_keys + row * key_row + head * key_head + numbers, mask=real, other=0.0)
    new_value = tl.load(new_values + row * value_row + head * value_head + numbers, mask=real, other=0.0)
    here = ((row * heads + head) * capacity + end) * size + numbers
    tl.store(keys + here, new_key, mask=real)
    tl.store(values + here, new_value, mask=real)

    # The softmax so far: the largest score, the sum of exponentials relative to it, and the values weighted by them.
    largest = tl.sum(query * new_key.to(tl.float32), axis=0)
    total = 1.0
    mixed = new_value.to(tl.float32)
    for first in range(0, end, block_steps):
        steps = first + tl.arange(0, block_steps)
        past = steps < end
        origin = tl.load(origins + row * capacity + steps, mask=past, other=0).to(tl.int64)
        places = ((origin * heads + head) * capacity + steps) * size
        wanted = past[:, None] & real[None, :]
        key = tl.load(keys + places[:, None] + numbers[None, :], mask=wanted, other=0.0)
        value = tl.load(values + places[:, None] + numbers[None, :], mask=wanted, other=0.0)
        scores = tl.sum(query[None, :] * key.to(tl.float32), axis=1)
        scores = tl.where(past, scores, float("-inf"))
        before = largest
        largest = tl.maximum(before, tl.max(scores, axis=0))
        weights = tl.exp(scores - largest)
        fade = tl.exp(before - largest)
        total = total * fade + tl.sum(weights, axis=0)
        mixed = mixed * fade + tl.sum(weights[:, None] * value.to(tl.float32), axis=0)
    result = (mixed / total).to(output.dtype.element_ty)
    tl.store(output + (row * heads + head) * size + numbers, result, mask=real)


def attend_source(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor) -> Tensor:
    """softmax(Q Kᵀ / √d) V from queries [sources, heads, few, d] to keys and values [sources, heads, places, d], those
    where mask [sources, places] is True -> like the queries. A query that sees none gets zeros."""
    sources, heads, few, size = queries.shape
    output = torch.empty(sources, few, heads, size, dtype=queries.dtype, device=queries.device)
    strides = (*queries.stride()[:3], mask.stride(0))
    blocks = (triton.next_power_of_2(few), triton.next_power_of_2(size))
    warps = 2 if few == 1 else 4
    _attend_source[(sources * heads,)](
        queries, keys, values, mask, output, strides, heads, keys.size(2), few, size, *blocks, num_warps=warps
    )
    return output.transpose(1, 2)


@triton.jit  # type: ignore[untyped-decorator]
def _attend_source(  # type: ignore[no-untyped-def]
    queries,
    keys,
    values,
    mask,
    output,
    strides,
    heads,
    length,
    few: tl.constexpr,
    size: tl.constexpr,
    block_few: tl.constexpr,
    block_size: tl.constexpr,
):
    program = tl.program_id(0)
    source = (program // heads).to(tl.int64)
    head = program % heads
    query_source, query_head, query_one, mask_source = strides
    numbers = tl.arange(0, block_size)
    real = numbers < size
    each = tl.arange(0, block_few)
    asked = (each < few)[:, None] & real[None, :]
    query = tl.load(
        queries + source * query_source + head * query_head + each[:, None] * query_one + numbers[None, :],
        mask=asked,
        other=0.0,
    )
    query = query.to(tl.float32) * size**-0.5
    largest = tl.full([block_few], -3.0e38, tl.float32)
    total = tl.zeros([block_few], tl.float32)
    mixed = tl.zeros([block_few, block_size], tl.float32)
    for first in range(0, length, PLACES):
        places = first + tl.arange(0, PLACES)
        inside = places < length
        seen = tl.load(mask + source * mask_source + places, mask=inside, other=0) != 0
        start = ((source * heads + head) * length + places) * size
        wanted = inside[:, None] & real[None, :]
        key = tl.load(keys + start[:, None] + numbers[None, :], mask=wanted, other=0.0).to(tl.float32)
        value = tl.load(values + start[:, None] + numbers[None, :], mask=wanted, other=0.0).to(tl.float32)
        scores = tl.sum(query[:, None, :] * key[None, :, :], axis=2)
        scores = tl.where(seen[None, :], scores, float("-inf"))
        before = largest
        largest = tl.maximum(before, tl.max(scores, axis=1))
        weights = tl.exp(scores - largest[:, None])
        fade = tl.exp(before - largest)
        total = total * fade + tl.sum(weights, axis=1)
        mixed = mixed * fade[:, None] + tl.sum(weights[:, :, None] * value[None, :, :], axis=1)
    result = (mixed / tl.maximum(total, 1e-30)[:, None]).to(output.dtype.element_ty)
    where = ((source * few + each[:, None]) * heads + head) * size + numbers[None, :]
    tl.store(output + where, result, mask=asked)
