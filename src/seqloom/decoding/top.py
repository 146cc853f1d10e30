"""The largest of many numbers, in an order that never depends on the device or on the rest of the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from seqloom.errors import SeqloomError

MANY = 1 << 16  # sums from which on it pays not to compute them all


def top(values: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` largest of each row of `values` [rows, size], largest first, and where they stand.

    Among equals the first wins. `torch.topk` leaves open which of several equals it returns, so it is used to find the
    largest, but not to order them; a row whose last place is contested by equals is sorted as a whole.
    """
    if count < values.shape[1]:
        best, places = values.topk(count + 1, dim=1)
        contested = (best[:, -2] == best[:, -1]) & (best[:, -1] > -torch.inf)
        if not contested.any():
            places = places[:, :count].sort(dim=1).values
            best, order = values.gather(1, places).sort(dim=1, descending=True, stable=True)
            return best, places.gather(1, order)
    best, places = values.sort(dim=1, descending=True, stable=True)
    return best[:, :count], places[:, :count]


def top_sums(totals: Tensor, terms: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`top` of all totals[p, b] + terms[p * beam + b, v], for each p; places count through the beam's words in order.

    totals: [prompts, beam], float64; terms: [prompts * beam, vocabulary].

    Most of so many sums are hopeless, and on the processor adding and comparing them all is what takes the time. The
    largest terms of some stretches of the vocabulary are found fast; the last of the `count` best among those is a
    bound below which nothing can be among the best, and only what reaches it is added up.
    """
    prompts, beam = totals.shape
    vocabulary = terms.shape[1]
    stretches = -(-2 * (count + 1) // beam)
    if not terms.is_cuda and beam * vocabulary >= MANY and stretches <= vocabulary:
        size = vocabulary // stretches
        largest = terms[:, : stretches * size].unflatten(1, (stretches, size)).amax(2)
        sums = (totals.view(-1, 1) + largest).view(prompts, beam * stretches)
        bounds = sums.topk(count + 1, dim=1).values[:, -1:]  # [prompts, 1]
        if bounds.isfinite().all():
            return _reaching(bounds, totals, terms, count)
    return top((totals.view(-1, 1) + terms).view(prompts, beam * vocabulary), count)


def _reaching(bounds: Tensor, totals: Tensor, terms: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """`top_sums` among the sums that reach the bounds; there are more than `count` for each prompt."""
    prompts, beam = totals.shape
    needed = bounds - totals
    needed = (needed - 1e-6 * needed.abs()).to(terms.dtype)  # a little less, for it is rounded
    rows, words = (terms >= needed.view(-1, 1)).nonzero(as_tuple=True)
    sums = totals.view(-1)[rows] + terms[rows, words]
    owners = rows // beam
    sizes = torch.bincount(owners, minlength=prompts)
    columns = torch.arange(len(rows)) - (sizes.cumsum(0) - sizes)[owners]
    values = torch.full((prompts, int(sizes.max())), -torch.inf, dtype=totals.dtype)
    places = torch.zeros(values.shape, dtype=torch.long)
    values[owners, columns] = sums
    places[owners, columns] = rows % beam * terms.shape[1] + words
    best, order = top(values, count)
    return best, places.gather(1, order)


def refuse_nan(log_probs: Tensor) -> None:
    """Stop when a model's log-probabilities are not numbers, rather than generate nonsense."""
    if log_probs.isnan().any():
        raise SeqloomError("the model's probabilities are not numbers (NaN): its training diverged; train it again")
