"""The Transformer decoder: masked self-attention over the words so far, then attention over the memory."""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn

from seqloom.nn.alignment import ContextAttention, share
from seqloom.nn.attention import attend
from seqloom.nn.cache import extend, valid, with_history
from seqloom.nn.decoders.base import Decoder, Glance, Reading
from seqloom.nn.dropout import Dropout
from seqloom.nn.encoders import Encoding
from seqloom.nn.starts import start_evenly
from seqloom.nn.state import History, Position, State
from seqloom.nn.transformer import NORMS, PositionKind, TransformerBlock, View, causal_view, make_positions


class Cache(NamedTuple):
    """Keys and values [rows, heads, steps, head size]."""

    keys: Tensor
    values: Tensor


class CrossAttention(nn.Module):
    """Multi-head attention from the decoder to the memory (Vaswani et al. 2017, section 3.2.3).

    Keys and values are made once per source; its hypotheses meet them folded together (`share`), and nothing is copied.
    """

    def __init__(self, size: int, memory_size: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads = heads
        self.head_size = size // heads
        self.dropout = dropout
        self.query = nn.Linear(size, size)
        self.memory = nn.Linear(memory_size, 2 * size)  # keys, values
        self.output = nn.Linear(size, size)

    def prepare(self, memory: Tensor) -> Cache:
        """memory [sources, places, memory_size] -> keys and values [sources, heads, places, head_size]."""
        together = self.memory(memory).unflatten(-1, (2, self.heads, self.head_size))
        keys, values = together.permute(2, 0, 3, 1, 4)
        return Cache(keys.contiguous(), values.contiguous())

    def forward(self, inputs: Tensor, cache: Cache, mask: Tensor) -> Tensor:
        """inputs [rows, time, size], mask [sources, places] -> [rows, time, size]."""
        dropout = self.dropout if self.training else 0.0
        attended = attend(self._queries(inputs, cache), *cache, mask[:, None, None], False, dropout)
        return self.output(attended.transpose(1, 2).reshape(inputs.shape))

    def weights(self, inputs: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        """How much each step looks at each place, the mean over heads: [rows, time, places]."""
        queries = self._queries(inputs, Cache(keys, keys))
        energies = (queries @ keys.mT).float() / math.sqrt(self.head_size)
        absent = ~mask[:, None, None]
        weights = energies.masked_fill(absent, torch.finfo(energies.dtype).min).softmax(-1).masked_fill(absent, 0.0)
        return weights.mean(1).reshape(*inputs.shape[:2], -1)

    def _queries(self, inputs: Tensor, cache: Cache) -> Tensor:
        """[sources, heads, hypotheses · time, head_size]"""
        folded = self.query(share(inputs, len(cache.keys)))
        return folded.unflatten(-1, (self.heads, self.head_size)).transpose(1, 2)


class DecoderLayer(TransformerBlock):
    """Self-attention, attention over the memory, then a position-wise network."""

    def __init__(
        self, size: int, memory_size: int, heads: int, inner: int, dropout: float, norm: str, activation: str
    ) -> None:
        super().__init__(size, heads, inner, dropout, norm, activation)
        self.cross = CrossAttention(size, memory_size, heads, dropout)
        self.cross_norm = NORMS[norm](size, dropout)

    def start_evenly(self) -> None:
        super().start_evenly()
        start_evenly(self.cross.memory, parts=2)
        for layer in (self.cross.query, self.cross.output):
            start_evenly(layer)

    def forward(
        self, inputs: Tensor, past: Cache | History, position: Position, view: View, source: Cache, mask: Tensor
    ) -> tuple[Tensor, Cache | History, Tensor]:
        """inputs [rows, time, size] -> outputs of the same shape, the longer past, what the memory was asked with."""
        queries, new_keys, new_values = self.project(inputs, view)
        now = past
        if isinstance(past, History):
            attended = self.attention.look_back(queries, new_keys, new_values, past, position, view.mask)
        else:
            end = position + inputs.size(1)
            now = Cache(extend(past.keys, new_keys, position), extend(past.values, new_values, position))
            attended = self.attention(queries, valid(now.keys, end), valid(now.values, end), view.mask, view.causal)
        hidden = self.attention_norm.after(inputs, attended)
        asking = self.cross_norm.before(hidden)
        hidden = self.cross_norm.after(hidden, self.cross(asking, source, mask))
        return self.think(hidden), now, asking


class TransformerDecoder(Decoder):
    """Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), section 3.1.

    The state holds `layer{l}.keys` and `.values` of the words so far, [rows, heads, capacity, head_size], of which the
    first `position` steps are valid, in a history once there is a reserve; shared by the hypotheses of a source,
    `layer{l}.source_keys`, `.source_values` and `mask`.
    """

    def __init__(
        self,
        input_size: int,
        memory_size: int,
        size: int = 256,
        layers: int = 4,
        heads: int = 4,
        feedforward: int | None = None,
        dropout: float = 0.0,
        positions: PositionKind = "sinusoidal",
        norm: Literal["pre", "post"] = "pre",
        activation: Literal["gelu", "relu"] = "gelu",
        context: int = 1024,
    ) -> None:
        super().__init__()
        self.input_size = input_size
        self.output_size = size
        self.heads = heads
        self.project = nn.Linear(input_size, size) if input_size != size else nn.Identity()
        self.positions = make_positions(positions, size, heads, context)
        self.dropout = Dropout(dropout)
        inner = feedforward or 4 * size
        stack = [DecoderLayer(size, memory_size, heads, inner, dropout, norm, activation) for _ in range(layers)]
        for layer in stack:
            layer.start_evenly()
        self.layers = nn.ModuleList(stack)
        self.norm = nn.LayerNorm(size) if norm == "pre" else nn.Identity()  # post-norm layers end with one already

    def start(self, encoding: Encoding) -> State:
        state = State(shared={"mask": encoding.mask})
        rows = len(encoding.memory)
        empty = encoding.memory.new_zeros(rows, self.heads, 0, self.output_size // self.heads)
        for depth, layer in enumerate(self.layers):
            assert isinstance(layer, DecoderLayer)
            source = layer.cross.prepare(encoding.memory)
            shared = {"source_keys": source.keys, "source_values": source.values}
            state.put(f"layer{depth}", State({"keys": empty, "values": empty}, shared=shared))
        return state

    def forward(self, inputs: Tensor, state: State) -> tuple[Reading, State]:
        hidden = self.dropout(self.positions.embed(self.project(inputs), state.position))
        view = causal_view(self.positions, state, hidden)
        mask = state.of_sources("mask")
        after = state.after({}, inputs.size(1))
        for depth, layer in enumerate(self.layers):
            name = f"layer{depth}"
            own = state.part(name)
            past = own.history or Cache(own["keys"], own["values"])
            source = Cache(state.of_sources(f"{name}.source_keys"), state.of_sources(f"{name}.source_values"))
            hidden, now, asking = layer(hidden, past, state.position, view, source, mask)
            if isinstance(now, Cache):
                after[f"{name}.keys"], after[f"{name}.values"] = now
        assert isinstance(layer, DecoderLayer)
        last = layer.cross
        return Reading(self.norm(hidden), lambda: last.weights(asking, source.keys, mask)), after

    def reserve(self, state: State, steps: int) -> State:
        return with_history(state, steps)


class SecondLook(Decoder):
    """A decoder whose features look at the memory once more, with one attention of any kind: h + W c.

    So a Transformer, too, can have attention that knows what was covered, and one distribution to copy by.
    """

    def __init__(self, decoder: Decoder, memory_size: int, attention: ContextAttention) -> None:
        super().__init__()
        self.decoder = decoder
        self.input_size, self.output_size = decoder.input_size, decoder.output_size
        self.sequential = decoder.sequential
        self.glance = Glance(attention)
        self.context = nn.Linear(memory_size, decoder.output_size, bias=False)

    def start(self, encoding: Encoding) -> State:
        state = State()
        state.put("decoder", self.decoder.start(encoding))
        state.put("glance", self.glance.start(encoding))
        return state

    def forward(self, inputs: Tensor, state: State) -> tuple[Reading, State]:
        reading, inner = self.decoder(inputs, state.part("decoder"))
        contexts, weights, glance = self.glance(reading.features, state.part("glance"))
        after = state.after({}, inputs.size(1))
        after.put("decoder", inner)
        after.put("glance", glance)
        return Reading(reading.features + self.context(contexts), lambda: weights), after

    def reserve(self, state: State, steps: int) -> State:
        inner = self.decoder.reserve(state.part("decoder"), steps)
        rows = {name: tensor for name, tensor in state.items() if not name.startswith("decoder.")}
        larger = State(rows, state.position, dict(state.shared), state.owners)
        larger.put("decoder", inner)
        return larger
