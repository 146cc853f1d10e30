"""Noise: the distributions that sampled output layers draw words from."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqloom.nn.output.adaptive import frequency_ranks


class Noise(nn.Module):
    """q(w) over the vocabulary: draws of words, and log q of any.

    Draws are stratified: one uniform number from each of K equal parts of [0, 1]. A word still comes K q(w) times on
    average, which is all that the estimates need, but sums over the draws vary less.
    """

    probabilities: Tensor
    cumulative: Tensor

    def __init__(self, probabilities: Tensor) -> None:
        """`probabilities`: q of each word, [vocabulary], all above 0."""
        super().__init__()
        if not (probabilities > 0).all() or not probabilities.sum().isfinite():
            raise ValueError("the noise has every word with a probability above 0")
        self.register_buffer("probabilities", probabilities.double())
        self.register_buffer("cumulative", self.probabilities.cumsum(0), persistent=False)

    def draw(self, number: int) -> Tensor:
        """Words, [number]."""
        parts = torch.arange(number, dtype=torch.float64, device=self.cumulative.device)
        uniform = (parts + torch.rand_like(parts)) / number * self.cumulative[-1]
        return torch.searchsorted(self.cumulative, uniform).clamp(max=len(self.cumulative) - 1)

    def log_prob(self, words: Tensor) -> Tensor:
        """log q of words, float32."""
        return self.probabilities[words].log().float()


def unigram_noise(counts: Tensor, power: float) -> Tensor:
    """q(w) ∝ c(w)^power; a word never seen counts as seen once."""
    weights = counts.double().clamp(min=1.0) ** power
    return weights / weights.sum()


def log_uniform_noise(counts: Tensor) -> Tensor:
    """q(w) = log((r + 2) / (r + 1)) / log(V + 1) for the word of rank r by frequency, from 0: about Zipf's law."""
    ranks = frequency_ranks(counts).double()
    return torch.log1p(1 / (ranks + 1)) / torch.log(torch.tensor(len(counts) + 1.0, dtype=torch.float64))
