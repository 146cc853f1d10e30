"""What all autoregressive models share, from n-grams to Transformers: the step protocol and drawing from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

from torch import Tensor

from seqloom.decoding import Hypothesis, Limits, Sampler, generate
from seqloom.nn.state import State


class Autoregressive(ABC):
    """p(x_1, ..., x_T) = Π_t p(x_t | x_1, ..., x_{t-1}) over token ids.

    Sequences begin after `<bos>` and end in `<eos>`. It is what the decoders call a `StepModel`.
    """

    vocabulary_size: int

    @abstractmethod
    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences before anything was read."""

    @abstractmethod
    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read tokens [batch, time]; return log p(next | all read so far) [batch, vocabulary] and the new state."""

    @abstractmethod
    def log_prob(self, tokens: Tensor) -> Tensor:
        """log p of each row of `tokens` [batch, time], natural log, [batch]. Rows are filled up with `<pad>`.

        A row that ends in `<eos>` is scored as a whole sequence, another as the beginning of one.
        """

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read one token per row, [batch]; otherwise as `read`."""
        return self.read(state, tokens[:, None])

    def sample(self, size: int, max_length: int = 100, seed: int = 0) -> list[Hypothesis]:
        """Draw `size` sequences from the model's own distribution."""
        return generate(self, [[]] * size, Sampler(seed=seed), Limits(max_length=max_length))
