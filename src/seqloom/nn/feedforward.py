"""A feed-forward network over a window of recent words."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqloom.config.schema.language import FeedForwardFeatures
from seqloom.nn.dropout import Dropout
from seqloom.nn.features import FeatureLayer
from seqloom.nn.linear import Linear, linear, settled
from seqloom.nn.state import State


class FeedForward(FeatureLayer):
    """The neural probabilistic language model (Bengio et al. 2003, JMLR 3:1137-1155), made deeper with residuals.

    x   = [e_{t-n+1}; ...; e_t]                     the last n = `context` vectors; zeros before the start
    h_1 = tanh(H x + d),    h_l = h_{l-1} + tanh(H_l h_{l-1} + d_l)
    h   = h_L + W x                                 the direct connection of the paper
    """

    carries = True
    joins = True

    def __init__(self, config: FeedForwardFeatures, input_size: int) -> None:
        super().__init__()
        size = config.size
        self.input_size = input_size
        self.output_size = size
        self.context = config.context
        # H and W together, as a convolution over time: on the processor it sees every window without writing them out
        self.window = nn.Conv1d(input_size, 2 * size, config.context)
        self.hidden = nn.ModuleList(Linear(size, size) for _ in range(config.layers - 1))
        self.dropout = Dropout(config.dropout)

    def start(self, size: int, like: Tensor) -> State:
        return State({"inputs": like.new_zeros(size, self.context - 1, self.input_size)})

    def forward(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        time = inputs.size(1)
        sequence = torch.cat([state["inputs"], inputs], dim=1)  # [batch, context - 1 + time, input_size]
        if inputs.is_cuda or (time == 1 and settled(self.window.weight)):
            both = self.by_product(sequence)
        else:
            both = self.window(sequence.transpose(1, 2)).transpose(1, 2)  # [batch, time, 2 · size]
        first, direct = both.chunk(2, dim=-1)
        hidden = torch.tanh(first)
        for layer in self.hidden:
            hidden = hidden + torch.tanh(layer(self.dropout(hidden)))
        return self.dropout(hidden + direct), State({"inputs": sequence[:, time:]}, state.position + time)

    def by_product(self, sequence: Tensor) -> Tensor:
        """What the convolution gives, by one product with windows that are written out, which a GPU does in less time:
        [batch, context - 1 + time, input_size] -> [batch, time, 2 · size]."""
        windows = sequence.unfold(1, self.context, 1).flatten(2)  # [batch, time, input_size · context]
        return linear(windows, self.window.weight, self.window.bias)
