"""Sheets of images: wide enough to look at, and every pixel still what the model drew."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from seqloom.errors import UserError
from seqloom.reports.pictures import enlarged, save_sheet, sheet

LIMIT = 800


@pytest.mark.parametrize(
    ("count", "shape", "columns"),
    [(1, (8, 8), None), (64, (8, 8), None), (9, (20, 28), 9), (72, (28, 28, 3), 9), (100, (28, 28), None)],
)
def test_a_sheet_is_wide_and_its_pixels_are_squares(count: int, shape: tuple[int, ...], columns: int | None) -> None:
    images = np.random.default_rng(count).integers(0, 256, (count, *shape), np.uint8)
    pixels = np.asarray(sheet(images, columns))
    across = columns or round(count**0.5)
    small = across * (shape[1] + 1) + 1  # images, and a line between each two and around them
    scale, rest = divmod(pixels.shape[1], small)
    assert rest == 0
    assert pixels.shape[1] >= LIMIT
    assert pixels.shape[1] - small < LIMIT  # and no wider than that takes
    first = pixels[::scale, ::scale]
    np.testing.assert_array_equal(pixels, first.repeat(scale, 0).repeat(scale, 1))
    for number in (0, count - 1):
        top, left = (number // across) * (shape[0] + 1) + 1, (number % across) * (shape[1] + 1) + 1
        np.testing.assert_array_equal(first[top : top + shape[0], left : left + shape[1]], images[number])


def test_what_is_wide_already_stays_as_it_is() -> None:
    picture = Image.new("L", (LIMIT, 3))
    assert enlarged(picture, LIMIT).size == (LIMIT, 3)


def test_a_column_of_very_many_images_does_not_fill_the_memory() -> None:
    tall = sheet(np.zeros((5000, 8, 8), np.uint8), columns=1)
    assert tall.width * tall.height <= 1 << 25
    assert tall.width >= 10


def test_a_picture_is_what_its_name_says(tmp_path: Path) -> None:
    images = np.zeros((4, 8, 8), np.uint8)
    for name, format in (("a.png", "PNG"), ("a.JPG", "JPEG"), ("a.webp", "WEBP"), ("a", "PNG")):
        save_sheet(images, tmp_path / name)
        assert Image.open(tmp_path / name).format == format
    for name in ("a.xyz", "a.psd"):  # of the second kind Pillow reads files, and writes none
        with pytest.raises(UserError, match=r"the name must end in one of \.png, \.jpg"):
            save_sheet(images, tmp_path / name)
        assert not (tmp_path / name).exists()
