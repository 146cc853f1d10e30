"""Normalisation, and where in a residual connection it stands."""

from __future__ import annotations

from abc import ABC, abstractmethod

from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.transformer import TransformerShape
from seqloom.nn.dropout import Dropout


class RmsNorm(nn.RMSNorm):
    """w ⊙ x / √(mean(x²) + ε) (Zhang & Sennrich 2019, https://arxiv.org/abs/1910.07467)."""

    def forward(self, inputs: Tensor) -> Tensor:
        # In the precision of the weights, as autocast has it for the layer norm: squares of bf16 are coarse.
        return F.rms_norm(inputs.to(self.weight.dtype), self.normalized_shape, self.weight, self.eps)


def make_norm(config: TransformerShape, size: int) -> nn.Module:
    """The norm of a configuration, for vectors of `size`."""
    if config.normalisation == "rms":
        return RmsNorm(size, eps=config.epsilon)
    return nn.LayerNorm(size, eps=config.epsilon, bias=config.bias)


class Residual(nn.Module, ABC):
    """A sub-layer f, its inputs x and a norm, put together in one of two ways."""

    def __init__(self, config: TransformerShape) -> None:
        super().__init__()
        self.norm = make_norm(config, config.size)
        self.dropout = Dropout(config.dropout)

    @abstractmethod
    def before(self, inputs: Tensor) -> Tensor:
        """What the sub-layer reads."""

    @abstractmethod
    def after(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """The sub-layer's inputs and outputs joined."""


class PreNorm(Residual):
    """x + dropout(f(norm(x))): normalise what a sub-layer reads (Xiong et al. 2020); stable without warm-up."""

    def before(self, inputs: Tensor) -> Tensor:
        return self.norm(inputs)

    def after(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        return inputs + self.dropout(outputs)


class PostNorm(Residual):
    """norm(x + dropout(f(x))): normalise the sum, as Vaswani et al. 2017 do."""

    def before(self, inputs: Tensor) -> Tensor:
        return inputs

    def after(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        return self.norm(inputs + self.dropout(outputs))


def make_residual(config: TransformerShape) -> Residual:
    """What joins a sub-layer of a configuration to what it reads."""
    return PreNorm(config) if config.norm == "pre" else PostNorm(config)
