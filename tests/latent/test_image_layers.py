"""Encoders and decoders of images: every size goes in and comes back."""

from __future__ import annotations

import pytest
import torch

from seqloom.nn.image_layers import DenseDecoder, DenseEncoder, ImageConvolutionDecoder, ImageConvolutionEncoder


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 7, 5), (1, 28, 28), (2, 1, 9), (3, 13, 32)])
@pytest.mark.parametrize("depth", [0, 1, 3])
def test_every_shape_comes_back(shape: tuple[int, int, int], depth: int) -> None:
    images = torch.rand(2, *shape)
    sizes = [6, 5, 4][:depth]
    for encoder, decoder in (
        (DenseEncoder(shape, sizes, "tanh"), DenseDecoder(3, sizes[::-1], shape, "tanh")),
        (ImageConvolutionEncoder(shape, sizes, "relu"), ImageConvolutionDecoder(3, sizes, shape, "relu")),
    ):
        assert encoder(images).shape == (2, encoder.output_size)
        assert decoder(torch.randn(2, 3)).shape == images.shape


@pytest.mark.parametrize("depth", [0, 2])
@torch.no_grad()
def test_a_decoder_begins_around_an_image(depth: int) -> None:
    shape, nothing = (2, 5, 6), torch.zeros(1, 3)
    image = torch.rand(shape)
    dense = DenseDecoder(3, [4, 4][:depth], shape, "tanh")
    dense.begin_at(image)
    torch.testing.assert_close(dense(nothing)[0], image)
    convolution = ImageConvolutionDecoder(3, [4, 4][:depth], shape, "relu")
    convolution.begin_at(torch.zeros(shape))
    before = convolution(nothing)[0]
    convolution.begin_at(image)
    moved = convolution(nothing)[0] - before
    torch.testing.assert_close(moved, image if depth == 0 else image.mean((1, 2), keepdim=True).expand(shape))


def test_dense_networks_without_layers_are_linear() -> None:
    shape = (1, 2, 3)
    images = torch.rand(4, *shape)
    torch.testing.assert_close(DenseEncoder(shape, [], "tanh")(images), images.flatten(1))
    decoder = DenseDecoder(2, [], shape, "tanh")
    codes = torch.randn(4, 2)
    torch.testing.assert_close(decoder(codes).flatten(1), codes @ decoder.pixels.weight.T + decoder.pixels.bias)
