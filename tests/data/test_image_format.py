"""What images a model was trained on, as a run keeps it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from PIL import Image

from seqloom.data.image_format import ImageFormat
from seqloom.data.images import Picture, load_images, open_pictures
from seqloom.errors import UserError


def test_a_format_comes_back() -> None:
    format = ImageFormat((3, 28, 20), ("cat", "dog"))
    assert ImageFormat.from_json(format.to_json()) == format


@pytest.mark.parametrize(
    "shape", [[1, 28], [0, 28, 28], [1, -28, 28], [1, 10**9, 10**9], [1, 2.5, 28], ["1", "28", "28"], "128", 7, None]
)
def test_a_shape_that_no_image_has_is_refused(shape: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        ImageFormat.from_json({"shape": shape, "classes": []})


def test_pictures_of_any_size_become_what_a_model_reads() -> None:
    wide = np.zeros((10, 30), np.uint8)
    wide[:, 10:20] = 200
    pictures = [
        Picture("wide", Image.fromarray(wide), "dog"),
        Picture("colour", Image.new("RGB", (10, 10), (9, 9, 9)), "cat"),
    ]
    format = ImageFormat((1, 10, 10), ("cat", "dog"))
    cut, squeezed = (format.read(pictures, stretch) for stretch in (False, True))
    assert cut.names == ("wide", "colour")
    assert cut.changed == 1
    assert cut.images.labels is not None
    assert cut.images.labels.tolist() == [1, 0]
    assert (cut.images.images[0] > 90).all()  # the middle, a little blurred at its edges
    assert squeezed.images.images[0, :, [0, 9]].max() == 0  # the whole of it
    assert (cut.images.images[1] == 9).all()
    assert ImageFormat((3, 4, 4)).read(pictures, False).images.images.shape == (2, 4, 4, 3)


def test_stretched_pictures_are_those_of_training() -> None:
    """What `data.size` makes of a set, and what becomes of the same pictures one by one."""
    expected = load_images("digits").first(5).resized(5)
    pictures = [picture for picture, _ in zip(open_pictures("digits"), range(5), strict=False)]
    found = ImageFormat.of(expected).read(pictures, stretch=True)
    np.testing.assert_array_equal(found.images.images, expected.images)
    np.testing.assert_array_equal(found.images.labels, expected.labels)


def test_labels_are_known_for_all_pictures_or_for_none() -> None:
    black = Image.new("L", (4, 4))
    format = ImageFormat((1, 4, 4), ("cat", "dog"))
    for other in ("bird", None):
        assert format.read([Picture("a", black, "cat"), Picture("b", black, other)], False).images.labels is None
    with pytest.raises(UserError, match="no images"):
        format.read([], False)
