"""The layers of both players: all-to-all connections, or convolutions with strides."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from torch import nn

from seqloom.config.schema.adversarial import DcganPlayers, DensePlayers
from seqloom.errors import ConfigError

SLOPE = 0.2  # of LeakyReLU below 0
SMALLEST = 4  # pixels on a side; shorter sides are not halved
LARGEST = 7  # pixels that one convolution or linear map may still reach over

Shape = tuple[int, int, int]
"""Channels, height and width."""


def generator_network(config: DensePlayers | DcganPlayers, inputs: int, shape: Shape) -> nn.Sequential:
    """[rows, inputs] -> images from -1 to 1, [rows, *shape]."""
    if isinstance(config, DensePlayers):
        return _dense_generator(config.sizes, inputs, shape)
    return _dcgan_generator(config.width, inputs, shape)


def discriminator_network(config: DensePlayers | DcganPlayers, shape: Shape) -> tuple[nn.Sequential, int]:
    """Images from -1 to 1, [rows, *shape] -> features [rows, n], and n."""
    if isinstance(config, DensePlayers):
        return _dense_discriminator(config.sizes[::-1], shape)
    return _dcgan_discriminator(config.width, shape)


def _dense_generator(sizes: Sequence[int], inputs: int, shape: Shape) -> nn.Sequential:
    layers: list[nn.Module] = []
    for before, after in itertools.pairwise([inputs, *sizes]):
        layers += [nn.Linear(before, after), nn.BatchNorm1d(after), nn.ReLU()]
    last = sizes[-1] if sizes else inputs
    channels, height, width = shape
    return nn.Sequential(*layers, nn.Linear(last, channels * height * width), nn.Tanh(), nn.Unflatten(1, shape))


def _dense_discriminator(sizes: Sequence[int], shape: Shape) -> tuple[nn.Sequential, int]:
    channels, height, width = shape
    layers: list[nn.Module] = [nn.Flatten()]
    for before, after in itertools.pairwise([channels * height * width, *sizes]):
        layers += [nn.Linear(before, after), nn.LeakyReLU(SLOPE)]
    return nn.Sequential(*layers), sizes[-1] if sizes else channels * height * width


def _dcgan_generator(width: int, inputs: int, shape: Shape) -> nn.Sequential:
    halvings, start = _halvings(shape)
    filters = width * 2 ** (halvings - 1)
    layers: list[nn.Module] = [
        nn.Unflatten(1, (inputs, 1, 1)),
        nn.ConvTranspose2d(inputs, filters, start, bias=False),
        nn.BatchNorm2d(filters),
        nn.ReLU(),
    ]
    for _ in range(halvings - 1):
        layers += [nn.ConvTranspose2d(filters, filters // 2, 4, 2, 1, bias=False)]  # twice the sides
        layers += [nn.BatchNorm2d(filters // 2), nn.ReLU()]
        filters //= 2
    layers += [nn.ConvTranspose2d(filters, shape[0], 4, 2, 1), nn.Tanh()]
    return _started(nn.Sequential(*layers))


def _dcgan_discriminator(width: int, shape: Shape) -> tuple[nn.Sequential, int]:
    halvings, start = _halvings(shape)
    layers: list[nn.Module] = [nn.Conv2d(shape[0], width, 4, 2, 1), nn.LeakyReLU(SLOPE)]  # half the sides
    filters = width
    for _ in range(halvings - 1):
        layers += [nn.Conv2d(filters, 2 * filters, 4, 2, 1, bias=False)]
        layers += [nn.BatchNorm2d(2 * filters), nn.LeakyReLU(SLOPE)]
        filters *= 2
    return _started(nn.Sequential(*layers, nn.Flatten())), filters * start[0] * start[1]


def _halvings(shape: Shape) -> tuple[int, tuple[int, int]]:
    """How often the sides can be halved, and what is left of them then."""
    _, height, width = shape
    count = 0
    while height % 2 == width % 2 == 0 and min(height, width) >= 2 * SMALLEST:
        height, width, count = height // 2, width // 2, count + 1
    if count == 0 or max(height, width) > LARGEST:
        raise ConfigError(
            f"images of {shape[2]}×{shape[1]} pixels do not halve down to {SMALLEST} to {LARGEST}: "
            "set data.size to 32 or 64, or model.network.kind=dense"
        )
    return count, (height, width)


def _started(network: nn.Sequential) -> nn.Sequential:
    """Weights from N(0, 0.02), gains of batch normalisation from N(1, 0.02) (Radford et al. 2016)."""
    for module in network:
        if isinstance(module, nn.Conv2d | nn.ConvTranspose2d):
            nn.init.normal_(module.weight, 0.0, 0.02)
        elif isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.weight, 1.0, 0.02)
    return network
