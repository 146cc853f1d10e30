"""What all autoregressive models share, from n-grams to Transformers: the step protocol and drawing from it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from seqloom import decoding
from seqloom.text.special import PAD

# N-gram models score without torch, which takes seconds to import: it comes with the first tensor.
if TYPE_CHECKING:
    import torch
    from torch import Tensor

    from seqloom.nn.state import State

SCORED_TOGETHER = 16384  # tokens of a batch, padding too


class Autoregressive(ABC):
    """p(x_1, ..., x_T) = Π_t p(x_t | x_1, ..., x_{t-1}) over token ids.

    Sequences begin after `<bos>` and end in `<eos>`. It is what the decoders call a `StepModel`.
    """

    vocabulary_size: int

    @property
    def joins(self) -> bool:
        """Whether rows may stand at places of their own, so that sequences join others that are being written."""
        return False

    @abstractmethod
    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences before anything was read."""

    @abstractmethod
    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read tokens [batch, time]; return log p(next | all read so far) [batch, vocabulary] and the new state."""

    @abstractmethod
    def token_log_probs(self, tokens: Tensor, source: Any = None) -> Tensor:
        """log p of each token given those before it in its row, [batch, time]: natural log, 0 for `<pad>`.

        Rows begin at the beginning and are filled up with `<pad>`. `source`: as in `start`, one for each row.
        """

    @property
    @abstractmethod
    def parameter_count(self) -> int:
        """How many numbers the model learned."""

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        import torch

        return torch.device("cpu")

    def log_prob(self, tokens: Tensor, source: Any = None) -> Tensor:
        """log p of each row of `tokens` [batch, time], natural log, [batch]. Rows are filled up with `<pad>`.

        A row that ends in `<eos>` is scored as a whole sequence, another as the beginning of one.
        """
        return self.token_log_probs(tokens, source).sum(dim=1)

    def unit_log_probs(self, tokens: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.float32]:
        """log p of every token of many units that stand one after the other in `tokens`, each from its own beginning.

        Batched by length, so that little is padding.
        """
        starts = np.cumsum(lengths) - lengths
        scores = np.empty(len(tokens), np.float32)
        order = np.argsort(lengths, kind="stable")
        first = 0
        while first < len(order):
            last = first + 1
            while last < len(order) and (last + 1 - first) * lengths[order[last]] <= SCORED_TOGETHER:
                last += 1
            chosen = order[first:last]
            inside = np.arange(lengths[chosen[-1]]) < lengths[chosen, None]  # [batch, time]
            places = (starts[chosen, None] + np.arange(inside.shape[1]))[inside]
            rows = np.full(inside.shape, PAD)
            rows[inside] = tokens[places]
            scores[places] = self._row_log_probs(rows)[inside]
            first = last
        return scores

    def _row_log_probs(self, rows: NDArray[np.integer]) -> NDArray[np.float32]:
        """As `token_log_probs`, of arrays."""
        import torch

        with torch.inference_mode():
            return self.token_log_probs(torch.from_numpy(rows).to(self.device)).float().cpu().numpy()

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read one token per row, [batch]; otherwise as `read`."""
        return self.read(state, tokens[:, None])

    def sample(self, size: int, max_length: int = 100, seed: int = 0, source: Any = None) -> list[decoding.Hypothesis]:
        """Draw `size` sequences from the model's own distribution."""
        return decoding.generate(
            self, [[]] * size, decoding.Sampler(seed=seed), decoding.Limits(max_length=max_length), source
        )
