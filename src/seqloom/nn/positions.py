"""Telling attention where a word stands, or a place of a grid: each way a small class."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from seqloom.config.schema.seq2seq import ConvolutionShape
from seqloom.config.schema.transformer import WordTransformer
from seqloom.errors import UserError
from seqloom.nn.state import Position, by_row, places_from


class Positions(nn.Module):
    """Position enters attention in one of three places; each kind below changes one and leaves the others alone."""

    def embed(self, inputs: Tensor, start: Position) -> Tensor:
        """Add positions start, start + 1, ... to inputs [batch, time, size]."""
        return inputs

    def embed_places(self, inputs: Tensor, places: Tensor) -> Tensor:
        """Add the positions places [batch, time] to inputs [batch, time, size]."""
        return inputs

    def rotation(self, start: Position, time: int, like: Tensor) -> Tensor | None:
        """Cosine and sine of the angles by which `rotate` turns queries and keys; computed once for all layers."""
        return None

    def bias(self, start: Position, time: int, length: int, like: Tensor) -> Tensor | None:
        """What is added to the scores of queries start, ..., start + time - 1 with the first `length` keys:
        [heads, time, length], or [rows, heads, time, length]."""
        return None


class SinusoidalPositions(Positions):
    """x · √size + PE, with PE[t, 2i] = sin(t / 10000^(2i/size)), PE[t, 2i+1] = cos of the same.

    Vaswani et al. 2017 (https://arxiv.org/abs/1706.03762), section 3.5; the factor √size of section 3.4 belongs to it:
    it brings word vectors of length about 1 to the magnitude of the waves.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def embed(self, inputs: Tensor, start: Position) -> Tensor:
        return inputs * math.sqrt(self.size) + self.waves(start, inputs.size(1), inputs)

    def embed_places(self, inputs: Tensor, places: Tensor) -> Tensor:
        waves = self.waves(0, inputs.size(1), inputs)
        return inputs * math.sqrt(self.size) + waves[places]

    def waves(self, start: Position, time: int, like: Tensor) -> Tensor:
        """PE for positions start, start + 1, ...: [time, size], or [rows, time, size]."""
        angles = _angles(start, time, self.size, like.device)
        return self.arranged(angles.sin(), angles.cos())[..., : self.size].to(like.dtype)

    def arranged(self, sines: Tensor, cosines: Tensor) -> Tensor:
        """Sines and cosines [..., ⌈size / 2⌉] in the order of PE."""
        return torch.stack([sines, cosines], dim=-1).flatten(-2)


class HalvedPositions(SinusoidalPositions):
    """The same waves in another order: all sines, then all cosines (Marian: Junczys-Dowmunt et al. 2018)."""

    def arranged(self, sines: Tensor, cosines: Tensor) -> Tensor:
        return torch.cat([sines, cosines], dim=-1)


class LearnedPositions(Positions):
    """x + P[t]: one learned vector for each of the first `context` positions; unused ones may stand before."""

    def __init__(self, size: int, context: int, first: int = 0) -> None:
        super().__init__()
        self.context, self.first = context, first
        self.weight = nn.Parameter(torch.empty(first + context, size))
        nn.init.normal_(self.weight, std=0.02)

    def embed(self, inputs: Tensor, start: Position) -> Tensor:
        if by_row(start):
            self._check(int(start.max()) + inputs.size(1))
            return inputs + self.weight[self.first + places_from(start, inputs.size(1), inputs.device)]
        if isinstance(start, Tensor):  # of one step, whose number nobody can check without waiting for it
            place = start.view(1) + self.first if self.first else start.view(1)
            return inputs + self.weight.index_select(0, place)
        end = start + inputs.size(1)
        self._check(end)
        return inputs + self.weight[self.first + start : self.first + end]

    def embed_places(self, inputs: Tensor, places: Tensor) -> Tensor:
        self._check(inputs.size(1))  # no place of a window is farther from the beginning of its unit
        return inputs + self.weight[self.first + places]

    def _check(self, end: int) -> None:
        if end > self.context:
            raise UserError(
                f"the sequence has reached {end} tokens, but the model has learned positions for {self.context}; "
                f"train with model.features.context={end} or more (model.encoder.context, model.decoder.context for "
                "pairs), shorten the sequence, or choose other positions"
            )


class GridPositions(Positions):
    """x + R[t // columns] + C[t % columns]: places of a grid, row after row, by a learned vector for each row and each
    column, of about the length of a word's."""

    def __init__(self, size: int, rows: int, columns: int) -> None:
        super().__init__()
        self.columns = columns
        self.down = nn.Parameter(torch.empty(rows, size))
        self.across = nn.Parameter(torch.empty(columns, size))
        for weight in (self.down, self.across):
            nn.init.normal_(weight, std=size**-0.5)

    def embed(self, inputs: Tensor, start: Position) -> Tensor:
        places = places_from(start, inputs.size(1), inputs.device)
        return inputs + self.down[places // self.columns] + self.across[places % self.columns]


class RotaryPositions(Positions):
    """Queries and keys are turned by t · θ_i in each plane i, so that their product depends on the distance alone.

    RoPE (Su et al. 2021, https://arxiv.org/abs/2104.09864), θ_i = base^(-2i/head_size). Plane i is made of the values
    i and i + head_size/2: a renumbering of the paper's 2i and 2i + 1 that splits a vector into two contiguous halves.
    """

    def __init__(self, head_size: int, base: float = 10000.0) -> None:
        super().__init__()
        self.head_size, self.base = head_size, base

    def rotation(self, start: Position, time: int, like: Tensor) -> Tensor:
        angles = _angles(start, time, self.head_size, like.device, self.base)
        if by_row(start):
            angles = angles.unsqueeze(1)  # the same for all heads
        return torch.stack([angles.cos(), angles.sin()]).to(like.dtype)  # [2, (rows, 1,) time, head_size / 2]


def rotate(vectors: Tensor, rotation: Tensor) -> Tensor:
    """Turn vectors [..., time, head_size] by the angles of `RotaryPositions.rotation`."""
    cosine, sine = rotation
    first, second = vectors.chunk(2, dim=-1)
    return torch.cat([first * cosine - second * sine, first * sine + second * cosine], dim=-1).to(vectors.dtype)


class RelativePositions(Positions):
    """A learned bias per head on the scores, by the distance between query and key (T5: Raffel et al. 2020,
    https://arxiv.org/abs/1910.10683).

    Distances share buckets: half of the buckets hold one short distance each, the others ranges that widen
    logarithmically up to `longest`, beyond which all fall into the last. The layers of a network share the biases.
    """

    def __init__(self, heads: int, buckets: int = 32, longest: int = 128) -> None:
        super().__init__()
        self.buckets = buckets
        self.longest = longest
        self.weight = nn.Parameter(torch.empty(buckets, heads))
        nn.init.normal_(self.weight, std=0.02)

    def bucket(self, distance: Tensor) -> Tensor:
        """The bucket of each distance query - key; keys after the query (negative distances) count as distance 0."""
        exact = self.buckets // 2
        distance = distance.clamp(min=0)
        fraction = torch.log(distance.clamp(min=1) / exact) / math.log(self.longest / exact)
        wide = exact + (fraction * (self.buckets - exact)).long()
        return torch.where(distance < exact, distance, wide.clamp(max=self.buckets - 1))

    def bias(self, start: Position, time: int, length: int, like: Tensor) -> Tensor:
        queries, keys = places_from(start, time, like.device), torch.arange(length, device=like.device)
        distance = queries.unsqueeze(-1) - keys  # [..., time, length]
        return self.weight[self.bucket(distance)].movedim(-1, -3).to(like.dtype)


class TwoSidedPositions(RelativePositions):
    """Relative positions for attention that sees both sides: half of the buckets for the words from the query back,
    half for those after it (T5's encoder)."""

    def __init__(self, heads: int, buckets: int = 32, longest: int = 128) -> None:
        super().__init__(heads, buckets, longest)
        self.buckets //= 2  # on each side

    def bucket(self, distance: Tensor) -> Tensor:
        """The bucket of each distance query - key."""
        return super().bucket(distance.abs()) + self.buckets * (distance < 0)


def added_positions(config: WordTransformer | ConvolutionShape) -> Positions:
    """Positions that are added to the vectors of a network, learned ones or waves."""
    if config.positions == "learned":
        first = config.first_position if isinstance(config, WordTransformer) else 0
        return LearnedPositions(config.size, config.context, first)
    return (HalvedPositions if config.positions == "sinusoidal-halves" else SinusoidalPositions)(config.size)


def causal_positions(config: WordTransformer) -> Positions:
    """The positions of a Transformer whose words see themselves and those before them."""
    match config.positions:
        case "rotary":
            return RotaryPositions(config.size_per_head, config.rotary_base)
        case "relative":
            return RelativePositions(config.heads, config.relative_buckets, config.relative_reach)
        case "learned" | "sinusoidal" | "sinusoidal-halves":
            return added_positions(config)


def two_sided_positions(config: WordTransformer) -> Positions:
    """The positions of a Transformer whose words see those on either side."""
    if config.positions == "relative":
        return TwoSidedPositions(config.heads, config.relative_buckets, config.relative_reach)
    return causal_positions(config)


def _angles(start: Position, time: int, size: int, device: torch.device, base: float = 10000.0) -> Tensor:
    """t · base^(-2i/size) for t = start, start + 1, ... and each pair i: [..., time, ⌈size / 2⌉], always in float32."""
    steps = places_from(start, time, device, torch.float32)
    pairs = torch.arange(0, size, 2, device=device, dtype=torch.float32)
    return steps.unsqueeze(-1) * torch.exp(pairs * (-math.log(base) / size))
