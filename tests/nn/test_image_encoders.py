"""Image encoders: what becomes of an image depends on that image alone, and patches are what they are called."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from seqloom.config.schema.captioner import CnnEncoderConfig, FeaturesEncoderConfig, VitEncoderConfig
from seqloom.data.patches import patches
from seqloom.errors import ConfigError
from seqloom.nn.image_encoders import CnnEncoder, FeaturesEncoder, ImageEncoder, SinusoidalGrid, VitEncoder
from seqloom.nn.image_layers import Shape


def cnn(shape: Shape, **options: Any) -> CnnEncoder:
    return CnnEncoder(CnnEncoderConfig(**options), shape)


def vit(shape: Shape, **options: Any) -> VitEncoder:
    return VitEncoder(VitEncoderConfig(**options), shape)


def encoders(shape: Shape) -> list[ImageEncoder]:
    torch.manual_seed(0)
    return [
        cnn(shape, channels=(4, 6)).eval(),
        cnn(shape, channels=(4, 6), positions="sinusoidal").eval(),
        vit(shape, patch=4, size=8, layers=2, heads=2).eval(),
        vit(shape, patch=2, size=8, layers=1, heads=2, positions="sinusoidal").eval(),
    ]


@pytest.mark.parametrize("shape", [(1, 8, 8), (3, 12, 8)])
def test_a_vector_for_every_place_of_the_grid(shape: Shape) -> None:
    for encoder in encoders(shape):
        found = encoder(torch.rand(3, *shape))
        rows, columns = encoder.grid
        assert found.memory.shape == (3, rows * columns, encoder.output_size)
        assert found.mask.all()
        assert found.mask.shape == (3, rows * columns)
        assert torch.allclose(found.last, found.memory.mean(1))


def test_sides_that_do_not_halve_evenly() -> None:
    encoder = cnn((1, 9, 7), channels=(2, 2)).eval()
    assert encoder.grid == (3, 2)
    assert encoder(torch.rand(2, 1, 9, 7)).memory.shape == (2, 6, 2)


@torch.no_grad()
def test_a_stage_is_two_convolutions_normed_and_rectified() -> None:
    """max(0, norm(Σ w x)) over 3×3 pixels and all channels, every second place and then every place, by loops."""
    torch.manual_seed(0)
    encoder = cnn((2, 5, 4), channels=(3,)).double()
    encoder(torch.rand(9, 2, 5, 4).double())  # the running means and variances are no longer 0 and 1
    encoder.eval()
    images = torch.rand(2, 5, 4).double()
    values = 2 * images - 1
    stages = list(encoder.stages)
    for convolution, norm, stride in ((stages[0], stages[1], 2), (stages[3], stages[4], 1)):
        padded = F.pad(values, (1, 1, 1, 1))
        rows, columns = (range(0, side, stride) for side in values.shape[1:])
        values = torch.stack(
            [
                torch.stack([(padded[:, y : y + 3, x : x + 3] * weight).sum() for y in rows for x in columns])
                .sub(mean)
                .div((variance + norm.eps).sqrt())
                .mul(gain)
                .add(shift)
                .clamp(min=0)
                .view(len(rows), len(columns))
                for weight, mean, variance, gain, shift in zip(
                    convolution.weight, norm.running_mean, norm.running_var, norm.weight, norm.bias, strict=True
                )
            ]
        )
    expected = values.flatten(1).T + encoder.positions.weight
    torch.testing.assert_close(encoder(images.unsqueeze(0)).memory[0], expected)


@torch.no_grad()
def test_features_are_normed_and_projected_place_by_place() -> None:
    torch.manual_seed(0)
    encoder = FeaturesEncoder(FeaturesEncoderConfig(size=5), (7, 2, 3)).double()
    for parameter in encoder.parameters():
        torch.nn.init.normal_(parameter)
    features = torch.rand(2, 3, 7).double() * 40 + 3  # [rows, columns, size], as files have them
    memory = encoder(features.permute(2, 0, 1)[None]).memory[0]
    for place, vector in enumerate(features.flatten(0, 1)):
        normed = (vector - vector.mean()) / (vector.var(correction=0) + encoder.norm.eps).sqrt()
        weighed = encoder.norm.weight * normed + encoder.norm.bias
        expected = encoder.project.weight @ weighed + encoder.project.bias + encoder.positions.weight[place]
        torch.testing.assert_close(memory[place], expected)


def test_an_image_does_not_depend_on_its_neighbours() -> None:
    images = torch.rand(4, 1, 8, 8)
    for encoder in encoders((1, 8, 8)):
        together, alone = encoder(images).memory[2], encoder(images[2:3]).memory[0]
        assert torch.allclose(together, alone, atol=1e-5)


def test_places_are_told_apart_where_the_image_is_the_same_everywhere() -> None:
    flat = torch.full((1, 1, 8, 8), 0.5)
    encoder = vit((1, 8, 8), patch=4, size=8, layers=1, heads=2, positions="sinusoidal").eval()
    memory = encoder(flat).memory[0]
    assert not torch.allclose(memory[0], memory[1], atol=1e-3)
    assert not torch.allclose(memory[0], memory[2], atol=1e-3)


def test_patches_are_those_of_unfold() -> None:
    images = torch.rand(2, 3, 8, 12)
    theirs = F.unfold(images, kernel_size=4, stride=4).transpose(1, 2)
    assert torch.equal(patches(images, 4), theirs)


def test_patches_by_hand() -> None:
    image = torch.arange(16.0).view(1, 1, 4, 4)
    assert patches(image, 2)[0].tolist() == [[0, 1, 4, 5], [2, 3, 6, 7], [8, 9, 12, 13], [10, 11, 14, 15]]


def test_patch_embedding_is_a_strided_convolution() -> None:
    torch.manual_seed(0)
    encoder = vit((2, 8, 8), patch=4, size=6, layers=1, heads=2)
    images = torch.rand(2, 2, 8, 8)
    kernels = encoder.project.weight.view(6, 2, 4, 4)
    convolved = F.conv2d(images, kernels, encoder.project.bias, stride=4).flatten(2).transpose(1, 2)
    assert torch.allclose(encoder.project(patches(images, 4)), convolved, atol=1e-6)


def test_positions_down_and_across() -> None:
    grid = SinusoidalGrid(2, 3, 8)
    assert grid.waves.shape == (6, 8)
    assert grid.waves[4, 0].item() == pytest.approx(math.sin(1))  # second row
    assert grid.waves[4, 4].item() == pytest.approx(math.sin(1))  # second column
    assert grid.waves[2, 0].item() == 0.0
    assert grid.waves[2, 4].item() == pytest.approx(math.sin(2))
    assert "waves" not in grid.state_dict()
    learned = vit((1, 8, 12), patch=4, size=8, layers=1, heads=2, positions="learned").positions
    assert learned.weight.shape == (6, 8)
    with pytest.raises(ConfigError, match="choose 8"):
        SinusoidalGrid(2, 2, 7)


def test_a_patch_that_does_not_divide_the_image_names_what_to_set() -> None:
    with pytest.raises(
        ConfigError, match=r"patches of 5×5 .* images of 12×10: set data\.size .* model\.encoder\.patch"
    ):
        vit((1, 10, 12), patch=5)
