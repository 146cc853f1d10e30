"""The Transformer decoder: masked self-attention over the words so far, then attention over the memory."""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from seqloom.config.schema.transformer import TransformerShape, WordTransformer
from seqloom.nn.alignment import ContextAttention, share
from seqloom.nn.attention import MultiHeadAttention
from seqloom.nn.cache import with_history
from seqloom.nn.decoders.base import Decoder, MemoryAttention, Reading
from seqloom.nn.encoders import Encoding
from seqloom.nn.layers import fit_size
from seqloom.nn.linear import Linear
from seqloom.nn.norms import Stream, make_residual
from seqloom.nn.positions import causal_positions
from seqloom.nn.starts import start_evenly
from seqloom.nn.state import State
from seqloom.nn.transformer import CachedBlock, TransformerStack, View, causal_view


class Cache(NamedTuple):
    """Keys and values [rows, heads, steps, head size]."""

    keys: Tensor
    values: Tensor


class CrossAttention(MultiHeadAttention):
    """Multi-head attention from the decoder to the memory (Vaswani et al. 2017, section 3.2.3).

    Keys and values are made once per source; its hypotheses meet them folded together (`share`), and nothing is copied.
    """

    def __init__(self, config: TransformerShape, memory_size: int) -> None:
        super().__init__(config)
        inner, memory = self.heads * self.head_size, self.memory_heads * self.head_size
        self.parts = (memory, memory)  # keys, values
        self.query = Linear(config.size, inner, bias=config.bias)
        self.memory = Linear(memory_size, sum(self.parts), bias=config.bias)
        self.output = Linear(inner, config.size, bias=config.bias)

    def prepare(self, memory: Tensor) -> Cache:
        """memory [sources, places, memory_size] -> keys and values [sources, heads, places, head_size]."""
        together = self.memory(memory).unflatten(-1, (2, self.memory_heads, self.head_size))
        keys, values = together.permute(2, 0, 3, 1, 4)
        return Cache(self.prepare_keys(keys).contiguous(), self.shared(values).contiguous())

    def forward(self, inputs: Tensor, cache: Cache, mask: Tensor) -> Tensor:
        """inputs [rows, time, size], mask [sources, places] -> [rows, time, size]."""
        attended = self.attend(self._queries(inputs, cache.keys), *cache, mask[:, None, None], causal=False)
        return attended.reshape(inputs.shape)

    def weights(self, inputs: Tensor, keys: Tensor, mask: Tensor) -> Tensor:
        """How much each step looks at each place, the mean over heads: [rows, time, places]."""
        queries = self._queries(inputs, keys)
        energies = (queries @ keys.mT).float() / math.sqrt(self.head_size)
        absent = ~mask[:, None, None]
        weights = energies.masked_fill(absent, torch.finfo(energies.dtype).min).softmax(-1).masked_fill(absent, 0.0)
        return weights.mean(1).reshape(*inputs.shape[:2], -1)

    def _queries(self, inputs: Tensor, keys: Tensor) -> Tensor:
        """[sources, heads, hypotheses · time, head_size]"""
        folded = self.query(share(inputs, keys.size(0)))
        return self.prepare_queries(folded.unflatten(-1, (self.heads, self.head_size)).transpose(1, 2))


class DecoderLayer(CachedBlock):
    """Self-attention, attention over the memory, then a position-wise network."""

    def __init__(self, config: TransformerShape, memory_size: int) -> None:
        super().__init__(config)
        self.cross = CrossAttention(config, memory_size)
        self.cross_norm = make_residual(config)

    def start_evenly(self) -> None:
        super().start_evenly()
        start_evenly(self.cross.memory, self.cross.parts)
        for layer in (self.cross.query, self.cross.output):
            start_evenly(layer)
        self.cross.start_queries(self.cross.query.weight)

    def forward(
        self, inputs: Stream, state: State, view: View, source: Cache, mask: Tensor
    ) -> tuple[Stream, State, Tensor]:
        """inputs [rows, time, size] -> outputs of the same shape, the state after them, what the memory was asked
        with."""
        stream, after = self.recall(inputs, state, view)
        asking, hidden = self.cross_norm.before(stream)
        return self.think(self.cross_norm.after(hidden, self.cross(asking, source, mask))), after, asking


class TransformerDecoder(TransformerStack[DecoderLayer], Decoder):
    """Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), section 3.1.

    The state holds that of each layer, `layer{l}.keys` and `layer{l}.values` (see `CachedBlock`), and, shared by the
    hypotheses of a source, `layer{l}.source_keys`, `layer{l}.source_values` and `mask`.
    """

    joins = True

    def __init__(self, config: WordTransformer, input_size: int, memory_size: int) -> None:
        make_layer = partial(DecoderLayer, config, memory_size)
        super().__init__(config, fit_size(input_size, config.size), causal_positions(config), make_layer)
        for layer in self.layers:
            layer.start_evenly()

    def start(self, encoding: Encoding) -> State:
        state = State(shared={"mask": encoding.mask})
        for depth, layer in enumerate(self.layers):
            own = layer.start(encoding.memory.size(0), encoding.memory)
            own.shared["source_keys"], own.shared["source_values"] = layer.cross.prepare(encoding.memory)
            state.put(f"layer{depth}", own)
        return state

    def forward(self, inputs: Tensor, state: State) -> tuple[Reading, State]:
        hidden = self.embed(inputs, state.position)
        view = causal_view(self.positions, state, hidden)
        mask = state.of_sources("mask")
        after = state.after({}, inputs.size(1))
        stream: Stream = hidden
        for depth, layer in enumerate(self.layers):
            name = f"layer{depth}"
            source = Cache(state.of_sources(f"{name}.source_keys"), state.of_sources(f"{name}.source_values"))
            stream, own, asking = layer(stream, state.part(name), view, source, mask)
            after.put(name, own)
        last = layer.cross
        return Reading(self.finish(stream), lambda: last.weights(asking, source.keys, mask)), after

    def reserve(self, state: State, steps: int) -> State:
        return with_history(state, steps)


class SecondLook(Decoder):
    """A decoder whose features look at the memory once more, with one attention of any kind: h + W c.

    So a Transformer, too, can have attention that knows what was covered, and one distribution to copy by.
    """

    def __init__(self, decoder: Decoder, memory_size: int, attention: ContextAttention) -> None:
        super().__init__()
        self.decoder = decoder
        self.output_size = decoder.output_size
        self.sequential, self.joins = decoder.sequential, decoder.joins
        self.memory_attention = MemoryAttention(attention)
        self.context = Linear(memory_size, decoder.output_size, bias=False)

    def start(self, encoding: Encoding) -> State:
        state = State()
        state.put("decoder", self.decoder.start(encoding))
        state.put("attention", self.memory_attention.start(encoding))
        return state

    def forward(self, inputs: Tensor, state: State) -> tuple[Reading, State]:
        reading, inner = self.decoder(inputs, state.part("decoder"))
        contexts, weights, looked = self.memory_attention(reading.features, state.part("attention"))
        after = state.after({}, inputs.size(1))
        after.put("decoder", inner)
        after.put("attention", looked)
        return Reading(reading.features + self.context(contexts), lambda: weights), after

    def reserve(self, state: State, steps: int) -> State:
        inner = self.decoder.reserve(state.part("decoder"), steps)
        rows = {name: tensor for name, tensor in state.items() if not name.startswith("decoder.")}
        larger = State(rows, state.position, dict(state.shared), state.owners)
        larger.put("decoder", inner)
        return larger
