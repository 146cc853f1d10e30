"""The output layer's interface: from features to the probabilities of words."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn


class OutputLayer(nn.Module, ABC):
    """p(word | features), and a loss to learn it by. Logarithms are natural.

    What a layer must know of the words (their classes, a tree, how frequent they are) is among its buffers and so among
    its weights.
    """

    history = 0
    """How many of the words before a target `loss` asks for, where its estimate depends on them."""

    def __init__(self, input_size: int, vocabulary_size: int) -> None:
        super().__init__()
        self.input_size, self.vocabulary_size = input_size, vocabulary_size

    def loss(self, features: Tensor, targets: Tensor, smoothing: float = 0.0, before: Tensor | None = None) -> Tensor:
        """features [..., input_size], targets [...] -> what training minimises, summed over the targets.

        -log p(target), or an estimate with its expectation or optimum there. `smoothing` is the share ε of a target
        that is spread evenly over all words: (1 - ε) · -log p(target) + ε/V · Σ_w -log p(w). before [..., history]:
        the last words before each target, oldest first, for layers that ask for some.
        """
        loss = -self.log_prob(features, targets).sum()
        if not smoothing:
            return loss
        return (1 - smoothing) * loss - smoothing / self.vocabulary_size * self.log_probs(features).sum()

    @property
    def waits(self) -> bool:
        """Whether the loss needs values of tensors on its way, as where words are sorted by class, or some are drawn:
        then a GPU cannot replay it."""
        return True

    @abstractmethod
    def log_prob(self, features: Tensor, targets: Tensor) -> Tensor:
        """log p(target | features), exact and normalised: [..., input_size], [...] -> [...]."""

    def log_prob_at(self, features: Tensor, targets: Tensor, places: Tensor | None) -> Tensor:
        """`log_prob` of those that count of targets [rows, time], at `places` [n], row after row; of all where none are
        given. features [rows, time, input_size] -> [rows, time], 0 where nobody asked."""
        if places is None:
            return exact(self.log_prob(features, targets))
        few = features.flatten(0, 1).index_select(0, places)
        found = exact(self.log_prob(few, targets.flatten().index_select(0, places)))
        return found.new_zeros(targets.numel()).index_copy(0, places, found).view(targets.shape)

    @abstractmethod
    def log_probs(self, features: Tensor) -> Tensor:
        """log p of every word: [..., input_size] -> [..., vocabulary_size]."""

    def scores(self, features: Tensor) -> Tensor:
        """s of every word, with log p = s - log Σ exp s: [..., input_size] -> [..., vocabulary_size]; log p itself,
        where nothing is known sooner."""
        return self.log_probs(features)


def exact(tensor: Tensor) -> Tensor:
    """In float32 or better: products may be of a shorter type, logarithms and their sums are not."""
    return tensor.to(torch.promote_types(tensor.dtype, torch.float32))
