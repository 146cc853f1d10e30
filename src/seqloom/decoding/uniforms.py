"""Random numbers that are a function of their place, not of what was drawn before them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def uniforms(seed: int | Sequence[int], sequences: Tensor, steps: Tensor) -> Tensor:
    """One number in (0, 1) for each (seed, sequence, step); float64, of the shape that the two tensors broadcast to.
    There may be a seed for each sequence.

    The three integers go one after the other through the mixing function of SplitMix64 (Steele, Lea & Flood 2014).
    The 52 highest bits, and half a unit, keep the number away from 0 and 1.
    """
    return uniforms_at(streams(seed, sequences), steps)


def streams(seed: int | Sequence[int], sequences: Tensor) -> Tensor:
    """What the numbers of each sequence are made of, whatever its step: int64, of the shape of `sequences`."""
    if isinstance(seed, int):
        seeds = torch.full_like(sequences, _signed(seed))
    else:
        seeds = torch.tensor([_signed(each) for each in seed], device=sequences.device)
    return _mix(_mix(seeds) + sequences)


def uniforms_at(streams: Tensor, steps: Tensor) -> Tensor:
    """The numbers of some steps, of the shape that the two tensors broadcast to."""
    return (_shift(_mix(streams + steps), 12).double() + 0.5) * 2.0**-52


def _mix(numbers: Tensor) -> Tensor:
    """The output that SplitMix64 gives from the state `numbers`; arithmetic is modulo 2^64."""
    numbers = numbers + _GOLDEN
    numbers = (numbers ^ _shift(numbers, 30)) * _FIRST
    numbers = (numbers ^ _shift(numbers, 27)) * _SECOND
    return numbers ^ _shift(numbers, 31)


def _shift(numbers: Tensor, count: int) -> Tensor:
    """Logical shift to the right; torch's own repeats the sign bit."""
    return (numbers >> count) & ((1 << (64 - count)) - 1)


def _signed(number: int) -> int:
    """The 64-bit signed integer with the same bits."""
    number &= (1 << 64) - 1
    return number - (1 << 64) if number >> 63 else number


_GOLDEN = _signed(0x9E3779B97F4A7C15)
_FIRST = _signed(0xBF58476D1CE4E5B9)
_SECOND = _signed(0x94D049BB133111EB)
