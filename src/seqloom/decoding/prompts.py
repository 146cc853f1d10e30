"""Prompts of different lengths in one batch, without ever reading padding."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from seqloom.decoding.limits import IMPOSSIBLE
from seqloom.decoding.protocol import StepModel
from seqloom.errors import DataError
from seqloom.nn.state import State
from seqloom.text.special import BOS, EOS, PAD, SPECIALS

Prompt = Sequence[int]


@dataclass(frozen=True)
class Forced:
    """What is left of each prompt once the length of the shortest was read: said, token by token, while stepping."""

    tokens: Tensor
    """[rows, longest rest]; `<pad>` behind a shorter rest is never read."""
    counts: Tensor
    """[rows]: the length of each rest."""

    def impose(self, log_probs: Tensor, step: int) -> Tensor:
        """Make the prompt's token certain in the rows that are inside their prompt at `step`."""
        if step >= self.tokens.shape[1]:
            return log_probs
        certain = torch.full_like(log_probs, IMPOSSIBLE).scatter_(1, self.tokens[:, step, None], 0.0)
        return torch.where((step < self.counts)[:, None], certain, log_probs)

    def reorder(self, index: Tensor) -> Forced:
        """As `State.reorder`."""
        return Forced(self.tokens.index_select(0, index), self.counts.index_select(0, index))


def read_prompts(model: StepModel, prompts: Sequence[Prompt], source: Any) -> tuple[Tensor, State, Forced]:
    """Read `<bos>` and as much of every prompt as the shortest has, at once; return as `step` does, and the rest."""
    check_prompts(prompts, model.vocabulary_size)
    state = model.start(len(prompts), source)
    device = next((tensor.device for tensor in state.values()), torch.device("cpu"))
    common = min(len(prompt) for prompt in prompts)
    beginnings = torch.tensor([[BOS, *prompt[:common]] for prompt in prompts], device=device)
    log_probs, state = model.read(state, beginnings)
    counts = [len(prompt) - common for prompt in prompts]
    rests = [[*prompt[common:], *[PAD] * (max(counts) - count)] for prompt, count in zip(prompts, counts, strict=True)]
    forced = Forced(
        torch.tensor(rests, dtype=torch.long, device=device).view(len(prompts), max(counts)),
        torch.tensor(counts, device=device),
    )
    return log_probs, state, forced


def check_prompts(prompts: Sequence[Prompt], vocabulary_size: int) -> None:
    """Refuse tokens that are none, or that are not for prompts."""
    for number, prompt in enumerate(prompts):
        for token in prompt:
            if not 0 <= token < vocabulary_size:
                raise DataError(
                    f"prompt {number} has token {token}, but the model's vocabulary is 0 to {vocabulary_size - 1}: "
                    "encode prompts with the model's own tokenizer"
                )
            if token in (PAD, BOS, EOS):
                raise DataError(
                    f"prompt {number} contains {SPECIALS[token]}: give the text's tokens only; "
                    "the decoder adds <bos>, and nothing follows <eos>"
                )
