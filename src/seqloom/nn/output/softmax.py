"""The softmax over all words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.nn.cross_entropy import capped, cross_entropy
from seqloom.nn.linear import Linear, linear
from seqloom.nn.output.base import OutputLayer, exact

ABSENT = -1e4  # the score of what is never written: exp of it is 0, beside any other score
SCORES = 1 << 26  # scores held at once where no gradient is asked for: a quarter of a gigabyte


class Softmax(OutputLayer):
    """p(w | h) ∝ exp(s_w),   s_w = E_w · P h + b_w

    With a cap c, scores are c · tanh(s_w / c) (Gemma Team 2024, https://arxiv.org/abs/2408.00118, section 2); where
    they are scaled, P h is divided by the root of the features' size (Raffel et al. 2020).

    `tied` is the embedding matrix, shared as in Press & Wolf 2017 (https://arxiv.org/abs/1608.05859). P is a bias-free
    projection where the matrix is of another width than the features, and the identity otherwise.
    """

    mask: Tensor | None

    def __init__(
        self,
        input_size: int,
        vocabulary_size: int,
        tied: nn.Parameter | None = None,
        bias: Tensor | None = None,
        cap: float = 0.0,
        scaled: bool = False,
        absent: Sequence[int] = (),
    ) -> None:
        """bias: b of each word at the start, [vocabulary]; without one, words have none. absent: words that have
        probability 0, and all others the one that they would have without them."""
        super().__init__(input_size, vocabulary_size)
        self.weight = nn.Parameter(torch.empty(vocabulary_size, input_size)) if tied is None else tied
        self.bias = None if bias is None else nn.Parameter(bias.clone())
        self.cap, self.scale = cap, input_size**-0.5 if scaled else 1.0
        width = self.weight.size(1)
        self.project = Linear(input_size, width, bias=False) if width != input_size else nn.Identity()
        mask = torch.zeros(vocabulary_size).index_fill(0, torch.tensor(absent), ABSENT) if absent else None
        self.register_buffer("mask", mask, persistent=False)
        if tied is None:
            nn.init.normal_(self.weight, std=input_size**-0.5)

    @property
    def waits(self) -> bool:
        return False

    def scores(self, features: Tensor) -> Tensor:
        """Unnormalised log-probabilities of every word: [..., input_size] -> [..., vocabulary_size]."""
        return capped(linear(self.prepared(features), self.weight, self.shift), self.cap)

    @property
    def shift(self) -> Tensor | None:
        """What is added to the scores: b, and what keeps absent words from being written."""
        if self.mask is None:
            return self.bias
        return self.mask if self.bias is None else self.bias + self.mask

    def prepared(self, features: Tensor) -> Tensor:
        """P h, or that over the root of the size."""
        projected = self.project(features)
        return projected if self.scale == 1.0 else projected * self.scale

    def log_normaliser(self, features: Tensor) -> Tensor:
        """log Z(h) = log Σ_w exp(score of w): 0 where scores are log-probabilities of their own accord."""
        return exact(self.scores(features)).logsumexp(-1)

    def loss(self, features: Tensor, targets: Tensor, smoothing: float = 0.0, before: Tensor | None = None) -> Tensor:
        flat = self.prepared(features.reshape(-1, self.input_size))
        return cross_entropy(flat, self.weight, self.shift, targets.reshape(-1), smoothing, self.cap)

    def log_prob(self, features: Tensor, targets: Tensor) -> Tensor:
        flat, rows = targets.reshape(-1), features.reshape(-1, self.input_size)
        at_once = len(flat) if torch.is_grad_enabled() else max(1, SCORES // self.vocabulary_size)
        parts = zip(rows.split(max(1, at_once)), flat.split(max(1, at_once)), strict=True)
        found = [-F.cross_entropy(self.scores(few), words, reduction="none") for few, words in parts]
        return torch.cat(found).view(targets.shape)

    def log_probs(self, features: Tensor) -> Tensor:
        scores = exact(self.scores(features))
        if torch.is_grad_enabled() or scores.device.type != "cpu":
            return F.log_softmax(scores, dim=-1)
        return torch.log_softmax(scores, dim=-1, out=scores)  # row by row, in place: memory is what a step waits for
