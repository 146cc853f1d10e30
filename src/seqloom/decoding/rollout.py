"""Many sequences written at once, to be learned from: tokens stay where the model runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor

from seqloom.decoding.graphs import GraphSteps, RecordableModel
from seqloom.decoding.limits import IMPOSSIBLE
from seqloom.nn import kernels
from seqloom.nn.state import State
from seqloom.text.special import BOS, EOS, PAD, UNK

LOOKS = 8  # steps between two looks whether all sequences have ended: a look waits for the GPU

Choose = Callable[[Tensor], Tensor]
"""log-probabilities [rows, vocabulary] -> one token for each row."""


class Rollout(NamedTuple):
    """What was written: up to its end, or up to the longest length."""

    tokens: Tensor
    """[rows, time], `<eos>` included, `<pad>` behind it."""
    log_probs: Tensor
    """[rows, time]: log p of each token under the model that wrote it; 0 for those that it did not choose."""
    chosen: Tensor
    """[rows, time]: which tokens the model chose; not those that were given, nor `<pad>`."""


def draw(log_probs: Tensor) -> Tensor:
    """One token from each distribution: the largest of log p + Gumbel noise is a draw from p."""
    if kernels.available(log_probs):
        from seqloom.nn.kernels.drawn import LONGEST, drawn

        if log_probs.size(1) <= LONGEST:
            return drawn(log_probs)
    noise = torch.rand_like(log_probs, dtype=torch.float32).clamp_(min=1e-20).log_().neg_().log_()
    return (log_probs - noise).argmax(-1)


def best(log_probs: Tensor) -> Tensor:
    """The most probable token of each distribution."""
    return log_probs.argmax(-1)


class Choosing:
    """A model that goes on by itself: a step returns the token that was chosen for each row and log p of it, [2, rows],
    instead of log p of all tokens. Where steps are recorded (see `graphs`), the choice is recorded with them.

    Neither `<pad>` nor `<bos>` is chosen, and for an `<eos>` that a row has chosen it reads `<unk>`: what follows is
    nobody's concern.
    """

    def __init__(self, model: RecordableModel, choose: Choose) -> None:
        self.model, self.choose = model, choose
        self.vocabulary_size = model.vocabulary_size

    def start(self, size: int, source: Any = None) -> State:
        return self.model.start(size, source)

    def reserve(self, state: State, steps: int) -> State:
        return self.model.reserve(state, steps)

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        return self.read(state, tokens[:, None])

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        log_probs, state = self.model.read(state, tokens.masked_fill(tokens == EOS, UNK))
        log_probs[:, PAD : BOS + 1] = IMPOSSIBLE
        chosen = self.choose(log_probs)
        chances = log_probs.gather(1, chosen[:, None]).squeeze(1)
        return torch.stack([chosen.double(), chances.double()]), state


@torch.no_grad()
def rollout(
    model: Choosing | GraphSteps, state: State, words: Tensor, longest: int, given: Tensor | None = None
) -> Rollout:
    """Go on from a state that reads `words` [rows, count] first, for at most `longest` tokens.

    model: one that chooses, or the recording of one.
    given: [rows, some steps], tokens that the sequences have to begin with; `<pad>` where they are free.

    A GPU waits for the processor, which has to ask for every operation: a step is few of them, and what a sequence
    wrote behind its end is taken away once, at last.
    """
    said, state = model.read(state, words)
    rows = torch.arange(len(words), device=words.device)  # those that are still written
    written = said.new_zeros(longest, 2, len(words))
    for step in range(longest):
        written[step].index_copy_(1, rows, said)
        if step + 1 == longest:
            break
        chosen = said[0].long()
        if given is not None and step < given.size(1):
            told = given[rows, step]
            chosen = torch.where(told == PAD, chosen, told)
        if (step + 1) % LOOKS == 0:
            going = ~(_tokens(written[: step + 1], given) == EOS).any(0)
            left = going[rows].nonzero().squeeze(1)
            if not len(left):
                break
            # To drop rows copies the state: not for a few, nor where other shapes of it must be recorded anew.
            if 2 * len(left) <= len(rows) and rows.device.type == "cpu":
                rows, chosen, state = rows[left], chosen[left], state.reorder(left)
        said, state = model.step(state, chosen)
    written = written[: step + 1]
    tokens = _tokens(written, given)
    ends = tokens == EOS
    tokens = tokens.masked_fill(ends.cumsum(0) - ends.long() > 0, PAD).T.contiguous()
    own = tokens != PAD
    if given is not None:
        told = given[:, : tokens.size(1)] != PAD
        own[:, : told.size(1)] &= ~told
    return Rollout(tokens, written[:, 1].T.float().masked_fill(~own, 0.0), own)


def _tokens(written: Tensor, given: Tensor | None) -> Tensor:
    """What was written [time, 2, rows] as tokens [time, rows], those that were given in their places."""
    tokens = written[:, 0].long()
    if given is not None:
        told = given.T[: len(tokens)]
        tokens[: len(told)] = torch.where(told == PAD, tokens[: len(told)], told)
    return tokens
