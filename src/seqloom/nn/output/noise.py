"""Noise: the distributions that sampled output layers draw words from."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from seqloom.nn.output.adaptive import frequency_ranks


@dataclass(frozen=True)
class Sample:
    """Words drawn from noise, for n targets: K that all share, [K], or K for each, [n, K]."""

    words: Tensor
    expected: Tensor
    """log(K q) of these words: how often each is drawn on average. As `words`."""
    expected_targets: Tensor
    """log(K q) of the targets: [n]."""


class Noise(nn.Module):
    """q(w) over the vocabulary, whatever came before: draws of words, and log q of any.

    Draws are stratified: one uniform number from each of K equal parts of [0, 1]. A word still comes K q(w) times on
    average, which is all that the estimates need, but sums over the draws vary less.
    """

    history = 0
    """How many words before a target it looks at."""
    probabilities: Tensor
    cumulative: Tensor

    def __init__(self, probabilities: Tensor) -> None:
        """`probabilities`: q of each word, [vocabulary], all above 0."""
        super().__init__()
        if not (probabilities > 0).all() or not probabilities.sum().isfinite():
            raise ValueError("the noise has every word with a probability above 0")
        self.register_buffer("probabilities", probabilities.double())
        self.register_buffer("cumulative", self.probabilities.cumsum(0), persistent=False)

    def sample(self, number: int, targets: Tensor, before: Tensor | None = None) -> Sample:
        """Words that all targets [n] share, whatever stands before them."""
        words, log_k = self.draw(number), math.log(number)
        return Sample(words, self.log_prob(words) + log_k, self.log_prob(targets) + log_k)

    def draw(self, number: int) -> Tensor:
        """Words, [number]."""
        return self.at(strata(self.cumulative.new_empty(number)))

    def at(self, uniform: Tensor) -> Tensor:
        """The words that numbers from 0 to 1 choose."""
        places = torch.searchsorted(self.cumulative, uniform * self.cumulative[-1])
        return places.clamp(max=len(self.cumulative) - 1)

    def log_prob(self, words: Tensor) -> Tensor:
        """log q of words, float32."""
        return self.probabilities[words].log().float()


def strata(like: Tensor) -> Tensor:
    """As many numbers as like [..., K]: the k-th of a row uniform in the k-th of K equal parts of [0, 1]."""
    number = like.size(-1)
    parts = torch.arange(number, dtype=like.dtype, device=like.device)
    return (parts + torch.rand_like(like)) / number


def unigram_noise(counts: Tensor, power: float) -> Tensor:
    """q(w) ∝ c(w)^power; a word never seen counts as seen once."""
    weights = counts.double().clamp(min=1.0) ** power
    return weights / weights.sum()


def log_uniform_noise(counts: Tensor) -> Tensor:
    """q(w) = log((r + 2) / (r + 1)) / log(V + 1) for the word of rank r by frequency, from 0: about Zipf's law."""
    ranks = frequency_ranks(counts).double()
    return torch.log1p(1 / (ranks + 1)) / torch.log(torch.tensor(len(counts) + 1.0, dtype=torch.float64))
