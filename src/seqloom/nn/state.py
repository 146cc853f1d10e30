"""What a sequence model remembers between two steps."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor


class State(dict[str, Tensor]):
    """Named tensors, batch first: hidden states, key-value caches, windows of recent words, encoder memories.

    All rows stand at the same `position`: the number of tokens read so far.

    A state is *consumed* by the step that reads it: caches are written in place, so go on with the state that comes
    back, and `reorder` (which copies) before following two branches from one point.
    """

    def __init__(self, tensors: dict[str, Tensor] | None = None, position: int = 0) -> None:
        super().__init__(tensors or {})
        self.position = position

    def map(self, change: Callable[[Tensor], Tensor]) -> State:
        """A new state with `change` applied to every tensor."""
        return State({name: change(tensor) for name, tensor in self.items()}, self.position)

    def reorder(self, index: Tensor) -> State:
        """Row i of the new state is row `index[i]` of this one; rows may repeat or be left out."""
        return self.map(lambda tensor: tensor.index_select(0, index))

    def detach(self) -> State:
        """The same values, cut off from the graph that made them (truncated back-propagation through time)."""
        return self.map(torch.Tensor.detach)

    def part(self, prefix: str) -> State:
        """The tensors under `prefix.`, as the state of one layer."""
        start = len(prefix) + 1
        inner = {name[start:]: tensor for name, tensor in self.items() if name.startswith(prefix + ".")}
        return State(inner, self.position)

    def put(self, prefix: str, inner: State) -> None:
        """Store a layer's state under `prefix.`."""
        for name, tensor in inner.items():
            self[f"{prefix}.{name}"] = tensor
