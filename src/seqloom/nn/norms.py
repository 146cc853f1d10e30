"""Normalisation, and where in a residual connection it stands."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.transformer import TransformerShape
from seqloom.nn.dropout import Dropout
from seqloom.nn.kernels import available


class RmsNorm(nn.RMSNorm):
    """w ⊙ x / √(mean(x²) + ε) (Zhang & Sennrich 2019, https://arxiv.org/abs/1910.07467)."""

    def forward(self, inputs: Tensor) -> Tensor:
        # In the precision of the weights, as autocast has it for the layer norm: squares of bf16 are coarse.
        return F.rms_norm(inputs.to(self.weight.dtype), self.normalized_shape, self.weight, self.eps)


def make_norm(config: TransformerShape, size: int) -> nn.LayerNorm | RmsNorm:
    """The norm of a configuration, for vectors of `size`."""
    if config.normalisation == "rms":
        return RmsNorm(size, eps=config.epsilon)
    return nn.LayerNorm(size, eps=config.epsilon, bias=config.bias)


class Unsummed(NamedTuple):
    """A sum that is not made yet: on a GPU one kernel adds and normalises, so a sum waits for whoever reads it."""

    inputs: Tensor
    outputs: Tensor


Stream = Tensor | Unsummed
"""What goes from sub-layer to sub-layer."""


def summed(stream: Stream) -> Tensor:
    """The vectors of a stream."""
    return stream if isinstance(stream, Tensor) else stream.inputs + stream.outputs


def normed(stream: Stream, norm: nn.Module) -> tuple[Tensor, Tensor]:
    """The norm of the vectors of a stream, and the vectors."""
    if isinstance(stream, Tensor):
        return norm(stream), stream
    assert isinstance(norm, nn.LayerNorm | RmsNorm)
    from seqloom.nn.kernels.norm import normed_sum

    epsilon = torch.finfo(norm.weight.dtype).eps if norm.eps is None else norm.eps
    bias, centred = (norm.bias, True) if isinstance(norm, nn.LayerNorm) else (None, False)
    return normed_sum(*stream, norm.weight, bias, epsilon, centred)


def _may_wait(inputs: Tensor, outputs: Tensor, weight: Tensor) -> bool:
    """Whether our kernel, which knows no gradients and one type of numbers, can make the sum with its norm."""
    if not available(inputs) or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    from seqloom.nn.kernels.norm import LONGEST

    fits = inputs.shape == outputs.shape and inputs.size(-1) <= LONGEST and inputs.numel() > 0
    return fits and inputs.dtype == outputs.dtype == weight.dtype != torch.float64


class Residual(nn.Module, ABC):
    """A sub-layer f, its inputs x and a norm, put together in one of two ways."""

    norm: nn.LayerNorm | RmsNorm

    def __init__(self, config: TransformerShape) -> None:
        super().__init__()
        self.norm = make_norm(config, config.size)
        self.dropout = Dropout(config.dropout)

    @abstractmethod
    def before(self, inputs: Stream) -> tuple[Tensor, Tensor]:
        """What the sub-layer reads, and its inputs."""

    @abstractmethod
    def after(self, inputs: Tensor, outputs: Tensor) -> Stream:
        """The sub-layer's inputs and outputs joined."""

    def _joined(self, inputs: Tensor, outputs: Tensor) -> Stream:
        outputs = self.dropout(outputs)
        return Unsummed(inputs, outputs) if _may_wait(inputs, outputs, self.norm.weight) else inputs + outputs


class PreNorm(Residual):
    """x + dropout(f(norm(x))): normalise what a sub-layer reads (Xiong et al. 2020); stable without warm-up."""

    def before(self, inputs: Stream) -> tuple[Tensor, Tensor]:
        return normed(inputs, self.norm)

    def after(self, inputs: Tensor, outputs: Tensor) -> Stream:
        return self._joined(inputs, outputs)


class PostNorm(Residual):
    """norm(x + dropout(f(x))): normalise the sum, as Vaswani et al. 2017 do."""

    def before(self, inputs: Stream) -> tuple[Tensor, Tensor]:
        vectors = summed(inputs)
        return vectors, vectors

    def after(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        return normed(self._joined(inputs, outputs), self.norm)[0]


def make_residual(config: TransformerShape) -> Residual:
    """What joins a sub-layer of a configuration to what it reads."""
    return PreNorm(config) if config.norm == "pre" else PostNorm(config)
