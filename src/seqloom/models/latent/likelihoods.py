"""p(x | z): how probable an image is, given what a decoder makes of a code."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

DARKEST = 0.01  # a pixel is not expected to be darker than this, nor brighter than the rest, before training


class BernoulliPixels(nn.Module):
    """Pixels that are 1 with probability σ(a), 0 else: log p = Σ x a - log(1 + e^a). The decoder gives a.

    For grey pixels this is a cross-entropy, no log-probability.
    """

    def log_prob(self, decoded: Tensor, images: Tensor) -> Tensor:
        """[..., channels, height, width] twice -> [...]"""
        return (images * decoded - F.softplus(decoded)).flatten(-3).sum(-1)

    def mean(self, decoded: Tensor) -> Tensor:
        """The expected image."""
        return torch.sigmoid(decoded)

    def decoded(self, mean: Tensor) -> Tensor:
        """What a decoder must give for an expected image: log μ / (1 - μ), with μ kept off 0 and 1."""
        return torch.logit(mean, eps=DARKEST)

    def draw(self, decoded: Tensor) -> Tensor:
        """An image of zeros and ones."""
        return torch.bernoulli(torch.sigmoid(decoded))


class GaussianPixels(nn.Module):
    """Pixels around μ with one deviation s: log p = Σ -(x - μ)² / 2s² - log s - ½ log 2π, μ by the decoder.

    Where no deviation is given, it is learned.
    """

    def __init__(self, deviation: float | None = None) -> None:
        super().__init__()
        begin = -1.0 if deviation is None else math.log(deviation)
        self.log_deviation = nn.Parameter(torch.tensor(begin), requires_grad=deviation is None)

    def log_prob(self, decoded: Tensor, images: Tensor) -> Tensor:
        """[..., channels, height, width] twice -> [...]"""
        return log_normal(images, decoded, self.log_deviation.exp()).flatten(-3).sum(-1)

    def mean(self, decoded: Tensor) -> Tensor:
        """The expected image."""
        return decoded

    def decoded(self, mean: Tensor) -> Tensor:
        """What a decoder must give for an expected image."""
        return mean

    def draw(self, decoded: Tensor) -> Tensor:
        """An image with its noise."""
        return decoded + self.log_deviation.exp() * torch.randn_like(decoded)


def log_normal(values: Tensor, mean: Tensor, deviation: Tensor) -> Tensor:
    """log N(x; μ, s²) of each number."""
    return -0.5 * ((values - mean) / deviation).square() - deviation.log() - 0.5 * math.log(2 * math.pi)
