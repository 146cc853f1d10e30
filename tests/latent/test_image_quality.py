"""PSNR and SSIM against their definitions."""

from __future__ import annotations

import math

import pytest
import torch

from seqloom.metrics.images import psnr, squared_error, ssim


def test_a_constant_difference_has_a_known_psnr() -> None:
    images = torch.full((2, 1, 4, 4), 0.5)
    shifted = images + torch.tensor([0.1, 0.01]).view(2, 1, 1, 1)
    torch.testing.assert_close(psnr(shifted, images), torch.tensor([20.0, 40.0]))
    torch.testing.assert_close(squared_error(shifted, images), torch.tensor([0.01, 0.0001]))


def test_equal_images_have_no_error() -> None:
    images = torch.rand(3, 3, 12, 12)
    assert psnr(images, images).tolist() == [math.inf] * 3
    torch.testing.assert_close(ssim(images, images), torch.ones(3))


def test_constant_images_differ_in_luminance_only() -> None:
    """No variance: SSIM = (2ab + C₁) / (a² + b² + C₁)."""
    first, second = torch.full((1, 1, 16, 16), 0.8).double(), torch.full((1, 1, 16, 16), 0.3).double()
    expected = (2 * 0.8 * 0.3 + 1e-4) / (0.8**2 + 0.3**2 + 1e-4)
    assert float(ssim(first, second)) == pytest.approx(expected)


def test_ssim_is_that_of_the_paper_window_by_window() -> None:
    torch.manual_seed(0)
    first, second = torch.rand(1, 1, 14, 13).double(), torch.rand(1, 1, 14, 13).double()
    weights = torch.tensor(
        [[math.exp(-((i - 5) ** 2 + (j - 5) ** 2) / (2 * 1.5**2)) for j in range(11)] for i in range(11)]
    ).double()
    weights /= weights.sum()
    found = []
    for top in range(14 - 10):
        for left in range(13 - 10):
            x, y = (image[0, 0, top : top + 11, left : left + 11] for image in (first, second))
            mean_x, mean_y = (weights * x).sum(), (weights * y).sum()
            var_x, var_y = (weights * (x - mean_x) ** 2).sum(), (weights * (y - mean_y) ** 2).sum()
            both = (weights * (x - mean_x) * (y - mean_y)).sum()
            luminance = (2 * mean_x * mean_y + 0.01**2) / (mean_x**2 + mean_y**2 + 0.01**2)
            found.append(float(luminance * (2 * both + 0.03**2) / (var_x + var_y + 0.03**2)))
    assert float(ssim(first, second)) == pytest.approx(sum(found) / len(found), abs=1e-9)


def test_images_smaller_than_the_window_have_an_ssim() -> None:
    images = torch.rand(2, 1, 8, 8)
    found = ssim(images, 1 - images)
    assert found.shape == (2,)
    assert bool((found < 1).all())
