"""Several layers become one."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class ScalarMix(nn.Module):
    """ELMo_t = γ Σ_j s_j h_{t,j},  s = softmax(w)  (Peters et al. 2018, equation 1): weights and scale are learned.

    Every h_{t,j} is first normalised (their section 3.2) to mean 0 and length 1, so that no layer counts for more
    because its numbers are larger, and the mixture begins as long as the static vectors that may stand beside it.
    """

    def __init__(self, layers: int) -> None:
        super().__init__()
        self.logits = nn.Parameter(torch.zeros(layers))
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, layers: Tensor) -> Tensor:
        """layers [..., layers, width] -> [..., width]."""
        alike = F.layer_norm(layers, layers.shape[-1:]) / layers.size(-1) ** 0.5
        return self.scale * torch.einsum("...jw,j->...w", alike, self.weights.to(alike.dtype))

    @property
    def weights(self) -> Tensor:
        """s: how much each layer counts; they sum to 1."""
        return self.logits.softmax(0)
