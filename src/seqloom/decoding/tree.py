"""A search as a tree: every sequence that was in the beam at some step, and where it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seqloom.decoding.protocol import Hypothesis, StepModel
from seqloom.nn.state import State

NODE = "tree.node"


@dataclass(frozen=True)
class Node:
    """A token that was read, after those of its parent."""

    parent: int
    """The number of the node before it; 0 is the root, what was there before the search."""
    token: int
    log_prob: float
    """log p of the token, given those before it."""


class Tree:
    """A step model that notes what a search reads.

    Rows carry the number of their node in the state, so that it follows them wherever the search moves them.
    """

    def __init__(self, model: StepModel) -> None:
        self.model, self.vocabulary_size = model, model.vocabulary_size
        self.nodes: list[Node] = [Node(0, -1, 0.0)]
        self._children: dict[tuple[int, int], int] = {}
        self._next: dict[int, Tensor] = {}  # log p of what may follow a node

    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences before anything was read; one, for a tree."""
        return self.model.start(size, source)

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read what the search begins with."""
        log_probs, after = self.model.read(state, tokens)
        self._next[0] = log_probs[0].clone()
        after[NODE] = torch.zeros(len(tokens), dtype=torch.long, device=tokens.device)
        return log_probs, after

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read one token per row: a node more for each."""
        parents = state[NODE].tolist()
        own = {name: state[name] for name in state if name != NODE}
        inner = State(own, state.position, state.shared, state.owners, state.history)
        log_probs, after = self.model.step(inner, tokens)
        numbers = [self._child(parent, token) for parent, token in zip(parents, tokens.tolist(), strict=True)]
        self._next |= {number: row.clone() for number, row in zip(numbers, log_probs, strict=True)}
        after[NODE] = torch.tensor(numbers, device=tokens.device)
        return log_probs, after

    def add(self, hypothesis: Hypothesis) -> list[int]:
        """The nodes of a finished sequence, one for each token; its last tokens may not have been read."""
        numbers, number = [], 0
        for token in hypothesis.tokens:
            number = self._child(number, token)
            numbers.append(number)
        return numbers

    def _child(self, parent: int, token: int) -> int:
        """The number of the node of a token after its parent."""
        known = self._children.get((parent, token))
        if known is not None:
            return known
        self.nodes.append(Node(parent, token, float(self._next[parent][token])))
        self._children[parent, token] = len(self.nodes) - 1
        return len(self.nodes) - 1
