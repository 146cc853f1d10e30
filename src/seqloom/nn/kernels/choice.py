"""The choice of the next token and what is kept of it, in two kernels: many programs look at a row, one decides.

A row of scores s is cut into blocks. Of each block b `survey` finds

    m_b = max s_i,   z_b = Σ e^(s_i - m_b);   and of what may be said:  l_b = max s_i,   w_b = Σ e^((s_i - l_b) / T)

`write_down` joins them: log p_i = s_i - M - log Σ_b z_b e^(m_b - M) with M = max m_b; the block that a draw falls into
is where the sums of w_b e^((l_b - max l) / T) pass the share u of all, and only there the columns are looked at again.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

BLOCK = 4096
"""Columns of a program. No more threads than columns: a program changes what it has read, which none may read later."""


class Survey(NamedTuple):
    """What is known of the blocks of each row, [rows, blocks], all but `ending`."""

    highest: Tensor
    """m_b."""
    total: Tensor
    """z_b."""
    largest: Tensor
    """l_b."""
    weight: Tensor
    """w_b; not set where nothing is drawn."""
    place: Tensor
    """The first column whose score is l_b."""
    ending: Tensor
    """[rows]: the score of the token that ends a text."""


def survey(
    scores: Tensor, barred: tuple[int, int], ending: int, lengths: Tensor, shortest: int, inverse: float
) -> Survey:
    """A survey of scores [rows, vocabulary], in which, in place, -inf is written over what may not be said: the columns
    from barred[0] up to barred[1], and the column `ending` of rows whose lengths [rows] + 1 are below `shortest`.

    inverse: 1 / T of what is drawn, 0 where nothing is.
    """
    rows, size = scores.shape
    blocks = triton.cdiv(size, BLOCK)
    highest, total, largest, weight = torch.empty(4, rows, blocks, device=scores.device).unbind()
    place = torch.empty(rows, blocks, dtype=torch.long, device=scores.device)
    endings = torch.empty(rows, device=scores.device)
    found = Survey(highest, total, largest, weight, place, endings)
    _survey[(rows, blocks)](
        scores,
        tuple(found),
        lengths,
        size,
        scores.stride(0),
        *barred,
        ending,
        shortest,
        inverse,
        blocks,
        inverse > 0,
        BLOCK,
        num_warps=8,
    )
    return found


@triton.jit  # type: ignore[untyped-decorator]
def _survey(  # type: ignore[no-untyped-def]
    scores,
    found,
    lengths,
    size,
    stride,
    barred_from,
    barred_to,
    ending,
    shortest,
    inverse,
    blocks,
    draws: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    number = tl.program_id(1)
    highest, total, largest, weight, place, endings = found
    columns = number * block + tl.arange(0, block)
    inside = columns < size
    score = tl.load(scores + row * stride + columns, mask=inside, other=float("-inf")).to(tl.float32)
    top = tl.max(score, axis=0)
    level = tl.where(top > float("-inf"), top, 0.0)  # what is not a number makes the sum none
    here = row * blocks + number
    tl.store(highest + here, top)
    tl.store(total + here, tl.sum(tl.exp(score - level), axis=0))

    too_early = tl.load(lengths + row) + 1 < shortest
    is_ending = columns == ending
    barred = (columns >= barred_from) & (columns < barred_to) | (is_ending & too_early)
    tl.store(endings + row + columns * 0, score, mask=is_ending & inside)
    tl.store(scores + row * stride + columns, float("-inf"), mask=barred & inside)
    score = tl.where(barred, float("-inf"), score)
    top, where = tl.max(score, axis=0, return_indices=True, return_indices_tie_break_left=True)
    tl.store(largest + here, top)
    tl.store(place + here, tl.minimum(number * block + where, size - 1).to(tl.int64))
    if draws:
        level = tl.where(top > float("-inf"), top, 0.0)
        tl.store(weight + here, tl.sum(tl.exp((score - level) * inverse), axis=0))


def write_down(
    scores: Tensor,
    known: Survey,
    given: Tensor | None,
    inverse: float,
    normalised: bool,
    own: dict[str, Tensor],
    ending: int,
    unknown: int,
    shortest: int,
) -> None:
    """Choose a token for each row and write it and its log p down, in place, as `Writing.choose` does.

    scores: those that were surveyed; the scores of a model whose log p they are where they are `normalised`.
    given: [rows], the tokens, where they are chosen already; else they are the likeliest where `inverse` is 0, and
        drawn where it is 1 / T.
    own: what the rows of `Writing` keep.
    """
    rows, size = scores.shape
    blocks = known.total.size(1)
    kept = tuple(own[name] for name in ("token", "length", "rest", "uniforms", "place", "written"))
    sizes = (size, scores.stride(0), blocks, own["uniforms"].size(1))
    way = (own["rest"].size(1), given is not None, inverse > 0, normalised, triton.next_power_of_2(blocks), BLOCK)
    given = known.place if given is None else given
    _write_down[(rows,)](
        scores, tuple(known), given, kept, *sizes, ending, unknown, shortest, inverse, *way, num_warps=8
    )


@triton.jit  # type: ignore[untyped-decorator]
def _write_down(  # type: ignore[no-untyped-def]
    scores,
    known,
    given,
    kept,
    size,
    stride,
    blocks,
    room,
    ending,
    unknown,
    shortest,
    inverse,
    width: tl.constexpr,
    is_given: tl.constexpr,
    draws: tl.constexpr,
    normalised: tl.constexpr,
    block_count: tl.constexpr,
    block: tl.constexpr,
):
    row = tl.program_id(0).to(tl.int64)
    highest, total, largest, weight, place, endings = known
    tokens, lengths, rest, uniforms, nexts, written = kept
    length = tl.load(lengths + row)
    here = tl.load(nexts + row)
    numbers = tl.arange(0, block_count)
    real = numbers < blocks
    at = row * blocks + numbers

    top = tl.load(highest + at, mask=real, other=float("-inf"))
    level = tl.max(top, axis=0)
    level = tl.where(level > float("-inf"), level, 0.0)
    whole = tl.sum(tl.load(total + at, mask=real, other=0.0) * tl.exp(top - level), axis=0)
    if normalised:
        normaliser = tl.where(whole != whole, whole, 0.0)
    else:
        normaliser = level + tl.log(whole)

    top = tl.load(largest + at, mask=real, other=float("-inf"))
    best = tl.max(top, axis=0)
    if is_given:
        chosen = tl.load(given + row)
    elif draws:
        level = tl.where(best > float("-inf"), best, 0.0)
        share = tl.load(weight + at, mask=real, other=0.0) * tl.exp((top - level) * inverse)
        share = tl.where(share > 0, share, 0.0).to(tl.float64)
        point = tl.load(uniforms + row * room + here) * tl.sum(share, axis=0)
        passed = (tl.cumsum(share, axis=0) > point) & (share > 0)
        last = tl.max(tl.where(share > 0, numbers, 0), axis=0)
        which = tl.min(tl.where(passed, numbers, last), axis=0)
        ahead = tl.sum(tl.where(numbers < which, share, 0.0), axis=0)
        columns = which * block + tl.arange(0, block)
        score = tl.load(scores + row * stride + columns, mask=columns < size, other=float("-inf")).to(tl.float32)
        each = tl.exp((score - level) * inverse).to(tl.float64)
        # A sum that misses the border by its rounding leaves the last column that is possible.
        passed = (ahead + tl.cumsum(each, axis=0) > point) & (each > 0)
        last = tl.max(tl.where(each > 0, columns, 0), axis=0)
        chosen = tl.min(tl.where(passed, columns, last), axis=0).to(tl.int64)
    else:
        which = tl.min(tl.where(top == best, numbers, blocks - 1), axis=0)
        chosen = tl.load(place + row * blocks + which)
    score = tl.load(scores + row * stride + chosen).to(tl.float32)
    waits_in_vain = (length + 1 < shortest) & (best == float("-inf"))  # it may end, for it has nothing else to say
    chosen = tl.where(waits_in_vain, ending, chosen)
    likely = tl.where(waits_in_vain, tl.load(endings + row), score) - normaliser
    if width > 0:
        told = tl.load(rest + row * width + tl.minimum(tl.maximum(length + width, 0), width - 1))
        chosen = tl.where(length < 0, told, chosen)
        likely = tl.where(length < 0, 0.0, likely)

    tl.debug_barrier()  # all threads have read what is written over now
    tl.store(written + (row * room + here) * 2, chosen.to(tl.float64))
    tl.store(written + (row * room + here) * 2 + 1, likely.to(tl.float64))
    tl.store(lengths + row, length + 1)
    tl.store(nexts + row, here + 1)
    silent = (chosen == ending) | (likely == float("-inf"))
    tl.store(tokens + row, tl.where(silent, unknown, chosen))
