"""Encoders: from the vectors of the source words to a memory that a decoder reads.

What an encoder says of a sentence depends on that sentence alone: not on the others in the batch, and not on the
padding that makes all rows equally long.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.seq2seq import (
    ConvolutionEncoderConfig,
    PooledConvolutionEncoderConfig,
    RecurrentEncoderConfig,
    RecurrentKind,
)
from seqloom.config.schema.transformer import WordTransformer
from seqloom.errors import ConfigError
from seqloom.nn.dropout import Dropout, VariationalDropout
from seqloom.nn.layers import fit_size
from seqloom.nn.positions import added_positions, two_sided_positions
from seqloom.nn.recurrent import LAYERS
from seqloom.nn.transformer import TransformerReader, View

HALF = math.sqrt(0.5)  # keeps the variance of a sum of two


@dataclass(frozen=True)
class Encoding:
    """What an encoder knows of a batch of source sentences."""

    memory: Tensor
    """[batch, places, size]: one vector per source word, or per `stride` of them; zeros where padding is."""
    mask: Tensor
    """[batch, places]: True where a real word stands."""
    last: Tensor
    """[batch, size]: the whole sentence in one vector. The state after the last word read, for recurrent encoders;
    for others, which read all words at once, the mean of the memory."""
    values: Tensor | None = None
    """[batch, places, size]: what attention gives back of each place, where that is not the memory it looks at."""


class Encoder(nn.Module, ABC):
    """Reads padded rows of vectors; a kind of encoder says how in `read`, and what sums a row up in `summary`."""

    output_size: int
    stride = 1
    """How many words a place of the memory stands for."""

    def forward(self, vectors: Tensor, lengths: Tensor) -> Encoding:
        """vectors [batch, places, input_size], of which row b has lengths[b] ≥ 1 real ones, then padding."""
        mask = real_places(vectors.size(1), lengths)
        vectors = vectors.masked_fill(~mask.unsqueeze(-1), 0.0)
        memory = self.read(vectors, mask)
        if self.stride > 1:
            lengths = -(-lengths // self.stride)
            mask = real_places(memory.size(1), lengths)
        memory = memory.masked_fill(~mask.unsqueeze(-1), 0.0)
        return Encoding(memory, mask, self.summary(memory, lengths), self.values(vectors, memory))

    @abstractmethod
    def read(self, vectors: Tensor, mask: Tensor) -> Tensor:
        """vectors [batch, places, input_size], zeros where mask [batch, places] is False -> [batch, places / stride,
        output_size], of which the padding's may be anything finite."""

    def summary(self, memory: Tensor, lengths: Tensor) -> Tensor:
        """memory [batch, places, size], zeros where padding is -> one vector per row: the mean."""
        return memory.sum(1) / lengths.unsqueeze(1).to(memory.dtype)

    def values(self, vectors: Tensor, memory: Tensor) -> Tensor | None:
        """`Encoding.values`, of the vectors that were read and the memory made of them; the padding's may be anything
        finite."""
        return None


def real_places(places: int, lengths: Tensor) -> Tensor:
    """Which of so many places are no padding, [batch, places], in rows of these lengths [batch]."""
    return torch.arange(places, device=lengths.device) < lengths.unsqueeze(1)


class OneWay(nn.Module):
    """A recurrent layer that reads from the first word to the last: h_s = f(x_s, h_{s-1}), h_0 = 0."""

    def __init__(self, kind: RecurrentKind, input_size: int, size: int) -> None:
        super().__init__()
        self.layer = LAYERS[kind](input_size, size, weight_drop=0.0, start="uniform")

    def forward(self, inputs: Tensor, order: Tensor) -> Tensor:
        """inputs [batch, places, input_size] -> [batch, places, size]. `order` is for the way back, and not used."""
        start = tuple(inputs.new_zeros(inputs.size(0), self.layer.size) for _ in self.layer.memory)
        outputs, _ = self.layer(inputs, start)
        return outputs


