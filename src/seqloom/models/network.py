"""What all models made of layers share."""

from __future__ import annotations

import torch
from torch import nn


class Network(nn.Module):
    """A model whose parameters are those of its layers."""

    @property
    def device(self) -> torch.device:
        """Where the model runs."""
        return next(self.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        """What it computes in."""
        return next(self.parameters()).dtype

    @property
    def parameter_count(self) -> int:
        """How many weights there are, tied ones counted once."""
        return sum(parameter.numel() for parameter in self.parameters())
