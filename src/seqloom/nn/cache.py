"""Caches that grow along the time axis: keys, values, inputs of the words read so far."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import pad

from seqloom.nn.state import History, Position, State, by_row

ROOM = 8  # steps that a cache has room for, at least, when it grows
STRETCH = 64  # steps by which it grows where rows stand at places of their own


def extend(cache: Tensor, new: Tensor, position: Position) -> Tensor:
    """cache [..., capacity, size], of which `position` steps are valid, and new [..., time, size] -> the longer cache.

    Without gradients the new steps are written in place and a full cache grows by a quarter, so that few steps copy it.
    With gradients, nothing may be overwritten and the parts are joined anew. Rows at places of their own read one step.
    """
    if by_row(position):
        cache = reserve(cache, cache.size(-2), capacity(position))
        rows = torch.arange(len(cache), device=cache.device)
        cache.transpose(1, -2)[rows, position] = new.transpose(1, -2).squeeze(1)
        return cache
    if isinstance(position, Tensor):
        return cache.index_copy_(-2, position.view(1), new)
    if position == 0:
        return new
    if torch.is_grad_enabled():
        return torch.cat([cache[..., :position, :], new], dim=-2)
    end = position + new.size(-2)
    if end > cache.size(-2):
        room = max(ROOM, end // 4)  # no more: searches that reorder rows copy it too
        cache = reserve(cache, position, end + room)
    cache[..., position:end, :] = new
    return cache


def capacity(position: Tensor) -> int:
    """The steps of caches of rows that stand at these places, and read one more: enough for the farthest of them, in
    whole stretches. So what a row computes does not depend on others of its stretch."""
    return (int(position.max()) // STRETCH + 1) * STRETCH


def valid(cache: Tensor, end: Position) -> Tensor:
    """The first `end` steps of a cache; all of them where `end` is a tensor, and a mask says which count."""
    return cache if isinstance(end, Tensor) else cache[..., :end, :]


def reserve(cache: Tensor, position: Position, steps: int) -> Tensor:
    """The cache with room for `steps` steps at least, `position` of which are valid; zeros in the room."""
    if cache.size(-2) >= steps:
        return cache
    larger = cache.new_zeros(*cache.shape[:-2], steps, cache.size(-1))
    larger[..., :position, :] = cache[..., :position, :]
    return larger


def with_history(state: State, steps: int) -> State:
    """The state of a layer whose tensors are all caches, with these in a history that has room for `steps` steps."""
    if state.history is None:
        history = History.of({name: reserve(cache, state.position, steps) for name, cache in state.items()})
        return State({}, state.position, state.shared, state.owners, history)
    room = steps - state.history.origins.size(1)
    if room <= 0:
        return state
    caches = {name: reserve(cache, state.position, steps) for name, cache in state.history.caches.items()}
    history = History(caches, pad(state.history.origins, (0, room)))
    return State(dict(state), state.position, state.shared, state.owners, history)