class BothWays(nn.Module):
    """Two recurrent layers, one of which reads from the last word to the first; each gives half of the output."""

    def __init__(self, kind: RecurrentKind, input_size: int, size: int) -> None:
        super().__init__()
        self.ahead = OneWay(kind, input_size, size // 2)
        self.back = OneWay(kind, input_size, size // 2)

    def forward(self, inputs: Tensor, order: Tensor) -> Tensor:
        """inputs [batch, places, input_size], and their `reversed_order` -> [batch, places, size]."""
        back = reverse(self.back(reverse(inputs, order), order), order)
        return torch.cat([self.ahead(inputs, order), back], dim=-1)


def reversed_order(mask: Tensor) -> Tensor:
    """For each place the one it changes with when every row is reversed within its own length; padding stays.

    mask [batch, places] -> [batch · places], numbers of places in the whole batch, row after row.
    """
    batch, places = mask.shape
    place = torch.arange(places, device=mask.device)
    order = torch.where(mask, mask.sum(1, keepdim=True) - 1 - place, place)
    rows = torch.arange(batch, device=mask.device).unsqueeze(1)
    return (rows * places + order).flatten()


def reverse(vectors: Tensor, order: Tensor) -> Tensor:
    """vectors [batch, places, size] in the `reversed_order`; doing it twice gives them back."""
    return vectors.flatten(0, 1).index_select(0, order).view_as(vectors)


class RecurrentEncoder(Encoder):
    """A stack of recurrent layers that read the sentence forwards or, when `bidirectional`, both ways.

    h→_s = f(x_s, h→_{s-1}),  h←_s = g(x_s, h←_{s+1}),  memory_s = [h→_s, h←_s]  (Schuster & Paliwal 1997; in
    translation, Bahdanau et al. 2015, https://arxiv.org/abs/1409.0473). Each direction gives half of `size`, and each
    layer reads both directions of the one below.

    Rows are not packed: the kernels for packed rows are slower, and need the lengths before the work is queued. The
    way forwards runs on over the padding, which changes nothing before it; the way back reads rows reversed within
    their own length.
    """

    def __init__(self, config: RecurrentEncoderConfig, input_size: int) -> None:
        super().__init__()
        size, both = config.size, config.bidirectional
        if both and size % 2:
            raise ConfigError(
                f"a bidirectional encoder gives half of its size to each direction, so size cannot be {size}: "
                f"choose {size + 1}, or bidirectional=false"
            )
        self.output_size = size
        self.ahead_size = size // 2 if both else size
        make = BothWays if both else OneWay
        widths = [input_size] + [size] * (config.layers - 1)
        self.layers = nn.ModuleList(make(config.kind, below, size) for below in widths)
        self.dropout = VariationalDropout(config.dropout)

    def read(self, vectors: Tensor, mask: Tensor) -> Tensor:
        order = reversed_order(mask)
        hidden = vectors
        for layer in self.layers:
            hidden = self.dropout(layer(hidden, order))
        return hidden

    def summary(self, memory: Tensor, lengths: Tensor) -> Tensor:
        """What the way forwards knows at the last word, and the way back at the first."""
        rows = torch.arange(memory.size(0), device=memory.device)
        ahead = memory[rows, lengths - 1, : self.ahead_size]
        return torch.cat([ahead, memory[:, 0, self.ahead_size :]], dim=-1)


class GatedConvolutions(Encoder):
    """What encoders of gated convolutions share.

    GLU(X) = (X∗W + b) ⊗ σ(X∗V + c) sees (kernel - 1) / 2 places on either side, zeros beyond the ends of the sentence,
    and a layer gives (X + GLU(X)) · √½; the factor keeps the variance of the sum.
    """

    def __init__(self, config: ConvolutionEncoderConfig | PooledConvolutionEncoderConfig, input_size: int) -> None:
        super().__init__()
        size, kernel = config.size, config.kernel
        if kernel % 2 == 0:
            raise ConfigError(
                f"a convolutional encoder sees equally far to both sides, so kernel cannot be {kernel}: "
                f"choose an odd one, for example {kernel + 1}"
            )
        self.output_size = size
        self.project = fit_size(input_size, size)
        self.positions = added_positions(config)
        self.dropout = Dropout(config.dropout)
        self.layers = nn.ModuleList(
            nn.Conv1d(size, 2 * size, kernel, padding=kernel // 2) for _ in range(config.layers)
        )

    def embed(self, vectors: Tensor) -> Tensor:
        """h_0: the words, and where they stand."""
        return self.positions.embed(self.project(vectors), 0)

    def convolve(self, layer: nn.Module, hidden: Tensor, mask: Tensor) -> Tensor:
        """A layer's step: [batch, size, places], of which mask [batch, places] says what is real."""
        inputs = self.dropout(hidden).masked_fill(~mask.unsqueeze(1), 0.0)  # padding must not be carried into words
        return (hidden + F.glu(layer(inputs), dim=1)) * HALF


class ConvolutionEncoder(GatedConvolutions):
    """Gated convolutions over the words around each place (Gehring et al. 2017, https://arxiv.org/abs/1705.03122).

    h_l = (h_{l-1} + GLU_l(h_{l-1})) · √½

    Attention looks at the last h, and gives back (h + h_0) · √½: what stands around a place, and the word itself with
    its position (section 3.3; the factor is ours, as for the other sums).
    """

    def read(self, vectors: Tensor, mask: Tensor) -> Tensor:
        hidden = self.embed(vectors).transpose(1, 2)  # [batch, size, places]
        for layer in self.layers:
            hidden = self.convolve(layer, hidden, mask)
        return self.dropout(hidden.transpose(1, 2))

    def values(self, vectors: Tensor, memory: Tensor) -> Tensor:
        return (memory + self.embed(vectors)) * HALF


class PooledConvolutionEncoder(GatedConvolutions):
    """Convolutions, each followed by pooling, so that a place of the memory stands for several words (convolution and
    pooling over sentences: Collobert et al. 2011, https://arxiv.org/abs/1103.0398; Kim 2014).

        h_l = pool((h_{l-1} + GLU_l(h_{l-1})) · √½),   pool(X)_i = max or mean of X_{ki}, ..., X_{ki+k-1}

    A source of S words has a memory of ⌈S / k^L⌉ places, and k^L times less to look at. The last of them may stand for
    fewer words; padding is never among them. The same over all places is the source in one vector.
    """

    def __init__(self, config: PooledConvolutionEncoderConfig, input_size: int) -> None:
        super().__init__(config, input_size)
        self.pool, self.largest = config.pool, config.pooling == "max"
        self.stride = config.pool**config.layers

    def read(self, vectors: Tensor, mask: Tensor) -> Tensor:
        hidden = self.embed(vectors).transpose(1, 2)  # [batch, size, places]
        for layer in self.layers:
            hidden = pooled(self.convolve(layer, hidden, mask), mask, self.pool, self.largest)
            mask = mask[:, :: self.pool]
        return self.dropout(hidden.transpose(1, 2))

    def summary(self, memory: Tensor, lengths: Tensor) -> Tensor:
        mask = real_places(memory.size(1), lengths)
        return pooled(memory.transpose(1, 2), mask, memory.size(1), self.largest).squeeze(2)


def pooled(hidden: Tensor, mask: Tensor, width: int, largest: bool) -> Tensor:
    """The largest, or the mean, of the real ones of every `width` places; 0 where all are padding.

    hidden [batch, size, places], mask [batch, places] -> [batch, size, ⌈places / width⌉]
    """
    more = -mask.size(1) % width
    windows = F.pad(hidden, (0, more)).unflatten(2, (-1, width))
    real = F.pad(mask, (0, more)).unflatten(1, (-1, width)).unsqueeze(1)
    if largest:
        lowest = torch.finfo(hidden.dtype).min
        return windows.masked_fill(~real, lowest).amax(3).masked_fill(~real.any(3), 0.0)
    return windows.masked_fill(~real, 0.0).sum(3) / real.sum(3).clamp(min=1)


class TransformerEncoder(TransformerReader, Encoder):
    """Self-attention in which every word sees all words of its sentence (Vaswani et al. 2017, section 3.1)."""

    def __init__(self, config: WordTransformer, input_size: int) -> None:
        super().__init__(config, fit_size(input_size, config.size), two_sided_positions(config))

    def read(self, vectors: Tensor, mask: Tensor | None) -> Tensor:
        """As above; without a mask there is no padding."""
        hidden = self.embed(vectors, 0)
        return self.see(hidden, self._view(hidden, mask))

    def read_layers(self, vectors: Tensor, mask: Tensor | None) -> Tensor:
        """What the first layer reads, and what each layer makes of it: [layers + 1, batch, places, size]."""
        hidden = self.embed(vectors, 0)
        return torch.stack(self.see_layers(hidden, self._view(hidden, mask)))

    def _view(self, hidden: Tensor, mask: Tensor | None) -> View:
        """Every query sees the real places of its row."""
        places = hidden.size(1)
        visible = None if mask is None else mask[:, None, None, :]  # [batch, heads, queries, keys]
        bias = self.positions.bias(0, places, places, hidden)
        if bias is not None:
            visible = bias if visible is None else bias.masked_fill(~visible, -torch.inf)
        return View(visible, False, self.positions.rotation(0, places, hidden))
