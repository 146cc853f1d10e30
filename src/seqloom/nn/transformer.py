"""The Transformer as a feature layer: masked self-attention over all words so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from seqloom.nn.attention import MultiHeadAttention, causal_mask
from seqloom.nn.cache import extend, valid, with_history
from seqloom.nn.dropout import Dropout
from seqloom.nn.features import FeatureLayer
from seqloom.nn.positions import (
    LearnedPositions,
    Positions,
    RelativePositions,
    RotaryPositions,
    SinusoidalPositions,
    rotate,
)
from seqloom.nn.starts import start_evenly
from seqloom.nn.state import State

PositionKind = Literal["sinusoidal", "learned", "rotary", "relative"]


class PreNorm(nn.Module):
    """x + dropout(f(norm(x))): normalise what a sub-layer reads (Xiong et al. 2020); stable without warm-up."""

    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.dropout = Dropout(dropout)

    def before(self, inputs: Tensor) -> Tensor:
        """What the sub-layer reads."""
        return self.norm(inputs)

    def after(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """The sub-layer's inputs and outputs joined."""
        return inputs + self.dropout(outputs)


class PostNorm(nn.Module):
    """norm(x + dropout(f(x))): normalise the sum, as Vaswani et al. 2017 do."""

    def __init__(self, size: int, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(size)
        self.dropout = Dropout(dropout)

    def before(self, inputs: Tensor) -> Tensor:
        """What the sub-layer reads."""
        return inputs

    def after(self, inputs: Tensor, outputs: Tensor) -> Tensor:
        """The sub-layer's inputs and outputs joined."""
        return self.norm(inputs + self.dropout(outputs))


NORMS: dict[str, type[PreNorm] | type[PostNorm]] = {"pre": PreNorm, "post": PostNorm}
ACTIVATIONS: dict[str, type[nn.Module]] = {"gelu": nn.GELU, "relu": nn.ReLU}


class PositionWise(nn.Module):
    """The same two-layer network at every position: W₂ φ(W₁ x + b₁) + b₂."""

    def __init__(self, size: int, inner: int, activation: str, dropout: float) -> None:
        super().__init__()
        self.input = nn.Linear(size, inner)
        self.activation = ACTIVATIONS[activation]()
        self.dropout = Dropout(dropout)
        self.output = nn.Linear(inner, size)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.output(self.dropout(self.activation(self.input(inputs))))


@dataclass(frozen=True)
class View:
    """What a window of queries may see, the same for all layers: see `Positions` and `MultiHeadAttention`."""

    mask: Tensor | None
    causal: bool
    rotation: Tensor | None


class TransformerBlock(nn.Module):
    """Self-attention, then a position-wise network, each with a residual connection and a norm."""

    compiles = True  # by the trainer, on request: all layers share one compilation

    def __init__(self, size: int, heads: int, inner: int, dropout: float, norm: str, activation: str) -> None:
        super().__init__()
        self.attention = MultiHeadAttention(size, heads, dropout)
        self.attention_norm = NORMS[norm](size, dropout)
        self.feedforward = PositionWise(size, inner, activation, dropout)
        self.feedforward_norm = NORMS[norm](size, dropout)

    def start_weights(self, additions: int) -> None:
        """GPT-2: N(0, 0.02²), over √additions for what is one of so many additions to the residual stream."""
        for part in (self.attention, self.feedforward):
            nn.init.normal_(part.input.weight, std=0.02)
            nn.init.normal_(part.output.weight, std=0.02 * additions**-0.5)
            nn.init.zeros_(part.input.bias)
            nn.init.zeros_(part.output.bias)

    def start_evenly(self) -> None:
        """As in Vaswani et al.'s code, where a width of 128 learns faster than from GPT-2's small weights."""
        start_evenly(self.attention.input, parts=3)
        for layer in (self.attention.output, self.feedforward.input, self.feedforward.output):
            start_evenly(layer)

    def project(self, inputs: Tensor, view: View) -> tuple[Tensor, Tensor, Tensor]:
        """Queries, keys and values of what the block reads, turned by their positions where these are rotary."""
        queries, keys, values = self.attention.project(self.attention_norm.before(inputs))
        if view.rotation is not None:
            queries, keys = rotate(queries, view.rotation), rotate(keys, view.rotation)
        return queries, keys, values

    def finish(self, inputs: Tensor, attended: Tensor) -> Tensor:
        """The block's inputs and what attention made of them -> the block's outputs."""
        return self.think(self.attention_norm.after(inputs, attended))

    def think(self, hidden: Tensor) -> Tensor:
        """The position-wise network, with its residual connection and norm."""
        return self.feedforward_norm.after(hidden, self.feedforward(self.feedforward_norm.before(hidden)))


class TransformerLayer(TransformerBlock):
    """A block that reads word after word, or window after window, and keeps the keys and values of all it has read."""

    def forward(self, inputs: Tensor, state: State, view: View) -> tuple[Tensor, State]:
        """inputs [batch, time, size] -> outputs of the same shape, and the longer cache of keys and values."""
        end = state.position + inputs.size(1)
        queries, new_keys, new_values = self.project(inputs, view)
        if state.history:
            attended = self.attention.look_back(queries, new_keys, new_values, state.history, state.position, view.mask)
            return self.finish(inputs, attended), State({}, end, history=state.history)
        keys = extend(state["keys"], new_keys, state.position)
        values = extend(state["values"], new_values, state.position)
        attended = self.attention(queries, valid(keys, end), valid(values, end), view.mask, view.causal)
        return self.finish(inputs, attended), State({"keys": keys, "values": values}, end)


class EncoderLayer(TransformerBlock):
    """A block that reads a whole sentence at once."""

    def forward(self, inputs: Tensor, view: View) -> Tensor:
        """inputs [batch, time, size] -> outputs of the same shape."""
        attended = self.attention(*self.project(inputs, view), view.mask, view.causal)
        return self.finish(inputs, attended)


class Transformer(FeatureLayer):
    """Decoder-only Transformer (Vaswani et al. 2017; Radford et al. 2019 for norms and initialisation).

    The state holds the keys and values of all words so far: `layer{l}.keys` and `layer{l}.values`, each
    [batch, heads, capacity, head_size], of which the first `position` steps are valid.
    """

    def __init__(
        self,
        input_size: int,
        size: int = 256,
        layers: int = 4,
        heads: int = 4,
        feedforward: int | None = None,
        dropout: float = 0.0,
        positions: PositionKind = "rotary",
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
        stack = [TransformerLayer(size, heads, inner, dropout, norm, activation) for _ in range(layers)]
        for layer in stack:
            layer.start_weights(additions=2 * layers)
        self.layers = nn.ModuleList(stack)
        self.norm = nn.LayerNorm(size) if norm == "pre" else nn.Identity()  # post-norm layers end with one already

    def start(self, size: int, like: Tensor) -> State:
        empty = like.new_zeros(size, self.heads, 0, self.output_size // self.heads)
        names = [f"layer{depth}.{name}" for depth in range(len(self.layers)) for name in ("keys", "values")]
        return State(dict.fromkeys(names, empty))

    def forward(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        hidden = self.dropout(self.positions.embed(self.project(inputs), state.position))
        view = causal_view(self.positions, state, hidden)
        after = State(position=state.position + inputs.size(1))
        for depth, layer in enumerate(self.layers):
            hidden, cache = layer(hidden, state.part(f"layer{depth}"), view)
            after.put(f"layer{depth}", cache)
        return self.norm(hidden), after

    def reserve(self, state: State, steps: int) -> State:
        return with_history(state, steps)


def causal_view(positions: Positions, state: State, hidden: Tensor) -> View:
    """What the words of hidden [batch, time, size], which come next, may see: those up to themselves.

    Where the position is a tensor, the whole history is seen, and a mask says what of it counts.
    """
    time, start = hidden.size(1), state.position
    rotation = positions.rotation(start, time, hidden)
    if isinstance(start, Tensor):
        assert state.history, "a position that is a tensor needs a history: see `reserve`"
        state.history.own(start)
        length = state.history.origins.size(1)
    else:
        length = start + time
    bias = positions.bias(start, time, length, hidden)
    if bias is not None:
        ahead = ~causal_mask(start, time, length, hidden.device)
        return View(bias.masked_fill(ahead, -torch.inf), False, rotation)
    if isinstance(start, Tensor):
        return View(causal_mask(start, time, length, hidden.device), False, rotation)
    if start == 0:
        return View(None, True, rotation)
    if time == 1:  # the last word sees all
        return View(None, False, rotation)
    return View(causal_mask(start, time, length, hidden.device), False, rotation)


def make_positions(kind: PositionKind, size: int, heads: int, context: int) -> Positions:
    """Positions of the given kind for vectors of `size`, split among `heads`."""
    if kind == "sinusoidal":
        return SinusoidalPositions(size)
    if kind == "learned":
        return LearnedPositions(size, context)
    if kind == "rotary":
        return RotaryPositions(size // heads)
    return RelativePositions(heads)
