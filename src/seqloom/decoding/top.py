"""The largest of many numbers, in an order that never depends on the device or on the rest of the batch."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.errors import SeqloomError
from seqloom.nn.kernels import available

STRETCH = 64  # columns of which the processor finds the largest first: that is fast, and says where to look
MANY = 1 << 10  # columns from which on it pays


def top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row of `values` [rows, size], largest first, and where they stand.

    Among equals the first wins. `torch.topk` leaves open which of several equals it returns, so it is used to find the
    largest, but not to order them; rows whose last place is contested by equals are sorted as a whole. To ask whether
    there are any would make a GPU wait, which has a kernel of its own.
    """
    if available(values) and asks_nothing(values, count):
        from seqloom.nn.kernels import largest as kernel

        return kernel.largest(values, count)
    if count == values.shape[1]:
        return _sorted(values, count)
    largest, places = _some_largest(values, count + 1)
    places = places[:, :count].sort(dim=1).values
    best, order = values.gather(1, places).sort(dim=1, descending=True, stable=True)
    places = places.gather(1, order)
    contested = (largest[:, -2] == largest[:, -1]) & (largest[:, -1] > -torch.inf)
    if contested.any():
        best[contested], places[contested] = _sorted(values[contested], count)
    return best, places


def asks_nothing(values: Tensor, count: int) -> bool:
    """Whether `top` finds them without asking a GPU, and so without waiting for it: what is recorded must not."""
    if not available(values):
        return not values.is_cuda
    from seqloom.nn.kernels import largest as kernel

    return values.shape[1] <= kernel.LONGEST and count <= kernel.MOST


def only_top(values: Tensor, count: int) -> Tensor:
    """`values` [rows, size] where `top` finds them, -inf elsewhere; a GPU is asked nothing, however many there are."""
    if count >= values.shape[1]:
        return values
    last = values.topk(count, dim=1).values[:, -1:]
    equal = values == last
    room = count - (values > last).sum(1, keepdim=True)  # for those that are equal to the last
    return values.masked_fill((values < last) | (equal & (equal.cumsum(1) > room)), -torch.inf)


def _sorted(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    best, places = falling(values)
    return best[:, :count], places[:, :count]


def falling(values: Tensor) -> tuple[Tensor, Tensor]:
    """Each row of `values` [rows, size] from the largest number on, and where these stood; of equals, the first comes
    first, and before all what is not a number.

    On the processor, numbers and places are sorted together, as integers: ten times as fast as to sort pairs of them.
    """
    if values.device.type != "cpu" or values.dtype != torch.float32 or values.shape[1] < MANY:
        best, places = values.sort(dim=1, descending=True, stable=True)
        return best, places
    bits = (values + 0.0).view(torch.int32)  # -0 + 0 is 0
    rising = bits ^ ((bits >> 31) & 0x7FFFFFFF)  # in the order of the numbers: those below 0 have their bits reversed
    rising.masked_fill_(values.isnan(), 0x7FFFFFFF)
    keys = ((~rising).long() << 32) + torch.arange(values.shape[1])
    keys.numpy().sort(axis=1)
    places = keys & 0xFFFFFFFF
    return values.gather(1, places), places


def first_largest(values: Tensor) -> Tensor:
    """Where the largest of each row of `values` [rows, size] stands; of equals, the first."""
    if values.is_cuda or values.shape[1] < MANY:
        return values.argmax(1)
    stretches, rest = values.shape[1] // STRETCH, values.shape[1] % STRETCH
    largest = values[:, : stretches * STRETCH].unflatten(1, (stretches, STRETCH)).amax(2)
    start = largest.argmax(1) * STRETCH
    within = values.gather(1, start[:, None] + torch.arange(STRETCH))
    place = start + within.argmax(1)
    if not rest:
        return place
    ending = values[:, -rest:]
    later = ending.amax(1) > within.amax(1)
    return torch.where(later, stretches * STRETCH + ending.argmax(1), place)


def top_sums(totals: Tensor, terms: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`top` of all totals[p, b] + terms[p * beam + b, v], for each p; places count through the beam's words in order.

    totals: [prompts, beam], float64; terms: [prompts * beam, vocabulary].

    Only the largest `count` terms of a row can be among the largest sums, so that only those are added up.
    """
    prompts, beam = totals.shape
    vocabulary = terms.shape[1]
    largest, words = top(terms, min(count, vocabulary))
    words, order = words.sort(dim=1)  # in order of place, so that `top` prefers the first of equal sums
    sums = (totals.view(-1, 1) + largest.gather(1, order)).view(prompts, -1)
    best, columns = top(sums, count)
    places = (torch.arange(beam, device=words.device).repeat(prompts)[:, None] * vocabulary + words).view(prompts, -1)
    return best, places.gather(1, columns)


def _some_largest(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """As `topk`. The processor looks only at stretches whose largest is among the `count` largest of all stretches."""
    stretches = values.shape[1] // STRETCH
    if values.is_cuda or values.shape[1] < MANY or 2 * count > stretches:
        best = values.topk(count, dim=1)
        return best.values, best.indices
    largest = values[:, : stretches * STRETCH].unflatten(1, (stretches, STRETCH)).amax(2)
    starts = largest.topk(count, dim=1).indices * STRETCH
    columns = (starts[:, :, None] + torch.arange(STRETCH)).flatten(1)
    ending = torch.arange(stretches * STRETCH, values.shape[1]).expand(len(values), -1)
    columns = torch.cat([columns, ending], dim=1)
    best = values.gather(1, columns).topk(count, dim=1)
    return best.values, columns.gather(1, best.indices)


def refuse_nan(not_a_number: Tensor | NDArray[np.bool_]) -> None:
    """Stop when some of a model's log-probabilities are not numbers, rather than generate nonsense."""
    if not_a_number.any():
        raise SeqloomError("the model's probabilities are not numbers (NaN): its training diverged; train it again")
