"""What a sequence model remembers between two steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeGuard

import torch
from torch import Tensor
from torch.nn.functional import pad

Position = int | Tensor
"""How many tokens were read. A tensor [rows] where rows stand at places of their own. A tensor without dimensions (on
the device of the rest) where a step must do the same work whatever it is; that step reads one token, and caches have
room for it."""


def by_row(position: Position) -> TypeGuard[Tensor]:
    """Whether rows stand at places of their own."""
    return isinstance(position, Tensor) and position.dim() == 1


def places_from(position: Position, time: int, device: torch.device, dtype: torch.dtype = torch.long) -> Tensor:
    """The places position, position + 1, ... of the next `time` tokens: [time], or [rows, time]."""
    steps = torch.arange(time, device=device, dtype=dtype)
    return position.unsqueeze(1) + steps if by_row(position) else position + steps


@dataclass(frozen=True)
class History:
    """What rows have read, in caches that stay where they are while rows move: hypotheses share their beginnings.

    A row writes each step into its own row of the caches, and finds the steps before through `origins`.
    """

    caches: dict[str, Tensor]
    """Each [rows, heads, capacity, size]."""
    origins: Tensor
    """[rows, capacity]: step t of row r stands in row origins[r, t] of the caches."""

    @classmethod
    def of(cls, caches: dict[str, Tensor]) -> History:
        """Caches in which all that a row has read stands in the row itself."""
        rows, _, capacity, _ = next(iter(caches.values())).shape
        device = next(iter(caches.values())).device
        own = torch.arange(rows, device=device).unsqueeze(1).expand(rows, capacity)
        return cls(_changed(caches, Tensor.contiguous), own.contiguous())

    def own(self, step: Tensor) -> None:
        """Take note that all rows write this step into their own rows."""
        rows = torch.arange(len(self.origins), device=self.origins.device)
        self.origins.index_copy_(1, step.view(1), rows.unsqueeze(1))

    def reorder(self, index: Tensor) -> History:
        """As `State.reorder`. Only where there are more or fewer rows than before, caches are copied."""
        origins = self.origins.index_select(0, index)
        if len(index) == len(self.origins):
            return History(self.caches, origins)
        return History.of(_changed(self.caches, lambda cache: found(cache, origins)))

    def map(self, change: Callable[[Tensor], Tensor]) -> History:
        """The same with `change` applied to every tensor."""
        return History(_changed(self.caches, change), change(self.origins))


def found(cache: Tensor, origins: Tensor) -> Tensor:
    """A cache of a history with the steps of each row in its own row: [rows, heads, capacity, size]."""
    steps = torch.arange(cache.size(2), device=cache.device)
    return cache.transpose(1, 2)[origins, steps].transpose(1, 2)


class State(dict[str, Tensor]):
    """Named tensors, batch first: hidden states, key-value caches, windows of recent words.

    All rows stand at the same `position`, the number of tokens read so far, or each at its own: see `alone`.

    Rows may be hypotheses about sources, several for each. What they know of their source (an encoder's memory, its
    keys) is `shared`: tensors with one row per source. Usually every source has equally many rows, one after the other;
    where that is not so, `owners` [rows] says which source is whose. Reordering rows moves nothing that is shared; a
    source goes when its last row does.

    Caches of what the rows have read are among their tensors; where searches are recorded, in a `history`.

    A state is *consumed* by the step that reads it: caches are written in place, so go on with the state that comes
    back, and `reorder` (which copies rows) before following two branches from one point.
    """

    def __init__(
        self,
        tensors: dict[str, Tensor] | None = None,
        position: Position = 0,
        shared: dict[str, Tensor] | None = None,
        owners: Tensor | None = None,
        history: History | None = None,
    ) -> None:
        super().__init__(tensors or {})
        self.position = position
        self.shared = shared or {}
        self.owners = owners
        self.history = history

    @property
    def rows(self) -> int:
        """How many sequences there are."""
        return len(self.history.origins if self.history else next(iter(self.values())))

    def after(self, tensors: dict[str, Tensor], tokens: int) -> State:
        """The state of the same rows after reading so many tokens more: new tensors, the same sources."""
        return State(tensors, self.position + tokens, self.shared, self.owners, self.history)

    def map(self, change: Callable[[Tensor], Tensor]) -> State:
        """A new state with `change` applied to every tensor."""
        owners = None if self.owners is None else change(self.owners)
        history = self.history and self.history.map(change)
        position = change(self.position) if by_row(self.position) else self.position
        return State(_changed(self, change), position, _changed(self.shared, change), owners, history)

    def map_rows(self, change: Callable[[Tensor], Tensor]) -> State:
        """A new state with `change` applied to what rows have of their own."""
        return State(_changed(self, change), self.position, self.shared, self.owners, self.history)

    def reorder(self, index: Tensor, sources: Tensor | None = None) -> State:
        """Row i of the new state is row `index[i]` of this one; rows may repeat or be left out.

        A search that knows which sources it goes on with, in order and with equally many rows each, says so: on a GPU,
        finding it out would have to wait for all that is under way.
        """
        rows = _changed(self, lambda tensor: tensor.index_select(0, index))
        history = self.history and self.history.reorder(index)
        position = self.position.index_select(0, index) if by_row(self.position) else self.position
        if not self.shared:
            return State(rows, position, history=history)
        owners = None
        if sources is None:
            sources, owners = self._owners().index_select(0, index).unique(return_inverse=True)
            each, rest = divmod(len(owners), len(sources))
            if rest == 0 and torch.equal(owners, _in_order(len(sources), each, owners.device)):
                owners = None
        shared = self.shared
        if len(sources) < self._sources():
            shared = _changed(shared, lambda tensor: tensor.index_select(0, sources))
        return State(rows, position, shared, owners, history)

    # ------------------------------------------------------------------------------------- rows that come and go

    def alone(self) -> State:
        """The same rows, each at a place of its own and with a source of its own: so they can be joined by others.

        Their next step looks at whole caches, and a mask says what of them counts.
        """
        state, position = self.apart(), self.position
        if not by_row(position):
            device = next(iter(self.values())).device
            state.position = torch.full((self.rows,), int(position), device=device)
        return state

    def apart(self) -> State:
        """The same rows, each with a source of its own."""
        return State(dict(self), self.position, {name: self.of_rows(name) for name in self.shared})

    @staticmethod
    def join(states: Sequence[State]) -> State:
        """The rows of several states of one model, one after the other; all `alone`, or all `apart` and at one place.

        What is shorter in one state than in another is filled up with zeros: the room of caches, and places of sources,
        where the mask is False then.
        """
        first = states[0]
        rows = {name: _stacked([state[name] for state in states]) for name in first}
        shared = {name: _stacked([state.shared[name] for state in states]) for name in first.shared}
        positions = [state.position for state in states]
        if all(map(by_row, positions)):
            return State(rows, torch.cat([torch.as_tensor(position) for position in positions]), shared)
        if len(set(positions)) > 1:
            raise ValueError("these rows stand at different places, and not each at its own: see `alone`")
        return State(rows, first.position, shared)

    def put_rows(self, index: Tensor, others: State) -> None:
        """Write other rows over those of this index, in place; what is shorter is filled up as in `join`."""
        for mine, theirs in ((self, others), (self.shared, others.shared)):
            for name, tensor in theirs.items():
                shape = _largest([mine[name], tensor])
                mine[name] = _filled(mine[name], shape)
                mine[name][index] = _filled(tensor, shape)
        if by_row(self.position) and by_row(others.position):
            self.position[index] = others.position

    # -------------------------------------------------------------------------------------------------- sources

    def of_sources(self, name: str) -> Tensor:
        """A shared tensor: one row per source where every source has as many rows, one after the other (attention folds
        them, see `share`); else one for each row."""
        tensor = self.shared[name]
        return tensor if self.owners is None else tensor.index_select(0, self.owners)

    def of_rows(self, name: str) -> Tensor:
        """A shared tensor, repeated so that there is one row for each row of the state."""
        tensor, owners = self.shared[name], self._owners()
        return tensor if len(owners) == len(tensor) and self.owners is None else tensor.index_select(0, owners)

    def _sources(self) -> int:
        return len(next(iter(self.shared.values())))

    def _owners(self) -> Tensor:
        if self.owners is not None:
            return self.owners
        device = next(iter(self.shared.values())).device
        return _in_order(self._sources(), self.rows // self._sources(), device)

    def detach(self) -> State:
        """The same values, cut off from the graph that made them (truncated back-propagation through time)."""
        return self.map(torch.Tensor.detach)

    def part(self, prefix: str) -> State:
        """The tensors under `prefix.`, as the state of one layer."""
        history = self.history and History(_under(self.history.caches, prefix), self.history.origins)
        return State(_under(self, prefix), self.position, _under(self.shared, prefix), self.owners, history)

    def put(self, prefix: str, inner: State) -> None:
        """Store a layer's state under `prefix.`."""
        for name, tensor in inner.items():
            self[f"{prefix}.{name}"] = tensor
        for name, tensor in inner.shared.items():
            self.shared[f"{prefix}.{name}"] = tensor
        self.owners = inner.owners if self.owners is None else self.owners
        if inner.history:
            caches = dict(self.history.caches) if self.history else {}
            caches |= {f"{prefix}.{name}": cache for name, cache in inner.history.caches.items()}
            self.history = History(caches, inner.history.origins)


