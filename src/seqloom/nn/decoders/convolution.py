"""A convolutional decoder: gated convolutions over the words so far, attention in every layer."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal

from torch import Tensor, nn

from seqloom.nn.alignment import ContextAttention
from seqloom.nn.convolution import CausalConvolution
from seqloom.nn.decoders.base import Decoder, Glance, Reading
from seqloom.nn.dropout import Dropout
from seqloom.nn.encoders import Encoding
from seqloom.nn.state import State
from seqloom.nn.transformer import make_positions

HALF = math.sqrt(0.5)  # keeps the variance of a sum of two


class ConvolutionDecoderLayer(nn.Module):
    """One step of multi-step attention: a gated convolution, whose outputs look at the memory."""

    def __init__(self, size: int, memory_size: int, kernel: int, dropout: float, attention: ContextAttention) -> None:
        super().__init__()
        self.convolution = CausalConvolution(size, kernel, 1, dropout)
        self.query = nn.Linear(size, size)
        self.glance = Glance(attention)
        self.context = nn.Linear(memory_size, size)

    def start(self, encoding: Encoding) -> State:
        """The state before the first word."""
        state = self.glance.start(encoding)
        size = self.query.in_features
        state["inputs"] = encoding.memory.new_zeros(len(encoding.memory), size, self.convolution.span)
        return state

    def forward(self, hidden: Tensor, words: Tensor, state: State) -> tuple[Tensor, Tensor, State]:
        """hidden and words [rows, time, size] -> outputs of the same shape, weights [rows, time, places], the state."""
        gated, history = self.convolution(hidden.transpose(1, 2), state["inputs"])
        gated = gated.transpose(1, 2)
        contexts, weights, after = self.glance((self.query(gated) + words) * HALF, state)
        after["inputs"] = history
        attended = (gated + self.context(contexts)) * HALF
        return (hidden + attended) * HALF, weights, after


class ConvolutionDecoder(Decoder):
    """Gehring et al. 2017 (https://arxiv.org/abs/1705.03122), sections 3.2 and 3.3:

    d_l = (W h_l + e) √½ asks with what the convolutions of layer l know and with the last word e itself; the context
    c_l that it gets is added to h_l before layer l + 1 reads it, so that later layers know what earlier ones looked at.
    """

    def __init__(
        self,
        input_size: int,
        memory_size: int,
        attention: Callable[[int], ContextAttention],
        size: int = 256,
        layers: int = 4,
        kernel: int = 3,
        dropout: float = 0.0,
        positions: Literal["sinusoidal", "learned"] = "sinusoidal",
        context: int = 1024,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.output_size = size
        self.project = nn.Linear(input_size, size) if input_size != size else nn.Identity()
        self.positions = make_positions(positions, size, heads=1, context=context)
        self.dropout = Dropout(dropout)
        self.layers = nn.ModuleList(
            ConvolutionDecoderLayer(size, memory_size, kernel, dropout, attention(size)) for _ in range(layers)
        )

    def start(self, encoding: Encoding) -> State:
        state = State()
        for depth, layer in enumerate(self.layers):
            assert isinstance(layer, ConvolutionDecoderLayer)
            state.put(f"layer{depth}", layer.start(encoding))
        return state

    def forward(self, inputs: Tensor, state: State) -> tuple[Reading, State]:
        words = self.positions.embed(self.project(inputs), state.position)
        hidden = words
        after = state.after({}, inputs.size(1))
        for depth, layer in enumerate(self.layers):
            hidden, weights, inner = layer(hidden, words, state.part(f"layer{depth}"))
            after.put(f"layer{depth}", inner)
        return Reading(self.dropout(hidden), lambda: weights), after
