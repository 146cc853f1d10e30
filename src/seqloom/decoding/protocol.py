"""The step protocol: all that a decoder asks of an autoregressive model, from n-grams to Transformers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from seqloom.text.special import EOS

if TYPE_CHECKING:
    from torch import Tensor

    from seqloom.nn.state import State


class StepModel(Protocol):
    """p(x_1, ..., x_T) = Π_t p(x_t | x_1, ..., x_{t-1}), one factor at a time.

    The first token read is always `<bos>`; `<eos>` ends a sequence and is never read.
    """

    vocabulary_size: int

    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences before anything was read (conditioned on `source` for seq2seq models)."""

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read one token per row, [batch]; return log p(next | all read so far), [batch, vocabulary], natural log.

        What comes back is the caller's to change.
        """

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read a run of tokens per row, [batch, time] with time >= 1, faster than stepping; return as `step` does."""


@dataclass(frozen=True)
class Hypothesis:
    """One decoded sequence."""

    tokens: tuple[int, ...]
    """What was generated after the prompt, with the closing `<eos>` when the model ended the sequence itself."""
    log_prob: float
    """Natural log-probability of `tokens` given the prompt, under the model as it is (temperature 1)."""
    score: float
    """What the search ranked by: the log-probability, divided by the length penalty in beam search."""

    @property
    def finished(self) -> bool:
        """Whether the sequence ends in `<eos>` rather than at the length limit."""
        return bool(self.tokens) and self.tokens[-1] == EOS
