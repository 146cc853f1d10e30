"""Dropout: of single values, of one mask per sequence, of weights, of words."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class Dropout(nn.Module):
    """Each value is zero with `probability`, the others scaled by 1 / (1 - probability); the identity in evaluation.

    On the CPU the probability is rounded to a multiple of 1/256: see `drop_values`.
    """

    def __init__(self, probability: float) -> None:
        super().__init__()
        self.probability = probability

    def forward(self, inputs: Tensor) -> Tensor:
        return drop_values(inputs, self.probability, self.training)

    def extra_repr(self) -> str:
        return f"p={self.probability}"


def drop_values(inputs: Tensor, probability: float, training: bool) -> Tensor:
    """Dropout (Srivastava et al. 2014): each value is zero with `probability`, the others scaled by 1 / (1 - p). Where
    the values are weights, it is called DropConnect (Wan et al. 2013).

    On the CPU, where the library's kernel takes longer than the products around it, one random byte decides on each
    value: p is rounded to a multiple of 1/256 (at most 255/256), and the scale is that of the rounded p, so that the
    expectation stays exact.
    """
    if not training or probability == 0.0:
        return inputs
    if inputs.device.type != "cpu" or torch.compiler.is_compiling():  # a compiler makes its own cheap masks
        return F.dropout(inputs, probability)
    threshold = min(round(256 * probability), 255)
    return _Masked.apply(inputs, _random_bytes(inputs.shape).ge_(threshold), 256 / (256 - threshold))


class _Masked(torch.autograd.Function):
    """inputs · mask · scale, the mask of bytes 0 and 1; it alone is kept for the backward pass."""

    @staticmethod
    def forward(ctx: Any, inputs: Tensor, mask: Tensor, scale: float) -> Tensor:
        ctx.save_for_backward(mask)
        ctx.scale = scale
        return mask.to(inputs.dtype).mul_(inputs).mul_(scale)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None]:
        (mask,) = ctx.saved_tensors
        return _Masked.apply(gradient, mask, ctx.scale), None, None


def _random_bytes(shape: torch.Size) -> Tensor:
    """Uniform bytes from torch's generator, eight to a number: what is drawn is as repeatable as all else."""
    words = torch.empty((shape.numel() + 7) // 8, dtype=torch.int64)
    return words.random_(torch.iinfo(torch.int64).min, None).view(torch.uint8)[: shape.numel()].view(shape)


class VariationalDropout(Dropout):
    """One mask for all time steps of a sequence (Gal & Ghahramani 2016, https://arxiv.org/abs/1512.05287).

    The same values of [batch, time, size] are dropped at every step; what is kept is scaled by 1 / (1 - probability).
    """

    def forward(self, inputs: Tensor) -> Tensor:
        if not self.training or self.probability == 0.0:
            return inputs
        mask = inputs.new_ones(inputs.size(0), 1, inputs.size(2))
        return inputs * F.dropout(mask, self.probability)


def choose_dropout(probability: float, variational: bool) -> Dropout:
    """Dropout for [batch, time, size]: one mask per sequence when `variational`, one per step otherwise."""
    return VariationalDropout(probability) if variational else Dropout(probability)


def drop_words(vectors: Tensor, tokens: Tensor, vocabulary_size: int, probability: float, training: bool) -> Tensor:
    """Drop whole word types: all occurrences of a dropped word in tokens [...] get zero vectors in vectors [..., size].

    Equal to dropping rows of the embedding matrix (Gal & Ghahramani 2016, section 4.2) without copying the matrix.
    """
    if not training or probability == 0.0:
        return vectors
    mask = F.dropout(torch.ones(vocabulary_size, dtype=vectors.dtype, device=vectors.device), probability)
    return vectors * mask[tokens].unsqueeze(-1)
