"""What a sequence model remembers between two steps."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Position = int | Tensor
"""How many tokens were read. A tensor (without dimensions, on the device of the rest) where a step must do the same
work whatever it is; that step reads one token, and caches have room for it."""


class State(dict[str, Tensor]):
    """Named tensors, batch first: hidden states, key-value caches, windows of recent words.

    All rows stand at the same `position`: the number of tokens read so far.

    Rows may be hypotheses about sources, several for each. What they know of their source (an encoder's memory, its
    keys) is `shared`: tensors with one row per source. Usually every source has equally many rows, one after the other;
    where that is not so, `owners` [rows] says which source is whose. Reordering rows moves nothing that is shared; a
    source goes when its last row does.

    A state is *consumed* by the step that reads it: caches are written in place, so go on with the state that comes
    back, and `reorder` (which copies rows) before following two branches from one point.
    """

    def __init__(
        self,
        tensors: dict[str, Tensor] | None = None,
        position: Position = 0,
        shared: dict[str, Tensor] | None = None,
        owners: Tensor | None = None,
    ) -> None:
        super().__init__(tensors or {})
        self.position = position
        self.shared = shared or {}
        self.owners = owners

    def after(self, tensors: dict[str, Tensor], tokens: int) -> State:
        """The state of the same rows after reading so many tokens more: new tensors, the same sources."""
        return State(tensors, self.position + tokens, self.shared, self.owners)

    def map(self, change: Callable[[Tensor], Tensor]) -> State:
        """A new state with `change` applied to every tensor."""
        owners = None if self.owners is None else change(self.owners)
        return State(_changed(self, change), self.position, _changed(self.shared, change), owners)

    def map_rows(self, change: Callable[[Tensor], Tensor]) -> State:
        """A new state with `change` applied to what rows have of their own."""
        return State(_changed(self, change), self.position, self.shared, self.owners)

    def reorder(self, index: Tensor, sources: Tensor | None = None) -> State:
        """Row i of the new state is row `index[i]` of this one; rows may repeat or be left out.

        A search that knows which sources it goes on with, in order and with equally many rows each, says so: on a GPU,
        finding it out would have to wait for all that is under way.
        """
        rows = _changed(self, lambda tensor: tensor.index_select(0, index))
        if not self.shared:
            return State(rows, self.position)
        owners = None
        if sources is None:
            sources, owners = self._owners().index_select(0, index).unique(return_inverse=True)
            each, rest = divmod(len(owners), len(sources))
            if rest == 0 and torch.equal(owners, _in_order(len(sources), each, owners.device)):
                owners = None
        shared = self.shared
        if len(sources) < self._sources():
            shared = _changed(shared, lambda tensor: tensor.index_select(0, sources))
        return State(rows, self.position, shared, owners)

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
        rows = next(iter(self.values()))
        return _in_order(self._sources(), len(rows) // self._sources(), rows.device)

    def detach(self) -> State:
        """The same values, cut off from the graph that made them (truncated back-propagation through time)."""
        return self.map(torch.Tensor.detach)

    def part(self, prefix: str) -> State:
        """The tensors under `prefix.`, as the state of one layer."""
        return State(_under(self, prefix), self.position, _under(self.shared, prefix), self.owners)

    def put(self, prefix: str, inner: State) -> None:
        """Store a layer's state under `prefix.`."""
        for name, tensor in inner.items():
            self[f"{prefix}.{name}"] = tensor
        for name, tensor in inner.shared.items():
            self.shared[f"{prefix}.{name}"] = tensor
        self.owners = inner.owners if self.owners is None else self.owners


def _in_order(sources: int, each: int, device: torch.device) -> Tensor:
    """0, 0, ..., 1, 1, ...: the owners of rows of which each source has equally many."""
    return torch.arange(sources, device=device).repeat_interleave(each)


def _changed(tensors: dict[str, Tensor], change: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    return {name: change(tensor) for name, tensor in tensors.items()}


def _under(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    start = len(prefix) + 1
    return {name[start:]: tensor for name, tensor in tensors.items() if name.startswith(prefix + ".")}
