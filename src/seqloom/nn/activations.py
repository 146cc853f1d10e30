"""What is done to each number by itself between two linear maps."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.transformer import InnerActivation


def sigmoid(inputs: Tensor) -> Tensor:
    """σ(x) = 1 / (1 + exp(-x)).

    On the processor torch's own goes another way for the last few numbers of a tensor, and which these are depends on
    how many rows there are. Its tanh does not; so where nobody asks for gradients, σ(x) = (1 + tanh(x/2)) / 2.
    """
    return torch.tanh(inputs * 0.5).mul_(0.5).add_(0.5) if _by_tanh(inputs) else torch.sigmoid(inputs)


def _by_tanh(inputs: Tensor) -> bool:
    return inputs.device.type == "cpu" and not torch.is_grad_enabled() and not torch.compiler.is_compiling()


class SquaredRelu(nn.Module):
    """max(0, x)² (So et al. 2021, https://arxiv.org/abs/2109.08668)."""

    def forward(self, inputs: Tensor) -> Tensor:
        return F.relu(inputs).square()


class Silu(nn.Module):
    """x σ(x) (Elfwing et al. 2018, https://arxiv.org/abs/1702.03118); see `sigmoid`."""

    def forward(self, inputs: Tensor) -> Tensor:
        return sigmoid(inputs).mul_(inputs) if _by_tanh(inputs) else F.silu(inputs)


class GeluTanh(nn.Module):
    """x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, nearly the Gaussian unit (Hendrycks & Gimpel 2016,
    https://arxiv.org/abs/1606.08415); see `sigmoid`."""

    def forward(self, inputs: Tensor) -> Tensor:
        if not _by_tanh(inputs):
            return F.gelu(inputs, approximate="tanh")
        inner = torch.addcmul(inputs, inputs.square(), inputs, value=0.044715).mul_(math.sqrt(2 / math.pi))
        return inner.tanh_().add_(1).mul_(inputs).mul_(0.5)


ACTIVATIONS: dict[InnerActivation, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "squared-relu": SquaredRelu,
    "gelu": nn.GELU,
    "gelu-tanh": GeluTanh,
    "silu": Silu,
}
"""φ of a position-wise network."""
