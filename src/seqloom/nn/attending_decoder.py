"""From a vector and a sentence to an image."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from seqloom.config.schema.transformer import TransformerShape
from seqloom.nn.decoders.transformer import CrossAttention
from seqloom.nn.encoders import Encoding
from seqloom.nn.image_layers import ACTIVATIONS, ImageConvolutionDecoder, Shape, begin_at_channels


class AttendingDecoder(nn.Module):
    """A convolutional decoder whose smallest image looks at the words: what stands where is decided there.

    g_p = W_p v                            a place p of the smallest image, from the vector v
    h_p = g_p + Attention(g_p + e_p, m)    e_p: where p is, learned; m: the memory of the sentence, both normed
    x   = convolutions of what transposed convolutions make of (h + convolution of h)

    The last convolutions work at full size, where a line is a pixel wide.
    """

    def __init__(
        self, size: int, memory_size: int, heads: int, channels: Sequence[int], shape: Shape, activation: str
    ) -> None:
        super().__init__()
        self.image = ImageConvolutionDecoder(size, channels, (channels[0], *shape[1:]), activation)
        width, high, wide = self.image.smallest
        self.places = nn.Parameter(torch.randn(high * wide, width))
        self.norm, self.memory_norm = nn.LayerNorm(width), nn.LayerNorm(memory_size)
        self.attention = CrossAttention(TransformerShape(size=width, heads=heads, dropout=0.0), memory_size)
        self.mixing = _convolutions(width, width, activation)
        self.finishing = _convolutions(channels[0], shape[0], activation)

    def begin_at(self, image: Tensor) -> None:
        """Let what is given out before anything is learned lie around the mean of each channel of an image."""
        begin_at_channels(self.finishing[-1], image)

    def forward(self, vectors: Tensor, encoding: Encoding) -> Tensor:
        """vectors [sentences · draws, size], the draws of a sentence together -> images of as many rows, any real
        numbers."""
        grid: Tensor = self.image.start(vectors).unflatten(-1, self.image.smallest)
        places = grid.flatten(2).mT  # [rows, places, channels]
        words = self.attention.prepare(self.memory_norm(encoding.memory))
        places = places + self.attention(self.norm(places + self.places), words, encoding.mask)
        hidden = places.mT.unflatten(-1, grid.shape[2:])
        return self.finishing(self.image.layers(hidden + self.mixing(hidden)))


def _convolutions(before: int, after: int, activation: str) -> nn.Sequential:
    """Two convolutions of 3×3 pixels, with an activation before each."""
    first, second = (nn.Conv2d(before, channels, 3, padding=1) for channels in (before, after))
    return nn.Sequential(ACTIVATIONS[activation](), first, ACTIVATIONS[activation](), second)
