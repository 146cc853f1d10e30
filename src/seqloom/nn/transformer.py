"""The Transformer: the layers that all of them are made of, the stack they stand in, and the one that is a feature
layer, with masked self-attention over all words so far."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn

from seqloom.config.schema.language import TransformerFeatures
from seqloom.config.schema.transformer import TransformerShape
from seqloom.nn.activations import ACTIVATIONS
from seqloom.nn.attention import SelfAttention, attend_history, causal_mask
from seqloom.nn.cache import capacity, extend, valid, with_history
from seqloom.nn.dropout import Dropout
from seqloom.nn.features import FeatureLayer
from seqloom.nn.layers import Layers, fit_size
from seqloom.nn.linear import Linear, activated
from seqloom.nn.norms import Stream, make_norm, make_residual, normed, summed
from seqloom.nn.positions import Positions, causal_positions, rotate
from seqloom.nn.starts import start_evenly, start_small
from seqloom.nn.state import Position, State, by_row


class PositionWise(nn.Module):
    """The same two-layer network at every position: W₂ φ(W₁ x + b₁) + b₂."""

    things = 1
    """How many the first layer makes of a vector."""

    def __init__(self, config: TransformerShape) -> None:
        super().__init__()
        self.parts = (config.inner_size,) * self.things
        self.input = Linear(config.size, sum(self.parts), bias=config.bias)
        self.activation = ACTIVATIONS[config.activation]()
        self.dropout = Dropout(config.dropout)
        self.output = Linear(config.inner_size, config.size, bias=config.bias)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.output(self.dropout(activated(inputs, self.input, self.activation)))


class GatedPositionWise(PositionWise):
    """W₂ (φ(W₁ x + b₁) ⊗ (V x + c)) + b₂ (Shazeer 2020, https://arxiv.org/abs/2002.05202); W₁ and V are one matrix."""

    things = 2

    def forward(self, inputs: Tensor) -> Tensor:
        gate, values = self.input(inputs).chunk(2, dim=-1)
        return self.output(self.dropout(self.activation(gate) * values))


@dataclass(frozen=True)
class View:
    """What a window of queries may see, the same for all layers: see `Positions` and `MultiHeadAttention`."""

    mask: Tensor | None
    causal: bool
    rotation: Tensor | None


class TransformerBlock(nn.Module):
    """Self-attention, then a position-wise network, each with a residual connection and a norm."""

    compiles = True  # by the trainer, on request: all layers share one compilation

    def __init__(self, config: TransformerShape) -> None:
        super().__init__()
        self.attention = SelfAttention(config)
        self.attention_norm = make_residual(config)
        self.feedforward = GatedPositionWise(config) if config.gated else PositionWise(config)
        self.feedforward_norm = make_residual(config)

    def start_small(self, additions: int) -> None:
        """GPT-2: N(0, 0.02²), over √additions for what is one of so many additions to the residual stream."""
        for part in (self.attention, self.feedforward):
            start_small(part.input, 0.02)
            start_small(part.output, 0.02 * additions**-0.5)

    def start_evenly(self) -> None:
        """As in Vaswani et al.'s code, where a width of 128 learns faster than from GPT-2's small weights."""
        start_evenly(self.attention.input, self.attention.parts)
        self.attention.start_queries(self.attention.input.weight[: self.attention.parts[0]])
        start_evenly(self.attention.output)
        start_evenly(self.feedforward.input, self.feedforward.parts)
        start_evenly(self.feedforward.output)

    def project(self, reads: Tensor, view: View) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of what the block reads, turned by their positions where these are rotary."""
        queries, keys, values = self.attention.project(reads)
        if view.rotation is not None:
            queries, keys = rotate(queries, view.rotation), rotate(keys, view.rotation)
        return queries, keys, values

    def think(self, inputs: Stream) -> Stream:
        """The position-wise network, with its residual connection and norm."""
        reads, hidden = self.feedforward_norm.before(inputs)
        return self.feedforward_norm.after(hidden, self.feedforward(reads))


class EncoderLayer(TransformerBlock):
    """A block that reads a whole sentence at once."""

    def forward(self, inputs: Stream, view: View) -> Stream:
        """inputs [batch, time, size] -> outputs of the same shape."""
        reads, hidden = self.attention_norm.before(inputs)
        attended = self.attention.attend(*self.project(reads, view), view.mask, view.causal)
        return self.think(self.attention_norm.after(hidden, attended))


class CachedBlock(TransformerBlock):
    """A block that reads word after word, or window after window, and keeps the keys and values of all it has read.

    Its state is `keys` and `values`, [rows, heads, capacity, head_size], of which the first `position` steps are valid;
    in a history once there is a reserve.
    """

    def start(self, rows: int, like: Tensor) -> State:
        """The state before the first word."""
        empty = like.new_zeros(rows, self.attention.heads, 0, self.attention.head_size)
        return State({"keys": empty, "values": empty})

    def recall(self, inputs: Stream, state: State, view: View) -> tuple[Stream, State]:
        """Self-attention to these words and all before them, with its residual connection and norm, and the state
        after them: inputs [rows, time, size] -> the same shape."""
        reads, hidden = self.attention_norm.before(inputs)
        queries, new_keys, new_values = self.project(reads, view)
        if state.history and isinstance(state.position, Tensor):
            attended = self.attention.join(
                attend_history(queries, new_keys, new_values, state.history, state.position, view.mask)
            )
            # The stack counts steps: done by each of its layers, that would be a kernel for each.
            return self.attention_norm.after(hidden, attended), State({}, state.position, history=state.history)
        end = state.position + reads.size(1)
        keys = extend(state["keys"], new_keys, state.position)
        values = extend(state["values"], new_values, state.position)
        attended = self.attention.attend(queries, valid(keys, end), valid(values, end), view.mask, view.causal)
        return self.attention_norm.after(hidden, attended), State({"keys": keys, "values": values}, end)


class TransformerLayer(CachedBlock):
    """The block of a Transformer that reads nothing but words."""

    def forward(self, inputs: Stream, state: State, view: View) -> tuple[Stream, State]:
        """inputs [rows, time, size] -> outputs of the same shape, and the state after them."""
        hidden, after = self.recall(inputs, state, view)
        return self.think(hidden), after


Block = TypeVar("Block", bound=TransformerBlock)


class TransformerStack(nn.Module, Generic[Block]):
    """What all Transformers share, whatever they read and whatever their layers do:

    h_0 = dropout(positions(W x)),   h_l = layer_l(h_{l-1}),   norm(h_L)

    There may be a norm before the dropout. Layers that normalise their sums end with a norm already.
    """

    def __init__(
        self, config: TransformerShape, project: nn.Module, positions: Positions, make_layer: Callable[[], Block]
    ) -> None:
        """project: W, or nothing where the inputs have the right size."""
        super().__init__()
        self.output_size = config.size
        self.project = project
        self.positions = positions
        self.embedding_norm = make_norm(config, config.size) if config.embedding_norm else nn.Identity()
        self.dropout = Dropout(config.dropout)
        self.layers: Layers[Block] = Layers(make_layer() for _ in range(config.layers))
        self.norm = make_norm(config, config.size) if config.norm == "pre" else nn.Identity()

    def embed(self, inputs: Tensor, start: Position, places: Tensor | None = None) -> Tensor:
        """h_0 of inputs [rows, time, ...] that stand at the positions start, start + 1, ..., or at these places
        [rows, time]: [rows, time, size]."""
        vectors, positions = self.project(inputs), self.positions
        placed = positions.embed(vectors, start) if places is None else positions.embed_places(vectors, places)
        return self.dropout(self.embedding_norm(placed))

    def finish(self, stream: Stream) -> Tensor:
        """norm(h_L)."""
        return normed(stream, self.norm)[0]


class TransformerReader(TransformerStack[EncoderLayer]):
    """A stack that reads all that there is at once."""

    def __init__(self, config: TransformerShape, project: nn.Module, positions: Positions) -> None:
        super().__init__(config, project, positions, partial(EncoderLayer, config))
        for layer in self.layers:
            layer.start_evenly()

    def see(self, hidden: Tensor, view: View) -> Tensor:
        """norm(h_L) of h_0 [rows, time, size]."""
        stream: Stream = hidden
        for layer in self.layers:
            stream = layer(stream, view)
        return self.finish(stream)

    def see_layers(self, hidden: Tensor, view: View) -> list[Tensor]:
        """h_0, h_1, ..., norm(h_L) of h_0 [rows, time, size]."""
        found = [hidden]
        for layer in self.layers:
            found.append(summed(layer(found[-1], view)))
        return [*found[:-1], self.norm(found[-1])]


class Transformer(TransformerStack[TransformerLayer], FeatureLayer):
    """Decoder-only Transformer (Vaswani et al. 2017; Radford et al. 2019 for norms and initialisation).

    The state holds that of each layer, `layer{l}.keys` and `layer{l}.values`: see `CachedBlock`.
    """

    joins = True

    def __init__(self, config: TransformerFeatures, input_size: int) -> None:
        make_layer = partial(TransformerLayer, config)
        super().__init__(config, fit_size(input_size, config.size), causal_positions(config), make_layer)
        for layer in self.layers:
            layer.start_small(additions=2 * config.layers)

    def start(self, size: int, like: Tensor) -> State:
        state = State()
        for depth, layer in enumerate(self.layers):
            state.put(f"layer{depth}", layer.start(size, like))
        return state

    def forward(self, inputs: Tensor, state: State, begins: Tensor | None = None) -> tuple[Tensor, State]:
        """begins [batch, time], with an empty state: where in its row the unit of each place begins. Places see their
        own unit alone, and are counted from its beginning."""
        if begins is None:
            hidden = self.embed(inputs, state.position)
            view = causal_view(self.positions, state, hidden)
        else:
            hidden = self.embed(inputs, 0, torch.arange(inputs.size(1), device=inputs.device) - begins)
            view = unit_view(self.positions, begins, hidden)
        after = State(position=state.position + inputs.size(1))
        stream: Stream = hidden
        for depth, layer in enumerate(self.layers):
            stream, cache = layer(stream, state.part(f"layer{depth}"), view)
            after.put(f"layer{depth}", cache)
        return self.finish(stream), after

    def reserve(self, state: State, steps: int) -> State:
        return with_history(state, steps)


def causal_view(positions: Positions, state: State, hidden: Tensor) -> View:
    """What the words of hidden [batch, time, size], which come next, may see: those up to themselves.

    Where rows stand at places of their own, they see whole caches, and a mask says what of these counts. Where one
    position is a tensor, the history knows by itself what counts of it.
    """
    time, start = hidden.size(1), state.position
    rotation = positions.rotation(start, time, hidden)
    if by_row(start):
        length = capacity(start)
    elif isinstance(start, Tensor):
        assert state.history, "a position that is a tensor needs a history: see `reserve`"
        state.history.own(start)
        length = state.history.origins.size(1)
    else:
        length = start + time
    bias = positions.bias(start, time, length, hidden)
    if bias is not None:
        ahead = ~causal_mask(start, time, length, hidden.device)
        return View(bias.masked_fill(ahead, -torch.inf), False, rotation)
    if by_row(start):
        return View(causal_mask(start, time, length, hidden.device), False, rotation)
    if isinstance(start, Tensor):
        return View(None, False, rotation)
    if start == 0:
        return View(None, True, rotation)
    if time == 1:  # the last word sees all
        return View(None, False, rotation)
    return View(causal_mask(start, time, length, hidden.device), False, rotation)


def unit_view(positions: Positions, begins: Tensor, hidden: Tensor) -> View:
    """What the words of hidden [batch, time, size] may see of their window: those of their own unit, which begins at
    begins [batch, time], up to themselves."""
    time = hidden.size(1)
    keys = torch.arange(time, device=hidden.device)
    mask = causal_mask(0, time, time, hidden.device) & (keys >= begins.unsqueeze(2))  # [batch, time, time]
    rotation, bias = positions.rotation(0, time, hidden), positions.bias(0, time, time, hidden)
    if bias is None:
        return View(mask.unsqueeze(1), False, rotation)
    return View(bias.masked_fill(~mask.unsqueeze(1), -torch.inf), False, rotation)
