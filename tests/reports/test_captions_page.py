"""The page of where a captioner looked: colour where the weights are, and a page that says what is in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seqloom.errors import DataError
from seqloom.reports.captions import ImageAttention, captions_section, heat_map, write_image_attention

IMAGE = np.full((4, 6), 80, np.uint8)


def look(words: list[str], weights: np.ndarray) -> ImageAttention:
    return ImageAttention(IMAGE, words, weights, " ".join(words), -1.5)


def test_the_largest_weight_is_the_most_coloured() -> None:
    weights = np.array([[0.0, 0.1, 0.0], [0.0, 0.1, 0.8]])
    picture = np.asarray(heat_map(IMAGE, weights, width=60)).astype(int)
    assert picture.shape == (40, 60, 3)
    redness = picture[..., 0] - picture[..., 2]
    row, column = np.unravel_index(redness.argmax(), redness.shape)
    assert row >= 20
    assert column >= 40
    assert redness[5, 5] == 0, "no weight, no colour"


def test_no_weights_leave_the_image_as_it_is() -> None:
    colour = np.arange(4 * 6 * 3, dtype=np.uint8).reshape(4, 6, 3)
    found = np.asarray(heat_map(colour, np.zeros((2, 2)), width=12))
    assert np.array_equal(found[::2, ::2], colour)


def test_a_page_has_a_picture_for_every_word(tmp_path: Path) -> None:
    weights = np.full((2, 2, 2), 0.25)
    write_image_attention(tmp_path / "looks.html", [look(["<b>", "boot"], weights)], "Where it looks")
    page = (tmp_path / "looks.html").read_text("utf-8")
    assert page.count("data:image/png;base64,") == 3
    assert "&lt;b&gt; boot" in page
    assert "<b>" not in page
    section = captions_section([(look(["a", "boot"], weights), ["a boot", "the boot"])])
    assert '<p dir="auto">the boot</p>' in section


def test_what_cannot_be_drawn(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"not \[words, rows, columns\]"):
        look(["one"], np.full((2, 2, 2), 0.25))
    with pytest.raises(DataError, match="no image was captioned"):
        write_image_attention(tmp_path / "looks.html", [], "Where it looks")
    assert not list(tmp_path.iterdir())
