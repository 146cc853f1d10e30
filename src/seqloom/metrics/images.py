"""How near one image is to another."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

WINDOW = 11
DEVIATION = 1.5  # of the window's weights
FIRST, SECOND = 0.01**2, 0.03**2  # (K₁L)² and (K₂L)² with L = 1


def squared_error(images: Tensor, references: Tensor) -> Tensor:
    """(x - y)², the mean over the pixels of each image: [rows, channels, height, width] twice -> [rows]."""
    return (images - references).square().flatten(1).mean(1)


def psnr(images: Tensor, references: Tensor) -> Tensor:
    """Peak signal-to-noise ratio of each image in decibels, 10 log₁₀(1 / mean (x - y)²): [rows]; ∞ where equal."""
    return -10 * squared_error(images, references).log10()


def ssim(images: Tensor, references: Tensor) -> Tensor:
    """Structural similarity of each image (Wang et al. 2004): [rows], 1 where equal.

        SSIM = mean of (2 μ_x μ_y + C₁)(2 σ_xy + C₂) / ((μ_x² + μ_y² + C₁)(σ_x² + σ_y² + C₂))

    over all places of a window of 11×11 pixels with normal weights of deviation 1.5 that lie within the image; where an
    image is smaller, over the largest odd window that fits.
    """
    channels, height, width = images.shape[1:]
    side = min(WINDOW, height - 1 + height % 2, width - 1 + width % 2)
    offsets = torch.arange(side, dtype=images.dtype, device=images.device) - side // 2
    line = torch.exp(-offsets.square() / (2 * DEVIATION**2))
    line = line / line.sum()
    window = torch.outer(line, line).expand(channels, 1, side, side)

    def local(values: Tensor) -> Tensor:
        return F.conv2d(values, window, groups=channels)

    mean, other = local(images), local(references)
    variance = local(images * images) - mean * mean
    other_variance = local(references * references) - other * other
    covariance = local(images * references) - mean * other
    likeness = (2 * mean * other + FIRST) * (2 * covariance + SECOND)
    likeness = likeness / ((mean * mean + other * other + FIRST) * (variance + other_variance + SECOND))
    return likeness.flatten(1).mean(1)
