"""Changing a gradient on its way back."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


class _ScaleGradient(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, tensor: Tensor, factor: float) -> Tensor:
        ctx.factor = factor
        return tensor.view_as(tensor)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        return gradient * ctx.factor, None


def scale_gradient(tensor: Tensor, factor: float) -> Tensor:
    """The same tensor; its gradient is multiplied by `factor` (0 cuts it, 1/π makes up for random cuts)."""
    return _ScaleGradient.apply(tensor, factor)
