"""A draw from the likeliest columns of each row, in one pass over memory and without sorting."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LONGEST = 1 << 16  # columns that the registers of one program hold
WIDEST = 2048  # columns of a line
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
    width = min(triton.next_power_of_2(size), WIDEST)
    way = (width, *_three_powers(triton.cdiv(size, width)))
    strides = (log_probs.stride(0), uniforms.stride(0))
    warps = max(width // 128, 1)
    _drawn[(rows,)](log_probs, uniforms, columns, size, *strides, inverse, mass, *way, num_warps=warps)
    return columns


def _three_powers(count: int) -> tuple[int, int, int]:
    """Powers of two that add up to `count`, or more than that if they must; none is 0."""
    first = 1 << count.bit_length() - 1
    rest = count - first
    second = 1 << max(rest, 1).bit_length() - 1
    return first, second, triton.next_power_of_2(max(rest - second, 1))


@triton.jit  # type: ignore[untyped-decorator]
def _columns(first, lines: tl.constexpr, width: tl.constexpr):  # type: ignore[no-untyped-def]
    """The columns of some lines of a row, from line `first` on: [lines, width]."""
    return (first + tl.arange(0, lines))[:, None] * width + tl.arange(0, width)[None, :]


@triton.jit  # type: ignore[untyped-decorator]
def _scores(row, first, size, lines: tl.constexpr, width: tl.constexpr):  # type: ignore[no-untyped-def]
    columns = _columns(first, lines, width)
    return tl.load(row + columns, mask=columns < size, other=float("-inf")).to(tl.float32)


@triton.jit
def _possible(score):  # type: ignore[no-untyped-def]
    return tl.where(score != score, float("-inf"), score)


@triton.jit
def _weights(score, likeliest, is_strange, inverse):  # type: ignore[no-untyped-def]
    weight = tl.where(score > float("-inf"), tl.exp((score - likeliest) * inverse), 0.0)
    return tl.where(is_strange, (score != score).to(tl.float32), weight)


@triton.jit
def _bits(weight):  # type: ignore[no-untyped-def]
    return weight.to(tl.int32, bitcast=True)


@triton.jit
def _largest(one, two, three):  # type: ignore[no-untyped-def]
    lines = tl.maximum(tl.maximum(tl.max(one, axis=0), tl.max(two, axis=0)), tl.max(three, axis=0))
    return tl.max(lines, axis=0)


@triton.jit
def _sum(one, two, three):  # type: ignore[no-untyped-def]
    return tl.sum(tl.sum(one, axis=0) + tl.sum(two, axis=0) + tl.sum(three, axis=0), axis=0)


@triton.jit
def _above(one, two, three, border):  # type: ignore[no-untyped-def]
    """The sum of the weights whose bits are above this."""
    return _sum(
        tl.where(_bits(one) > border, one, 0.0),
        tl.where(_bits(two) > border, two, 0.0),
        tl.where(_bits(three) > border, three, 0.0),
    )


@triton.jit
def _equal(weight, columns, bits, last):  # type: ignore[no-untyped-def]
    """1 for a weight with these bits up to column `last`, else 0."""
    return ((_bits(weight) == bits) & (columns <= last)).to(tl.int32)


@triton.jit  # type: ignore[untyped-decorator]
def _count(  # type: ignore[no-untyped-def]
    one, two, three, bits, last, width: tl.constexpr, first: tl.constexpr, second: tl.constexpr, third: tl.constexpr
):
    """How many weights with these bits there are up to this column."""
    return _sum(
        _equal(one, _columns(0, first, width), bits, last),
        _equal(two, _columns(first, second, width), bits, last),
        _equal(three, _columns(first + second, third, width), bits, last),
    )


@triton.jit  # type: ignore[untyped-decorator]
def _drawn(  # type: ignore[no-untyped-def]
    log_probs,
    uniforms,
    drawn,
    size,
    stride,
    apart,
    inverse,
    mass,
    width: tl.constexpr,
    first: tl.constexpr,
    second: tl.constexpr,
    third: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    start = log_probs + row * stride
    # Lines of one length in three parts, for registers come in powers of two, and they must hold the row.
    one = _scores(start, 0, size, first, width)
    two = _scores(start, first, size, second, width)
    three = _scores(start, first + second, size, third, width)
    likeliest = _largest(_possible(one), _possible(two), _possible(three))
    is_strange = _largest((one != one).to(tl.int32), (two != two).to(tl.int32), (three != three).to(tl.int32)) > 0
    one = _weights(one, likeliest, is_strange, inverse)
    two = _weights(two, likeliest, is_strange, inverse)
    three = _weights(three, likeliest, is_strange, inverse)

    # The smallest weight of the nucleus, and how many of those that are equal to it are still in it.
    needed = mass * _sum(one, two, three)
    largest = _largest(_bits(one), _bits(two), _bits(three))
    low = tl.full((), 0, tl.int32)
    high = largest
    for _ in range(BITS):
        middle = (low + high) >> 1
        reaches = _above(one, two, three, middle) >= needed
        low = tl.where(reaches, middle + 1, low)
        high = tl.where(reaches, high, middle)
    smallest = high
    before = _above(one, two, three, smallest)
    equals = _count(one, two, three, smallest, size - 1, width, first, second, third).to(tl.float32)
    each = smallest.to(tl.float32, bitcast=True)
    each = tl.where(each > 0, each, 1.0)
    kept = tl.minimum(tl.maximum(tl.ceil((needed - before) / each), 1.0), equals)

    # The weight that is drawn, and which of those that are equal to it.
    point = tl.load(uniforms + row * apart).to(tl.float32) * (before + kept * each)
    low = smallest
    high = largest
    for _ in range(BITS):
        middle = (low + high) >> 1
        passes = _above(one, two, three, middle) > point
        low = tl.where(passes, middle + 1, low)
        high = tl.where(passes, high, middle)
    chosen = high
    before = _above(one, two, three, chosen)
    equals = _count(one, two, three, chosen, size - 1, width, first, second, third).to(tl.float32)
    equals = tl.where(chosen == smallest, kept, equals)
    each = chosen.to(tl.float32, bitcast=True)
    each = tl.where(each > 0, each, 1.0)
    which = tl.maximum(tl.minimum(tl.floor((point - before) / each), equals - 1), 0.0).to(tl.int32)

    low = tl.full((), 0, tl.int32)
    high = low + size - 1
    for _ in range(COLUMN_BITS):
        middle = (low + high) >> 1
        found = _count(one, two, three, chosen, middle, width, first, second, third) > which
        low = tl.where(found, low, middle + 1)
        high = tl.where(found, middle, high)
    tl.store(drawn + row, high.to(tl.int64))
