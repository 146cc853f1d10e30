"""A draw from the likeliest columns of each row, in one pass over memory and without sorting."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LONGEST = 1 << 16  # columns that the registers of one program hold
BITS = tl.constexpr(30)  # the weights are at most 1, which as an integer is below 2^30
COLUMN_BITS = tl.constexpr(16)


def drawn_by_rank(log_probs: Tensor, temperature: float, mass: float, uniforms: Tensor) -> Tensor:
    """One column of each row of log_probs [rows, size], -inf where it is impossible, for a number between 0 and 1 each:
    a draw from w_i = p_i^(1/temperature) cut to its nucleus (Holtzman et al. 2020). With the columns by falling weight,
    of equals the first, and B_i the sum of those before i,

        i is kept where B_i < mass · Σ w;    drawn is the i with B_i <= u · Σ_kept w < B_i + w_i

    Weights that are not negative are in the same order as their bits as integers. So both borders are found bit by bit:
    the smallest weight such that all larger ones together are still below what is needed. Sums are in float32, each
    over the whole row as a tree: what is below 1e-7 of the whole may be drawn a little too often or too seldom.
    A row without anything possible gives its first column; one with something that is not a number, such a column.
    """
    rows, size = log_probs.shape
    columns = torch.empty(rows, dtype=torch.long, device=log_probs.device)
    inverse = 1 / max(temperature, torch.finfo(torch.float32).tiny)
    block = triton.next_power_of_2(size)
    warps = min(max(block // 512, 1), 16)
    strides = (log_probs.stride(0), uniforms.stride(0))
    _drawn[(rows,)](log_probs, uniforms, columns, size, *strides, inverse, mass, block, num_warps=warps)
    return columns


@triton.jit  # type: ignore[untyped-decorator]
def _drawn(  # type: ignore[no-untyped-def]
    log_probs, uniforms, drawn, size, stride, apart, inverse, mass, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    score = tl.load(log_probs + row * stride + columns, mask=columns < size, other=float("-inf")).to(tl.float32)
    strange = score != score
    likeliest = tl.max(tl.where(strange, float("-inf"), score), axis=0)
    weight = tl.where(score > float("-inf"), tl.exp((score - likeliest) * inverse), 0.0)
    weight = tl.where(tl.max(strange.to(tl.int32), axis=0) > 0, strange.to(tl.float32), weight)
    bits = weight.to(tl.int32, bitcast=True)

    # The smallest weight of the nucleus, and how many of those that are equal to it are still in it.
    needed = mass * tl.sum(weight, axis=0)
    largest = tl.max(bits, axis=0)
    low = tl.full((), 0, tl.int32)
    high = largest
    for _ in range(BITS):
        middle = (low + high) >> 1
        reaches = tl.sum(tl.where(bits > middle, weight, 0.0), axis=0) >= needed
        low = tl.where(reaches, middle + 1, low)
        high = tl.where(reaches, high, middle)
    smallest = high
    before = tl.sum(tl.where(bits > smallest, weight, 0.0), axis=0)
    equals = tl.sum((bits == smallest).to(tl.int32), axis=0).to(tl.float32)
    each = smallest.to(tl.float32, bitcast=True)
    each = tl.where(each > 0, each, 1.0)
    kept = tl.minimum(tl.maximum(tl.ceil((needed - before) / each), 1.0), equals)

    # The weight that is drawn, and which of those that are equal to it.
    point = tl.load(uniforms + row * apart).to(tl.float32) * (before + kept * each)
    low = smallest
    high = largest
    for _ in range(BITS):
        middle = (low + high) >> 1
        passes = tl.sum(tl.where(bits > middle, weight, 0.0), axis=0) > point
        low = tl.where(passes, middle + 1, low)
        high = tl.where(passes, high, middle)
    chosen = high
    before = tl.sum(tl.where(bits > chosen, weight, 0.0), axis=0)
    equals = tl.sum((bits == chosen).to(tl.int32), axis=0).to(tl.float32)
    equals = tl.where(chosen == smallest, kept, equals)
    each = chosen.to(tl.float32, bitcast=True)
    each = tl.where(each > 0, each, 1.0)
    which = tl.maximum(tl.minimum(tl.floor((point - before) / each), equals - 1), 0.0).to(tl.int32)

    low = tl.full((), 0, tl.int32)
    high = low + size - 1
    for _ in range(COLUMN_BITS):
        middle = (low + high) >> 1
        found = tl.sum(((bits == chosen) & (columns <= middle)).to(tl.int32), axis=0) > which
        low = tl.where(found, low, middle + 1)
        high = tl.where(found, middle, high)
    tl.store(drawn + row, high.to(tl.int64))
