"""Image encoders: from images to a memory that a decoder reads, as it would the words of a sentence."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from seqloom.config.schema.captioner import (
    CnnEncoderConfig,
    FeaturesEncoderConfig,
    ImageEncoderConfig,
    VitEncoderConfig,
)
from seqloom.data.patches import patches
from seqloom.errors import ConfigError
from seqloom.nn.dropout import Dropout
from seqloom.nn.encoders import Encoding
from seqloom.nn.image_layers import Shape
from seqloom.nn.positions import LearnedPositions, Positions, SinusoidalPositions
from seqloom.nn.state import Position
from seqloom.nn.transformer import TransformerReader, View


class SinusoidalGrid(Positions):
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

    def embed(self, inputs: Tensor, start: Position) -> Tensor:
        return inputs + self.waves


def grid_positions(config: ImageEncoderConfig, rows: int, columns: int, size: int) -> Positions:
    """Where each place of a grid is, for vectors of `size`: one learned vector for each, or waves."""
    if config.positions == "learned":
        return LearnedPositions(size, rows * columns)
    return SinusoidalGrid(rows, columns, size)


class ImageEncoder(nn.Module, ABC):
    """Reads images of one shape; what it says of an image is one vector for each place of a grid, row after row."""

    shape: Shape
    """Channels, height and width of the images."""
    grid: tuple[int, int]
    """Rows and columns of places."""
    output_size: int

    def forward(self, images: Tensor) -> Encoding:
        """images [batch, channels, height, width] from 0 to 1 -> their encoding; no place is padding."""
        memory = self.read(images)
        return Encoding(memory, memory.new_ones(memory.shape[:2], dtype=torch.bool), memory.mean(1))

    @abstractmethod
    def read(self, images: Tensor) -> Tensor:
        """images [batch, channels, height, width] -> [batch, places, output_size]."""


class CnnEncoder(ImageEncoder):
    """Convolutions, whose grid of features is the memory (Xu et al. 2015, https://arxiv.org/abs/1502.03044).

    Each stage halves height and width, rounding up: ReLU(norm(x ∗ W)) of 3×3 pixels with stride 2, and once more with
    stride 1, batch normalisation in between (Ioffe & Szegedy 2015).
    """

    def __init__(self, config: CnnEncoderConfig, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        before, rows, columns = shape
        stages: list[nn.Module] = []
        for after in config.channels:
            stages += [*_convolution(before, after, stride=2), *_convolution(after, after, stride=1)]
            before, rows, columns = after, (rows + 1) // 2, (columns + 1) // 2
        self.stages = nn.Sequential(*stages)
        self.grid = rows, columns
        self.output_size = before
        self.positions = grid_positions(config, rows, columns, before)
        self.dropout = Dropout(config.dropout)

    def read(self, images: Tensor) -> Tensor:
        features = self.stages(2 * images - 1).flatten(2).transpose(1, 2)  # [batch, places, channels]
        return self.positions.embed(self.dropout(features), 0)


def _convolution(before: int, after: int, stride: int) -> tuple[nn.Module, ...]:
    return nn.Conv2d(before, after, 3, stride, padding=1, bias=False), nn.BatchNorm2d(after), nn.ReLU()


class VitEncoder(TransformerReader, ImageEncoder):
    """The vision Transformer: patches of an image are read as the words of a sentence are (Dosovitskiy et al. 2021,
    https://arxiv.org/abs/2010.11929).

        z_0 = [x_1 E, ..., x_N E] + P,   z_l = block_l(z_{l-1}),   memory = norm(z_L)

    where x_n are the pixels of a patch. There is no class token: the memory's mean stands for the image.
    """

    def __init__(self, config: VitEncoderConfig, shape: Shape) -> None:
        channels, height, width = shape
        patch = config.patch
        if height % patch or width % patch:
            raise ConfigError(
                f"patches of {patch}×{patch} pixels do not cover images of {width}×{height}: set data.size to a "
                f"multiple of {patch}, or model.encoder.patch to a number that divides {width} and {height}"
            )
        rows, columns = height // patch, width // patch
        project = nn.Linear(channels * patch * patch, config.size)
        super().__init__(config, project, grid_positions(config, rows, columns, config.size))
        self.shape, self.patch, self.grid = shape, patch, (rows, columns)

    def read(self, images: Tensor) -> Tensor:
        everything = View(None, causal=False, rotation=None)
        return self.see(self.embed(patches(2 * images - 1, self.patch), 0), everything)


class FeaturesEncoder(ImageEncoder):
    """What another encoder says of each place of an image, brought to another size: W norm(x) + b + P, where norm is
    that of a layer (Ba et al. 2016): features of all kinds then come in one magnitude.

    Features are pictures of many channels: their shape is size, rows and columns.
    """

    def __init__(self, config: FeaturesEncoderConfig, shape: Shape) -> None:
        super().__init__()
        self.shape = shape
        channels, rows, columns = shape
        self.grid = rows, columns
        self.output_size = config.size
        self.norm = nn.LayerNorm(channels)
        self.dropout = Dropout(config.dropout)
        self.project = nn.Linear(channels, config.size)
        self.positions = grid_positions(config, rows, columns, config.size)

    def read(self, images: Tensor) -> Tensor:
        features = self.norm(images.flatten(2).transpose(1, 2))
        return self.positions.embed(self.project(self.dropout(features)), 0)


def build_image_encoder(config: ImageEncoderConfig, shape: Shape) -> ImageEncoder:
    """The encoder of a configuration, for images or features of a shape."""
    if isinstance(config, FeaturesEncoderConfig):
        return FeaturesEncoder(config, shape)
    return CnnEncoder(config, shape) if isinstance(config, CnnEncoderConfig) else VitEncoder(config, shape)
