"""Dropout: of single values, of one mask per sequence, of weights, of words."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class VariationalDropout(nn.Module):
    """One mask for all time steps of a sequence (Gal & Ghahramani 2016, https://arxiv.org/abs/1512.05287).

    The same values of [batch, time, size] are dropped at every step; what is kept is scaled by 1 / (1 - probability).
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.training or self.probability == 0.0:
            return inputs
        mask = inputs.new_ones(inputs.size(0), 1, inputs.size(2))
        return inputs * F.dropout(mask, self.probability)

    def extra_repr(self) -> str:
        return f"p={self.probability}"


def choose_dropout(probability: float, variational: bool) -> nn.Module:
    """Dropout for [batch, time, size]: one mask per sequence when `variational`, one per step otherwise."""
    return VariationalDropout(probability) if variational else nn.Dropout(probability)


def drop_weight(weight: Tensor, probability: float, training: bool) -> Tensor:
    """DropConnect (Wan et al. 2013): each weight is zero with `probability`, the others scaled by 1 / (1 - p)."""
    return F.dropout(weight, probability, training)


def drop_words(vectors: Tensor, tokens: Tensor, vocabulary_size: int, probability: float, training: bool) -> Tensor:
    """Drop whole word types: all occurrences of a dropped word in tokens [...] get zero vectors in vectors [..., size].

    Equal to dropping rows of the embedding matrix (Gal & Ghahramani 2016, section 4.2) without copying the matrix.
    """
    if not training or probability == 0.0:
        return vectors
    mask = F.dropout(torch.ones(vocabulary_size, dtype=vectors.dtype, device=vectors.device), probability)
    return vectors * mask[tokens].unsqueeze(-1)
