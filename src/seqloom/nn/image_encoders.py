"""Image encoders: from images to a memory that a decoder reads, as it would the words of a sentence."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from seqloom.errors import ConfigError
from seqloom.nn.dropout import Dropout
from seqloom.nn.encoders import Encoding
from seqloom.nn.image_layers import Shape
from seqloom.nn.positions import SinusoidalPositions
from seqloom.nn.transformer import EncoderLayer, View

GridKind = Literal["learned", "sinusoidal"]


class LearnedGrid(nn.Module):
    """x + P[row, column]: one learned vector for each place."""

    def __init__(self, rows: int, columns: int, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(rows * columns, size))
        nn.init.normal_(self.weight, std=0.02)

    def forward(self, memory: Tensor) -> Tensor:
        return memory + self.weight


class SinusoidalGrid(nn.Module):
    """x + [PE(row), PE(column)]: half of the vector says how far from the top, half how far from the left, each in the
    waves of Vaswani et al. 2017, section 3.5."""

    waves: Tensor

    def __init__(self, rows: int, columns: int, size: int) -> None:
        super().__init__()
        if size % 2:
            raise ConfigError(f"sinusoidal positions have two halves, so size cannot be {size}: choose {size + 1}")
        positions, like = SinusoidalPositions(size // 2), torch.empty(())
        down = positions.waves(0, rows, like).repeat_interleave(columns, dim=0)
        across = positions.waves(0, columns, like).repeat(rows, 1)
        self.register_buffer("waves", torch.cat([down, across], dim=1), persistent=False)

    def forward(self, memory: Tensor) -> Tensor:
        return memory + self.waves


GRIDS: dict[GridKind, type[LearnedGrid] | type[SinusoidalGrid]] = {"learned": LearnedGrid, "sinusoidal": SinusoidalGrid}


class ImageEncoder(nn.Module, ABC):
    """Reads images of one shape; what it says of an image is one vector for each place of a grid, row after row."""

    shape: Shape
    """Channels, height and width of the images."""
    grid: tuple[int, int]
    """Rows and columns of places."""
    output_size: int

    def forward(self, images: Tensor) -> Encoding:
        """images [batch, channels, height, width] from 0 to 1 -> their encoding; no place is padding."""
        memory = self.read(2 * images - 1)
        return Encoding(memory, memory.new_ones(memory.shape[:2], dtype=torch.bool), memory.mean(1))

    @abstractmethod
    def read(self, images: Tensor) -> Tensor:
        """images [batch, channels, height, width] from -1 to 1 -> [batch, places, output_size]."""


class CnnEncoder(ImageEncoder):
    """Convolutions, whose grid of features is the memory (Xu et al. 2015, https://arxiv.org/abs/1502.03044).

    Each stage halves height and width, rounding up: ReLU(norm(x ∗ W)) of 3×3 pixels with stride 2, and once more with
    stride 1, batch normalisation in between (Ioffe & Szegedy 2015).
    """

    def __init__(
        self,
        shape: Shape,
        channels: Sequence[int] = (32, 64, 128),
        dropout: float = 0.0,
        positions: GridKind = "learned",
    ) -> None:
        super().__init__()
        self.shape = shape
        before, rows, columns = shape
        stages: list[nn.Module] = []
        for after in channels:
            stages += [*_convolution(before, after, stride=2), *_convolution(after, after, stride=1)]
            before, rows, columns = after, (rows + 1) // 2, (columns + 1) // 2
        self.stages = nn.Sequential(*stages)
        self.grid = rows, columns
        self.output_size = before
        self.positions = GRIDS[positions](rows, columns, before)
        self.dropout = Dropout(dropout)

    def read(self, images: Tensor) -> Tensor:
        features = self.stages(images).flatten(2).transpose(1, 2)  # [batch, places, channels]
        memory: Tensor = self.positions(self.dropout(features))
        return memory


def _convolution(before: int, after: int, stride: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(before, after, 3, stride, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()


class VitEncoder(ImageEncoder):
    """The vision Transformer: patches of an image are read as the words of a sentence are (Dosovitskiy et al. 2021,
    https://arxiv.org/abs/2010.11929).

        z_0 = [x_1 E, ..., x_N E] + P,   z_l = block_l(z_{l-1}),   memory = norm(z_L)

    where x_n are the pixels of a patch. There is no class token: the memory's mean stands for the image.
    """

    def __init__(
        self,
        shape: Shape,
        patch: int = 8,
        size: int = 128,
        layers: int = 4,
        heads: int = 4,
        feedforward: int | None = None,
        dropout: float = 0.0,
        positions: GridKind = "learned",
    ) -> None:
        super().__init__()
        channels, height, width = shape
        if height % patch or width % patch:
            raise ConfigError(
                f"patches of {patch}×{patch} pixels do not cover images of {width}×{height}: set data.size to a "
                f"multiple of {patch}, or model.encoder.patch to a number that divides {width} and {height}"
            )
        self.shape, self.patch = shape, patch
        self.grid = height // patch, width // patch
        self.output_size = size
        self.embed = nn.Linear(channels * patch * patch, size)
        self.positions = GRIDS[positions](*self.grid, size)
        self.dropout = Dropout(dropout)
        stack = [EncoderLayer(size, heads, feedforward or 4 * size, dropout, "pre", "gelu") for _ in range(layers)]
        for layer in stack:
            layer.start_evenly()
        self.layers = nn.ModuleList(stack)
        self.norm = nn.LayerNorm(size)

    def read(self, images: Tensor) -> Tensor:
        hidden = self.dropout(self.positions(self.embed(patches(images, self.patch))))
        everything = View(None, causal=False, rotation=None)
        for layer in self.layers:
            hidden = layer(hidden, everything)
        memory: Tensor = self.norm(hidden)
        return memory


def patches(images: Tensor, size: int) -> Tensor:
    """[batch, channels, height, width] -> [batch, patches, channels · size · size]: row after row, a patch's pixels by
    channel, from the top, from the left."""
    cut = images.unflatten(3, (-1, size)).unflatten(2, (-1, size))  # [batch, channels, rows, size, columns, size]
    return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)
