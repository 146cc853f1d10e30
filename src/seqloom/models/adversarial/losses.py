"""The losses of both players, of the logit s of D: -log D = softplus(-s), -log(1 - D) = softplus(s)."""

from __future__ import annotations

from typing import Literal

from torch import Tensor
from torch.nn.functional import softplus

GeneratorLoss = Literal["minimax", "non-saturating"]


def discriminator_loss(real: Tensor, made: Tensor, label_smoothing: float = 0.0) -> Tensor:
    """-(1 - ε) log D(x) - ε log(1 - D(x)) - log(1 - D(G(z))), of logits, pair by pair."""
    return (1 - label_smoothing) * softplus(-real) + label_smoothing * softplus(real) + softplus(made)


def generator_loss(made: Tensor, loss: GeneratorLoss) -> Tensor:
    """log(1 - D(G(z))) or -log D(G(z)), of logits, one by one."""
    return -softplus(made) if loss == "minimax" else softplus(-made)
