"""What images a model was trained on, as a run keeps it."""

from __future__ import annotations

from typing import Any

import pytest

from seqloom.data.image_format import ImageFormat


def test_a_format_comes_back() -> None:
    format = ImageFormat((3, 28, 20), ("cat", "dog"))
    assert ImageFormat.from_json(format.to_json()) == format


@pytest.mark.parametrize(
    "shape", [[1, 28], [0, 28, 28], [1, -28, 28], [1, 10**9, 10**9], [1, 2.5, 28], ["1", "28", "28"], "128", 7, None]
)
def test_a_shape_that_no_image_has_is_refused(shape: Any) -> None:
    with pytest.raises((ValueError, TypeError)):
        ImageFormat.from_json({"shape": shape, "classes": []})
