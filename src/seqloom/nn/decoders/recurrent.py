"""Recurrent decoders: with one vector for the whole source, or with attention over its memory."""

from __future__ import annotations

import torch
from torch import Tensor

from seqloom.config.schema.language import (
    CoupledLstmFeatures,
    GruFeatures,
    LstmFeatures,
    PeepholeLstmFeatures,
    RnnFeatures,
    SomeRecurrentFeatures,
)
from seqloom.config.schema.seq2seq import RecurrentDecoderConfig, RecurrentKind
from seqloom.nn.alignment import ContextAttention
from seqloom.nn.decoders.base import Decoder, MemoryAttention, Reading
from seqloom.nn.dropout import Dropout
from seqloom.nn.encoders import Encoding
from seqloom.nn.linear import Linear
from seqloom.nn.recurrent import Recurrent
from seqloom.nn.state import State

NETWORKS: dict[RecurrentKind, type[SomeRecurrentFeatures]] = {
    "rnn": RnnFeatures,
    "lstm": LstmFeatures,
    "lstm-peephole": PeepholeLstmFeatures,
    "lstm-coupled": CoupledLstmFeatures,
    "gru": GruFeatures,
}


class RecurrentDecoder(Decoder):
    """A recurrent network that begins with what the source comes to as one vector s:

    h_0 = tanh(W s),  h_t = f(e_t, h_{t-1});  s is the encoder's last state, or the sum of all.
    """

    sequential = True
    joins = True

    def __init__(self, config: RecurrentDecoderConfig, input_size: int, memory_size: int) -> None:
        super().__init__()
        self.output_size = config.size
        self.summary = config.summary
        network = NETWORKS[config.kind](
            size=config.size,
            layers=config.layers,
            dropout=config.dropout,
            hidden_dropout=config.dropout,
            variational=False,
        )
        reads_source = config.feed or config.attends == "before"  # at every step, beside the word
        self.network = Recurrent(network, input_size + memory_size if reads_source else input_size)
        self.bridge = Linear(memory_size, sum(self.network.widths.values()))

    def start(self, encoding: Encoding) -> State:
        widths = self.network.widths
        beginnings = self.bridge(self.summarise(encoding)).tanh().split(list(widths.values()), dim=1)
        pieces = [beginning.contiguous() for beginning in beginnings]  # as cuDNN wants them
        state = State()
        state.put("network", State(dict(zip(widths, pieces, strict=True))))
        return state

    def summarise(self, encoding: Encoding) -> Tensor:
        """s: [batch, memory_size]."""
        return encoding.last if self.summary == "last" else encoding.memory.sum(1)

    def advance(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        """The network's outputs for inputs [rows, time, ...], and the state after them, without what is looked at."""
        hidden, network = self.network(inputs, state.part("network"))
        after = state.after({}, inputs.size(1))
        after.put("network", network)
        return hidden, after


class PlainDecoder(RecurrentDecoder):
    """Without attention (Sutskever et al. 2014, https://arxiv.org/abs/1409.3215): the source is one vector.

    With `feed`, the network reads it at every step too, not only at the first: h_t = f([e_t, s], h_{t-1}) (Cho et al.
    2014, https://arxiv.org/abs/1406.1078), so that it cannot be forgotten on the way.
    """

    def __init__(self, config: RecurrentDecoderConfig, input_size: int, memory_size: int) -> None:
        super().__init__(config, input_size, memory_size)
        self.feed = config.feed

    def start(self, encoding: Encoding) -> State:
        state = super().start(encoding)
        shared = {"mask": encoding.mask, "summary": self.summarise(encoding)}
        return State(dict(state), shared=shared)

    def forward(self, inputs: Tensor, state: State) -> tuple[Reading, State]:
        time = inputs.size(1)
        if self.feed:
            summary = state.of_rows("summary").unsqueeze(1).expand(-1, time, -1)
            inputs = torch.cat([inputs, summary], dim=2)
        hidden, after = self.advance(inputs, state)
        return Reading(hidden, lambda: _evenly(state.of_rows("mask"), time)), after


class AttentiveDecoder(RecurrentDecoder):
    """With attention after the step (Luong et al. 2015, https://arxiv.org/abs/1508.04025, section 3.1): the state h_t
    asks, and

    h̃_t = tanh(W [c_t, h_t]),  c_t = Σ_s α(h_t, m_s) m_s

    is what the next word is predicted from. The network does not wait for what attention sees, so that all steps of a
    known target run through it at once.
    """

    def __init__(
        self, config: RecurrentDecoderConfig, input_size: int, memory_size: int, attention: ContextAttention
    ) -> None:
        super().__init__(config, input_size, memory_size)
        self.memory_attention = MemoryAttention(attention)
        self.combine = Linear(memory_size + config.size, config.size)
        self.dropout = Dropout(config.dropout)

    def start(self, encoding: Encoding) -> State:
        state = super().start(encoding)
        state.put("attention", self.memory_attention.start(encoding))
        return state

    def forward(self, inputs: Tensor, state: State) -> tuple[Reading, State]:
        hidden, after = self.advance(inputs, state)
        contexts, weights, looked = self.memory_attention(hidden, state.part("attention"))
        after.put("attention", looked)
        return self.conclude([contexts, hidden], weights), after

    def conclude(self, known: list[Tensor], weights: Tensor) -> Reading:
        """What the next words are predicted from: a layer over what is known at each step, [rows, time, ...] each."""
        features = self.combine(torch.cat(known, dim=2)).tanh()
        return Reading(self.dropout(features), lambda: weights)


class LookFirstDecoder(AttentiveDecoder):
    """With attention before the step (Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473, section 3.1): the state
    h_{t-1} asks, and the network reads the answer beside the last word,

    c_t = Σ_s α(h_{t-1}, m_s) m_s,  h_t = f([e_t, c_t], h_{t-1}),  h̃_t = tanh(W [c_t, h_t, e_t])

    The paper has one layer, and maxout instead of tanh. In a stack, the state of the top layer asks, from which words
    are predicted, and the first layer reads the answer. Every step waits for the one before, known targets or not.
    """

    def __init__(
        self, config: RecurrentDecoderConfig, input_size: int, memory_size: int, attention: ContextAttention
    ) -> None:
        super().__init__(config, input_size, memory_size, attention)
        self.combine = Linear(memory_size + config.size + input_size, config.size)
        hidden, *_ = self.network.memory[-1]
        self.asking = f"network.{hidden}"

    def forward(self, inputs: Tensor, state: State) -> tuple[Reading, State]:
        steps = []
        for word in inputs.split(1, dim=1):
            context, weights, looked = self.memory_attention(state[self.asking].unsqueeze(1), state.part("attention"))
            hidden, state = self.advance(torch.cat([word, context], dim=2), state)
            state.put("attention", looked)
            steps.append((context, hidden, weights))
        contexts, hidden, weights = (torch.cat(parts, dim=1) for parts in zip(*steps, strict=True))
        return self.conclude([contexts, hidden, inputs], weights), state


def _evenly(mask: Tensor, time: int) -> Tensor:
    """A decoder without attention sees all places of its source alike: mask [rows, places] -> [rows, time, places]."""
    real = mask.float()
    return (real / real.sum(1, keepdim=True).clamp(min=1)).unsqueeze(1).expand(-1, time, -1)
