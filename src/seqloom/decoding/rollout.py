"""Many sequences written at once, to be learned from: tokens stay where the model runs."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.decoding.limits import IMPOSSIBLE
from seqloom.decoding.protocol import StepModel
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
    noise = torch.rand_like(log_probs, dtype=torch.float32).clamp_(min=1e-20).log_().neg_().log_()
    return (log_probs - noise).argmax(-1)


def best(log_probs: Tensor) -> Tensor:
    """The most probable token of each distribution."""
    return log_probs.argmax(-1)


@torch.no_grad()
def rollout(
    model: StepModel,
    state: State,
    words: Tensor,
    longest: int,
    choose: Choose = draw,
    given: Tensor | None = None,
) -> Rollout:
    """Go on from a state that reads `words` [rows, count] first, for at most `longest` tokens.

    given: [rows, some steps], tokens that the sequences have to begin with; `<pad>` where they are free.
    """
    log_probs, state = model.read(state, words)
    rows = torch.arange(len(words), device=words.device)  # those that are still written
    tokens = words.new_full((longest, len(words)), PAD)
    chances = log_probs.new_zeros(tokens.shape, dtype=torch.float32)
    free = torch.zeros_like(tokens, dtype=torch.bool)
    alive = torch.ones_like(rows, dtype=torch.bool)
    for step in range(longest):
        log_probs[:, PAD : BOS + 1] = IMPOSSIBLE
        chosen = choose(log_probs)
        chance = log_probs.gather(1, chosen[:, None]).squeeze(1).float()
        own = alive
        if given is not None and step < given.size(1):
            told = given[rows, step]
            own, chosen = alive & (told == PAD), torch.where(told == PAD, chosen, told)
        tokens[step, rows] = chosen.masked_fill(~alive, PAD)
        chances[step, rows] = chance.masked_fill(~own, 0.0)
        free[step, rows] = own
        alive = alive & (chosen != EOS)
        if step + 1 == longest:
            break
        if (step + 1) % LOOKS == 0:
            left = alive.nonzero().squeeze(1)
            if not len(left):
                break
            # To drop rows copies the state: not for a few, nor where other shapes of it must be recorded anew.
            if 2 * len(left) <= len(rows) and rows.device.type == "cpu":
                rows, alive, chosen, state = rows[left], alive[left], chosen[left], state.reorder(left)
        log_probs, state = model.step(state, chosen.masked_fill(~alive, UNK))  # what has ended reads anything
    written = slice(0, step + 1)
    return Rollout(tokens[written].T.contiguous(), chances[written].T.contiguous(), free[written].T.contiguous())
