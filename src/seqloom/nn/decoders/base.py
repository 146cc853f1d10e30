"""The decoder's interface: from the words so far and an encoder's memory to features that predict the next word."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor, nn

from seqloom.nn.alignment import ContextAttention
from seqloom.nn.encoders import Encoding
from seqloom.nn.state import State


@dataclass(frozen=True)
class Reading:
    """What a decoder makes of some words."""

    features: Tensor
    """[rows, time, size]: what the output layer predicts the next words from."""
    look: Callable[[], Tensor]
    """Computes `weights`: pictures and copying want them, plain training does not."""

    @cached_property
    def weights(self) -> Tensor:
        """[rows, time, places]: how much each step looked at each place of its source. Each row sums to 1."""
        return self.look()

    def at(self, step: int) -> Reading:
        """What it makes of one of the words; -1 is the last."""
        return Reading(self.features[:, step:][:, :1], lambda: self.weights[:, step:][:, :1])


class Decoder(nn.Module, ABC):
    """h_t = f(e_1, ..., e_t; memory): reads any number of vectors at once and carries on from where it stopped.

    What depends on the source alone is computed once, by `start`, and shared by all rows that are hypotheses about it.
    """

    output_size: int
    sequential: bool = False
    """Whether its network takes word after word even when all are known: recurrent ones do."""
    joins: bool = False
    """Whether it can go on with rows that stand at places of their own, one word at a time: see `State.alone`."""

    @abstractmethod
    def start(self, encoding: Encoding) -> State:
        """The state before the first word, one row per source."""

    def reserve(self, state: State, steps: int) -> State:
        """The same state with room for so many steps, so that its tensors keep their shapes as it goes on."""
        return state

    @abstractmethod
    def forward(self, inputs: Tensor, state: State) -> tuple[Reading, State]:
        """inputs [rows, time, input_size] -> features [rows, time, output_size] and weights, and the state after them.

        features[:, t] depends on what the state remembers, on the source and on inputs[:, :t+1].
        """


class MemoryAttention(nn.Module):
    """Attention to the memory of an encoder, and what it must remember of where it looked.

    Its state is `values`, `keys` and `mask`, shared by the hypotheses of a source, and, for attention that looks back,
    `looked` [rows, places].
    """

    def __init__(self, attention: ContextAttention) -> None:
        super().__init__()
        self.attention = attention

    def start(self, encoding: Encoding) -> State:
        """The state before the first look."""
        keys = self.attention.alignment.prepare(encoding.memory)
        values = encoding.memory if encoding.values is None else encoding.values
        shared = {"values": values, "keys": keys, "mask": encoding.mask}
        looks_back = self.attention.alignment.looks_back
        rows = {"looked": encoding.mask.new_zeros(encoding.mask.shape, dtype=torch.float32)} if looks_back else {}
        return State(rows, shared=shared)

    def forward(self, queries: Tensor, state: State) -> tuple[Tensor, Tensor, State]:
        """queries [rows, time, size] -> contexts [rows, time, memory size], weights [rows, time, places], the state."""
        values, keys, mask = (state.of_sources(name) for name in ("values", "keys", "mask"))
        alignment = self.attention.alignment
        if not alignment.looks_back:
            contexts, weights = self.attention(queries, values, keys, mask)
            return contexts, weights, state.after({}, queries.size(1))
        looked: Tensor | None = state["looked"]
        seen = []
        for query in queries.split(1, dim=1):  # each look depends on the one before
            context, weights = self.attention(query, values, keys, mask, looked)
            looked = alignment.remember(looked, weights)
            seen.append((context, weights))
        assert looked is not None
        contexts, weights = (torch.cat(parts, dim=1) for parts in zip(*seen, strict=True))
        return contexts, weights, state.after({"looked": looked}, queries.size(1))
