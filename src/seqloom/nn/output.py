"""Output layers: from features to the probabilities of words."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.nn.cross_entropy import cross_entropy


class OutputLayer(nn.Module, ABC):
    """p(word | features), and a loss to learn it by. Logarithms are natural."""

    input_size: int
    vocabulary_size: int

    @abstractmethod
    def loss(self, features: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
        """features [..., input_size], targets [...] -> what training minimises, summed over the targets.

        -log p(target), or an estimate with its expectation or optimum there. `smoothing` is the share ε of a target
        that is spread evenly over all words: (1 - ε) · -log p(target) + ε/V · Σ_w -log p(w).
        """

    @abstractmethod
    def log_prob(self, features: Tensor, targets: Tensor) -> Tensor:
        """log p(target | features), exact and normalised: [..., input_size], [...] -> [...]."""

    @abstractmethod
    def log_probs(self, features: Tensor) -> Tensor:
        """log p of every word: [..., input_size] -> [..., vocabulary_size]."""


class Softmax(OutputLayer):
    """p(w | h) ∝ exp(E_w · P h + b_w).

    `tied` is the embedding matrix, shared as in Press & Wolf 2017 (https://arxiv.org/abs/1608.05859). P is a bias-free
    projection where the matrix is of another width than the features, and the identity otherwise.
    """

    def __init__(self, input_size: int, vocabulary_size: int, tied: nn.Parameter | None = None) -> None:
        super().__init__()
        self.input_size = input_size
        self.vocabulary_size = vocabulary_size
        self.weight = nn.Parameter(torch.empty(vocabulary_size, input_size)) if tied is None else tied
        self.bias = nn.Parameter(torch.zeros(vocabulary_size))
        width = self.weight.size(1)
        self.project = nn.Linear(input_size, width, bias=False) if width != input_size else nn.Identity()
        if tied is None:
            nn.init.normal_(self.weight, std=input_size**-0.5)

    def scores(self, features: Tensor) -> Tensor:
        """Unnormalised log-probabilities of every word: [..., input_size] -> [..., vocabulary_size]."""
        return F.linear(self.project(features), self.weight, self.bias)

    def loss(self, features: Tensor, targets: Tensor, smoothing: float = 0.0) -> Tensor:
        flat = self.project(features.reshape(-1, self.input_size))
        return cross_entropy(flat, self.weight, self.bias, targets.reshape(-1), smoothing)

    def log_prob(self, features: Tensor, targets: Tensor) -> Tensor:
        flat = self.scores(features.reshape(-1, self.input_size))
        return -F.cross_entropy(flat, targets.reshape(-1), reduction="none").view(targets.shape)

    def log_probs(self, features: Tensor) -> Tensor:
        scores = self.scores(features)
        if torch.is_grad_enabled() or scores.device.type != "cpu":
            return F.log_softmax(scores, dim=-1)
        return torch.log_softmax(scores, dim=-1, out=scores)  # row by row, in place: memory is what a step waits for
