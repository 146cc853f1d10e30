"""A word's vector from its spelling."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.data.characters import CODES, EMPTY
from seqloom.nn.activations import sigmoid
from seqloom.nn.linear import Linear


class Highway(nn.Module):
    """y = t ⊙ relu(W x + b) + (1 - t) ⊙ x,  t = σ(W_t x + b_t)  (Srivastava et al. 2015, arxiv.org/abs/1505.00387).

    The gate's bias begins at -2: at first, most of the input is carried through as it is.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.change, self.gate = Linear(size, size), Linear(size, size)
        nn.init.constant_(self.gate.bias, -2.0)

    def forward(self, inputs: Tensor) -> Tensor:
        gate = sigmoid(self.gate(inputs))
        return gate * F.relu(self.change(inputs)) + (1 - gate) * inputs


class CharacterCnn(nn.Module):
    """A word as its spelling makes it (Kim et al. 2016, https://arxiv.org/abs/1508.06615, as in Peters et al. 2018).

    With the characters' vectors c_1, ..., c_l, a filter of width w gives f = max_i relu(⟨H, c_{i:i+w-1}⟩ + b); all
    filters together pass highway layers and are projected to `size`.
    """

    def __init__(
        self, size: int, character_size: int, widths: Sequence[int], filters: Sequence[int], highways: int
    ) -> None:
        super().__init__()
        self.output_size = size
        self.characters = nn.Parameter(torch.empty(CODES, character_size))
        self.convolutions = nn.ModuleList(
            nn.Conv1d(character_size, count, width) for width, count in zip(widths, filters, strict=True)
        )
        self.highways = nn.Sequential(*(Highway(sum(filters)) for _ in range(highways)))
        self.project = Linear(sum(filters), size)
        nn.init.uniform_(self.characters, -1.0, 1.0)

    def forward(self, words: Tensor) -> Tensor:
        """words [words, characters], codes of `data.characters` -> vectors [words, size]."""
        letters = F.embedding(words, self.characters, padding_idx=EMPTY).transpose(1, 2)
        found = [F.relu(convolution(letters).amax(2)) for convolution in self.convolutions]
        return self.project(self.highways(torch.cat(found, dim=1)))
