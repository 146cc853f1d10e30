"""Images in batches."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seqloom.data.image_batches import all_batches, image_stream
from seqloom.data.images import ImageSet, load_images


@pytest.fixture(scope="module")
def digits() -> ImageSet:
    return load_images("digits")


def test_every_image_comes_once_an_epoch(digits: ImageSet) -> None:
    batches = image_stream(digits, 599, "grey", seed=3)
    seen = torch.cat([next(batches).images for _ in range(3)]).flatten(1)
    assert batches.batches_per_epoch == 3
    expected = torch.from_numpy(digits.images).float().flatten(1) / 255
    assert sorted(map(tuple, seen.tolist())) == sorted(map(tuple, expected.tolist()))


def test_drawn_pixels_are_white_as_often_as_they_are_bright(digits: ImageSet) -> None:
    batches = image_stream(ImageSet(digits.images[:50], None), 50, "sampled")
    mean = torch.stack([next(batches).images.mean() for _ in range(200)]).mean().item()
    assert mean == pytest.approx(digits.images[:50].mean() / 255, abs=2e-3)
    one = next(all_batches(ImageSet(np.array([[[0, 255]]], np.uint8), None), 1, "sampled"))
    assert one.images.tolist() == [[[[0.0, 1.0]]]]


def test_held_out_pixels_are_drawn_once_for_all(digits: ImageSet) -> None:
    first, second = (torch.cat([batch.images for batch in all_batches(digits, 500, "sampled")]) for _ in range(2))
    assert torch.equal(first, second)
    assert set(first.unique().tolist()) == {0.0, 1.0}


def test_colours_come_first() -> None:
    images = np.arange(2 * 4 * 5 * 3, dtype=np.uint8).reshape(2, 4, 5, 3)
    (batch,) = all_batches(ImageSet(images, None), 10, "grey")
    assert batch.images.shape == (2, 3, 4, 5)
    assert batch.images[1, 2, 3, 4].item() == pytest.approx(images[1, 3, 4, 2] / 255)