def _in_order(sources: int, each: int, device: torch.device) -> Tensor:
    """0, 0, ..., 1, 1, ...: the owners of rows of which each source has equally many."""
    return torch.arange(sources, device=device).repeat_interleave(each)


def _filled(tensor: Tensor, shape: Sequence[int]) -> Tensor:
    """The tensor with zeros behind what it has, in all dimensions but the first as large as this."""
    room = [size for wide, now in zip(shape, tensor.shape[1:], strict=True) for size in (wide - now, 0)]
    return pad(tensor, room[::-1]) if any(room) else tensor


def _largest(tensors: Sequence[Tensor]) -> list[int]:
    """The largest size in each dimension but the first."""
    return [max(sizes) for sizes in zip(*(tensor.shape[1:] for tensor in tensors), strict=True)]


def _stacked(tensors: Sequence[Tensor]) -> Tensor:
    """Rows of tensors one after the other, each filled up to the largest."""
    shape = _largest(tensors)
    return torch.cat([_filled(tensor, shape) for tensor in tensors])


def _changed(tensors: dict[str, Tensor], change: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    return {name: change(tensor) for name, tensor in tensors.items()}


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    start = len(prefix) + 1
    return {name[start:]: tensor for name, tensor in tensors.items() if name.startswith(prefix + ".")}
