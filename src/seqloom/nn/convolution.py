"""Causal gated convolutions."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.language import ConvolutionFeatures
from seqloom.nn.dropout import Dropout
from seqloom.nn.features import FeatureLayer
from seqloom.nn.layers import fit_size
from seqloom.nn.linear import linear, settled
from seqloom.nn.state import State


class CausalConvolution(nn.Module):
    """One gated layer: (X∗W + b) ⊗ σ(X∗V + c), where step t sees the inputs t, t - dilation, ..., and none later."""

    def __init__(self, size: int, kernel: int, dilation: int, dropout: float) -> None:
        super().__init__()
        self.span = (kernel - 1) * dilation
        """How many earlier inputs a step sees."""
        self.convolution = nn.Conv1d(size, 2 * size, kernel, dilation=dilation)
        self.dropout = Dropout(dropout)

    def forward(self, inputs: Tensor, history: Tensor) -> tuple[Tensor, Tensor]:
        """inputs [batch, size, time], history [batch, size, span] -> outputs [batch, size, time], the next history."""
        sequence = torch.cat([history, inputs], dim=2)
        if inputs.size(2) == 1 and settled(self.convolution.weight):
            seen = self.dropout(sequence)[:, :, :: self.convolution.dilation[0]].flatten(1)
            both = linear(seen, self.convolution.weight, self.convolution.bias).unsqueeze(2)
        else:
            both = self.convolution(self.dropout(sequence))
        return F.glu(both, dim=1), sequence[:, :, inputs.size(2) :]


class Convolution(FeatureLayer):
    """Gated convolutional network (Dauphin et al. 2017, https://arxiv.org/abs/1612.08083).

    h_l = (h_{l-1} + GLU_l(h_{l-1})) · √½; the factor keeps the variance of the sum (Gehring et al. 2017,
    https://arxiv.org/abs/1705.03122). With `dilated`, layer l skips 2^l steps, so the field of view doubles per layer.
    """

    carries = True
    joins = True

    def __init__(self, config: ConvolutionFeatures, input_size: int) -> None:
        super().__init__()
        self.output_size = config.size
        self.project = fit_size(input_size, config.size)
        dilations = [2**depth if config.dilated else 1 for depth in range(config.layers)]
        stack = [CausalConvolution(config.size, config.kernel, dilation, config.dropout) for dilation in dilations]
        self.layers = nn.ModuleList(stack)
        self.spans = {f"layer{depth}.inputs": layer.span for depth, layer in enumerate(stack)}
        self.dropout = Dropout(config.dropout)

    def start(self, size: int, like: Tensor) -> State:
        return State({name: like.new_zeros(size, self.output_size, span) for name, span in self.spans.items()})

    def forward(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        after = State(position=state.position + inputs.size(1))
        hidden = self.project(inputs).transpose(1, 2)  # [batch, size, time]
        for layer, name in zip(self.layers, self.spans, strict=True):
            gated, after[name] = layer(hidden, state[name])
            hidden = (hidden + gated) * math.sqrt(0.5)
        return self.dropout(hidden.transpose(1, 2)), after
