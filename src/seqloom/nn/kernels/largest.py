"""The few largest of each row, in one pass over memory."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LONGEST = 1 << 16  # columns that the registers of one program hold
MOST = 64  # to be found, one after the other


def largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row of values [rows, size], largest first, and where they stand; among equals the
    first wins. Where a row has something that is not a number, that is what its largest is."""
    rows, size = values.shape
    best = values.new_empty(rows, count)
    places = torch.empty(rows, count, dtype=torch.long, device=values.device)
    block = triton.next_power_of_2(size)
    warps = min(max(block // 512, 1), 16)
    lowest = torch.finfo(torch.float32).min  # numbers are passed to kernels as float32
    _largest[(rows,)](values, best, places, size, values.stride(0), lowest, count, block, num_warps=warps)
    return best, places


@triton.jit  # type: ignore[untyped-decorator]
def _largest(  # type: ignore[no-untyped-def]
    values, best, places, size, stride, lowest, count: tl.constexpr, block: tl.constexpr
):
    row = tl.program_id(0).to(tl.int64)
    columns = tl.arange(0, block)
    left = tl.load(values + row * stride + columns, mask=columns < size, other=float("-inf"))
    not_a_number = tl.max((left != left).to(tl.int32), axis=0) > 0
    # -inf marks what is taken already, so an impossible value that is still there becomes the lowest number.
    left = tl.where((columns < size) & (left < lowest), lowest, left)
    for rank in range(count):
        value, where = tl.max(left, axis=0, return_indices=True, return_indices_tie_break_left=True)
        shown = tl.where(value <= lowest, float("-inf"), value)
        tl.store(best + row * count + rank, tl.where(not_a_number, float("nan"), shown))
        tl.store(places + row * count + rank, where.to(tl.int64))
        left = tl.where(columns == where, float("-inf"), left)
