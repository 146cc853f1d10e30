"""The largest of many numbers, in an order that never depends on the device or on the rest of the batch."""

from __future__ import annotations

import torch
from torch import Tensor

from seqloom.errors import SeqloomError


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


def refuse_nan(log_probs: Tensor) -> None:
    """Stop when a model's log-probabilities are not numbers, rather than generate nonsense."""
    if log_probs.isnan().any():
        raise SeqloomError("the model's probabilities are not numbers (NaN): its training diverged; train it again")
