"""Caches that grow along the time axis: keys, values, inputs of the words read so far."""

from __future__ import annotations

import torch
from torch import Tensor

SMALLEST = 32  # the first capacity when a cache begins to grow word by word


def extend(cache: Tensor, new: Tensor, position: int) -> Tensor:
    """cache [..., capacity, size], of which `position` steps are valid, and new [..., time, size] -> the longer cache.

    Without gradients the new steps are written in place and a full cache doubles its capacity, so that a step costs
    the same however long the sequence is. With gradients, nothing may be overwritten and the parts are joined anew.
    """
    if position == 0:
        return new
    if torch.is_grad_enabled():
        return torch.cat([cache[..., :position, :], new], dim=-2)
    end = position + new.size(-2)
    capacity = cache.size(-2)
    if end > capacity:
        larger = cache.new_empty(*cache.shape[:-2], max(end, 2 * capacity, SMALLEST), cache.size(-1))
        larger[..., :position, :] = cache[..., :position, :]
        cache = larger
    cache[..., position:end, :] = new
    return cache
