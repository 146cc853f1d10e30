"""From images to vectors and back: fully connected and convolutional networks for images of any size."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor, nn

from seqloom.nn.starts import start_evenly

Shape = tuple[int, int, int]
"""Channels, height and width of an image."""

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU, "softplus": nn.Softplus, "gelu": nn.GELU}


class DenseEncoder(nn.Module):
    """Fully connected layers over all pixels; with no layers, the pixels themselves."""

    def __init__(self, shape: Shape, sizes: Sequence[int], activation: str) -> None:
        super().__init__()
        self.layers = _dense(math.prod(shape), sizes, activation)
        self.output_size = sizes[-1] if sizes else math.prod(shape)

    def forward(self, images: Tensor) -> Tensor:
        """[rows, channels, height, width] -> [rows, output_size]"""
        return self.layers(images.flatten(1))


class DenseDecoder(nn.Module):
    """Fully connected layers from a vector, then a linear one to all pixels."""

    def __init__(self, size: int, sizes: Sequence[int], shape: Shape, activation: str) -> None:
        super().__init__()
        self.shape = shape
        self.layers = _dense(size, sizes, activation)
        self.pixels = _linear(sizes[-1] if sizes else size, math.prod(shape))

    def forward(self, vectors: Tensor) -> Tensor:
        """[rows, size] -> [rows, channels, height, width], any real numbers"""
        return self.pixels(self.layers(vectors)).unflatten(-1, self.shape)

    @torch.no_grad()
    def begin_at(self, image: Tensor) -> None:
        """Let what is given out before anything is learned lie around an image [channels, height, width]."""
        self.pixels.bias.copy_(image.flatten())


class ImageConvolutionEncoder(nn.Module):
    """Convolutions of 3×3 pixels with stride 2: each layer halves height and width, rounding up."""

    def __init__(self, shape: Shape, channels: Sequence[int], activation: str) -> None:
        super().__init__()
        layers: list[nn.Module] = []
        for before, after in zip((shape[0], *channels), channels, strict=False):
            layers += [nn.Conv2d(before, after, 3, stride=2, padding=1), ACTIVATIONS[activation]()]
        self.layers = nn.Sequential(*layers)
        height, width = _halved(shape, len(channels))[-1]
        self.output_size = (channels[-1] if channels else shape[0]) * height * width

    def forward(self, images: Tensor) -> Tensor:
        """[rows, channels, height, width] -> [rows, output_size]"""
        return self.layers(images).flatten(1)


class ImageConvolutionDecoder(nn.Module):
    """The way back: a linear layer to a small image of many channels, and a transposed convolution for each halving.

    Where a side was odd, one row of the doubled image less is computed, so that every size comes back exactly.
    """

    def __init__(self, size: int, channels: Sequence[int], shape: Shape, activation: str) -> None:
        super().__init__()
        sides = _halved(shape, len(channels))
        self.smallest = ((channels[-1] if channels else shape[0]), *sides[-1])
        self.start = nn.Linear(size, math.prod(self.smallest))
        widths = [shape[0], *channels]
        layers: list[nn.Module] = []
        for depth in range(len(channels), 0, -1):
            (high, wide), (small_high, small_wide) = sides[depth - 1], sides[depth]
            missing = (high - (2 * small_high - 1), wide - (2 * small_wide - 1))
            layers.append(ACTIVATIONS[activation]())
            layers.append(
                nn.ConvTranspose2d(widths[depth], widths[depth - 1], 3, stride=2, padding=1, output_padding=missing)
            )
        self.layers = nn.Sequential(*layers)

    def forward(self, vectors: Tensor) -> Tensor:
        """[rows, size] -> [rows, channels, height, width], any real numbers"""
        return self.layers(self.start(vectors).unflatten(-1, self.smallest))

    @torch.no_grad()
    def begin_at(self, image: Tensor) -> None:
        """Let what is given out before anything is learned lie around an image [channels, height, width]; where there
        are convolutions, around the mean of each of its channels."""
        if len(self.layers):
            begin_at_channels(self.layers[-1], image)
        else:
            self.start.bias.copy_(image.flatten())


@torch.no_grad()
def begin_at_channels(convolution: nn.Module, image: Tensor) -> None:
    """Let what a convolution gives out before anything is learned lie around the mean of each channel of an image."""
    cast("Tensor", convolution.bias).copy_(image.mean((1, 2)))


def _dense(size: int, sizes: Sequence[int], activation: str) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in zip((size, *sizes), sizes, strict=False):
        layers += [_linear(before, after), ACTIVATIONS[activation]()]
    return nn.Sequential(*layers)


def _linear(before: int, after: int) -> nn.Linear:
    """A linear layer that begins with variance kept in both directions (Glorot & Bengio 2010)."""
    layer = nn.Linear(before, after)
    start_evenly(layer)
    return layer


def _halved(shape: Shape, times: int) -> list[tuple[int, int]]:
    """Height and width before the first halving and after each."""
    sides = [shape[1:]]
    for _ in range(times):
        height, width = sides[-1]
        sides.append((-(-height // 2), -(-width // 2)))
    return sides
