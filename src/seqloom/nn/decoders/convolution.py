"""A convolutional decoder: gated convolutions over the words so far, attention in every layer."""

from __future__ import annotations

from torch import Tensor, nn

from seqloom.config.schema.seq2seq import ConvolutionDecoderConfig
from seqloom.nn.alignment import build_attention
from seqloom.nn.convolution import CausalConvolution
from seqloom.nn.decoders.base import Decoder, MemoryAttention, Reading
from seqloom.nn.dropout import Dropout
from seqloom.nn.encoders import HALF, Encoding
from seqloom.nn.layers import Layers, fit_size
from seqloom.nn.linear import Linear
from seqloom.nn.positions import added_positions
from seqloom.nn.state import State


class ConvolutionDecoderLayer(nn.Module):
    """One step of multi-step attention: a gated convolution, whose outputs look at the memory."""

    def __init__(self, config: ConvolutionDecoderConfig, memory_size: int) -> None:
        super().__init__()
        size = config.size
        attention = build_attention(config.attention, size, memory_size)
        self.convolution = CausalConvolution(size, config.kernel, 1, config.dropout)
        self.query = Linear(size, size)
        self.memory_attention = MemoryAttention(attention)
        self.context = Linear(memory_size, size)

    def start(self, encoding: Encoding) -> State:
        """The state before the first word."""
        state = self.memory_attention.start(encoding)
        size = self.query.in_features
        state["inputs"] = encoding.memory.new_zeros(len(encoding.memory), size, self.convolution.span)
        return state

    def forward(self, hidden: Tensor, words: Tensor, state: State) -> tuple[Tensor, Tensor, State]:
        """hidden and words [rows, time, size] -> outputs of the same shape, weights [rows, time, places], the state."""
        gated, history = self.convolution(hidden.transpose(1, 2), state["inputs"])
        gated = gated.transpose(1, 2)
        contexts, weights, after = self.memory_attention((self.query(gated) + words) * HALF, state)
        after["inputs"] = history
        attended = (gated + self.context(contexts)) * HALF
        return (hidden + attended) * HALF, weights, after


class ConvolutionDecoder(Decoder):
    """Gehring et al. 2017 (https://arxiv.org/abs/1705.03122), sections 3.2 and 3.3:

    d_l = (W h_l + e) √½ asks with what the convolutions of layer l know and with the last word e itself; the context
    c_l that it gets is added to h_l before layer l + 1 reads it, so that later layers know what earlier ones looked at.
    A convolutional encoder puts the source's words themselves into c_l, beside what it made of them.
    """

    joins = True

    def __init__(self, config: ConvolutionDecoderConfig, input_size: int, memory_size: int) -> None:
        super().__init__()
        self.output_size = config.size
        self.project = fit_size(input_size, config.size)
        self.positions = added_positions(config)
        self.dropout = Dropout(config.dropout)
        self.layers: Layers[ConvolutionDecoderLayer] = Layers(
            ConvolutionDecoderLayer(config, memory_size) for _ in range(config.layers)
        )

    def start(self, encoding: Encoding) -> State:
        state = State()
        for depth, layer in enumerate(self.layers):
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
