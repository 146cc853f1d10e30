"""From scores to losses and slopes of a cross-entropy, in the place of the scores: read twice, written once."""

from __future__ import annotations

import torch
import triton
import triton.language as tl
from torch import Tensor

LONG = 1 << 14  # columns of a row from which on fewer rows are worked on at once, so that a GPU's cache holds them


def losses_and_slopes(scores: Tensor, targets: Tensor, count: int, smoothing: float, cap: float) -> Tensor:
    """scores z [rows, columns] in bfloat16, float16 or float32, those of a row side by side, and targets y [rows] below
    `count` -> the losses [rows] in float32; the scores are written over with their slopes. With s = z, or
    s = c · tanh(z / c) where there is a cap c, and m the largest of a row,

        log Z = m + log Σ_w exp(s_w - m),    p_w = exp(s_w - log Z)
        loss = (1 - ε) · (log Z - s_y) + ε/V · Σ_w (log Z - s_w)
        slope of z_w = (p_w - ε/V - (1 - ε) · [w = y]) · (1 - tanh² (z_w / c))

    ε is `smoothing`, V is `count`; columns beyond have probability 0 and slope 0, whatever their scores are.

    A program takes a row. Each of its lanes has a largest score and a sum of its own, and a new score s costs one
    exponential e = exp(-|s - m|), whichever is larger: Σ becomes Σ · e + 1 where it is s, and Σ + e where it is m. The
    second time the row is in the cache, and each score is read and written by the same lane.
    """
    rows, width = scores.shape
    losses = torch.empty(rows, dtype=torch.float32, device=scores.device)
    warps = 8 if width <= LONG else 16
    block = min(256 * warps, triton.next_power_of_2(width))
    numbers = (width, count, scores.stride(0), targets.stride(0), smoothing / count, 1.0 - smoothing, cap or 1.0)
    if rows:
        _slope[(rows,)](
            scores, targets, losses, *numbers, smoothed=smoothing > 0, capped=cap > 0, block=block, num_warps=warps
        )
    return losses


@triton.jit  # type: ignore[untyped-decorator]
def _slope(  # type: ignore[no-untyped-def]
    scores,
    targets,
    losses,
    width,
    count,
    stride,
    apart,
    even,
    rest,
    cap,
    smoothed: tl.constexpr,
    capped: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    lanes = tl.arange(0, block)
    line = scores + row * stride
    target = tl.load(targets + row * apart)
    right = tl.load(line + target).to(tl.float32)  # before anything is written
    if capped:
        right = _bent(right, cap)[0]

    # The largest begins with the lowest number: -inf would differ from -inf by something that is not a number.
    largest = tl.full((block,), -3.4028234e38, tl.float32)
    total = tl.zeros((block,), tl.float32)
    for first in range(0, width, block):
        columns = first + lanes
        score = tl.load(line + columns, mask=columns < width, other=0.0).to(tl.float32)
        if capped:
            score = _bent(score, cap)[0]
        score = tl.where(columns < count, score, float("-inf"))
        less = tl.exp(-tl.abs(score - largest))
        total = tl.where(score > largest, total * less + 1.0, total + less)
        largest = tl.maximum(largest, score)
    top = tl.max(largest, axis=0)
    total = tl.sum(total * tl.exp(largest - top), axis=0)
    share = 1.0 / total
    normaliser = tl.log(total)  # kept apart from the largest: their sum would lose digits

    missed = tl.zeros((block,), tl.float32)  # Σ_w (log Z - s_w)
    for first in range(0, width, block):
        columns = first + lanes
        score = tl.load(line + columns, mask=columns < width, other=0.0).to(tl.float32)
        steepness = 1.0
        if capped:
            score, steepness = _bent(score, cap)
        slope = tl.exp(score - top) * share - tl.where(columns == target, rest, 0.0)
        if smoothed:
            slope -= even
            missed += tl.where(columns < count, top - score + normaliser, 0.0)
        slope = tl.where(columns < count, slope * steepness, 0.0)
        tl.store(line + columns, slope.to(scores.dtype.element_ty), mask=columns < width)
    loss = rest * (top - right + normaliser)
    if smoothed:
        loss += even * tl.sum(missed, axis=0)
    tl.store(losses + row, loss)


@triton.jit
def _bent(score, cap):  # type: ignore[no-untyped-def]
    """c · tanh(z / c) and its slope 1 - tanh², from one exponential: with e = exp(-2 |z| / c), tanh |z| / c is
    (1 - e) / (1 + e), and the slope is 4 e / (1 + e)², which keeps its digits where tanh is all but 1."""
    small = tl.exp(-2.0 * tl.abs(score / cap))
    share = 1.0 / (1.0 + small)
    bent = cap * (1.0 - small) * share
    return tl.where(score < 0, -bent, bent), 4.0 * small * share * share
