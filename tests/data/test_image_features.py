"""Features of images in a file: what is read is what was written, and what is wrong is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file

from seqloom.data.captions import load_featured
from seqloom.data.image_features import FeatureFile, as_grid
from seqloom.errors import DataError


@pytest.fixture
def captions(tmp_path: Path) -> str:
    """Records of three images, none of which is there."""
    names = ["images/b.jpg", "a.jpg", "c.jpg"]
    records = [json.dumps({"image": name, "caption": [f"one {name}", "two"]}) for name in names]
    (tmp_path / "mine.jsonl").write_text("\n".join(records), "utf-8")
    return str(tmp_path / "mine.jsonl")


def written(tmp_path: Path, **entries: Any) -> str:
    """A file of entries [4, 3], or of others by the first letters of their names."""
    shape = entries.pop("shape", (4, 3))
    tensors = {f"{name}.jpg": torch.randn(shape).half() for name in "abcd"}
    tensors |= {f"{name}.jpg": tensor for name, tensor in entries.items()}
    save_file(tensors, tmp_path / "f.safetensors")
    return str(tmp_path / "f.safetensors")


@pytest.mark.parametrize(
    ("shape", "grid"),
    [((5,), (1, 1, 5)), ((49, 5), (7, 7, 5)), ((50, 5), (1, 50, 5)), ((2, 3, 5), (2, 3, 5)), ((1, 5), (1, 1, 5))],
)
def test_places_are_a_grid_where_they_can_be(shape: tuple[int, ...], grid: tuple[int, ...]) -> None:
    assert as_grid(shape, "here") == grid


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_features_stand_beside_the_captions_of_their_images(captions: str, tmp_path: Path, dtype: torch.dtype) -> None:
    tensors = {f"{name}.jpg": torch.randn(4, 3).to(dtype) for name in "abcd"}
    save_file(tensors, tmp_path / "f.safetensors")
    found = load_featured(captions, str(tmp_path / "f.safetensors"))
    assert found.captions == tuple((f"one {name}", "two") for name in ("images/b.jpg", "a.jpg", "c.jpg"))
    assert found.shape == (3, 2, 2), "size, rows and columns"
    expected = torch.stack([tensors[name] for name in ("b.jpg", "a.jpg", "c.jpg")]).float()
    assert torch.equal(torch.from_numpy(found.images).float().flatten(1, 2), expected)


def test_other_features_in_the_same_file_are_read_anew(captions: str, tmp_path: Path) -> None:
    first, second = (load_featured(captions, written(tmp_path)).images.copy() for _ in range(2))
    assert (first != second).any()


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"a": torch.zeros(4, 2).half()}, r"entry b\.jpg: the features are \[4, 3\], and those of a\.jpg \[4, 2\]"),
        ({"b": torch.full((4, 3), torch.nan).half()}, r"entry b\.jpg: some of the features are infinite or no numbers"),
        ({"c": torch.full((4, 3), torch.inf).half()}, r"entry c\.jpg: some of the features are infinite"),
        ({"c": torch.zeros(4, 3).int()}, r"entry c\.jpg: the features are of type I32; write them as float16"),
        ({"shape": (2, 2, 2, 3)}, r"the features are \[2, 2, 2, 3\], not \[size\], \[places, size\]"),
        ({"shape": (0, 3)}, r"the features are \[0, 3\], not"),
    ],
)
def test_what_is_wrong_with_features(captions: str, tmp_path: Path, entries: Any, message: str) -> None:
    with pytest.raises(DataError, match=rf"f\.safetensors, .*{message}"):
        load_featured(captions, written(tmp_path, **entries))


def test_what_is_no_file_of_features(captions: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone: there is no such file of features"):
        load_featured(captions, "gone")
    (tmp_path / "text").write_text("words", "utf-8")
    with pytest.raises(DataError, match=r"text is no safetensors file that can be read"):
        load_featured(captions, str(tmp_path / "text"))
    save_file({}, tmp_path / "empty")
    with pytest.raises(DataError, match=r"empty has no entries: there must be one for each image"):
        FeatureFile(tmp_path / "empty")
    save_file({"a.jpg": torch.zeros(3)}, tmp_path / "few")
    with pytest.raises(DataError, match=r"few has no entry b\.jpg: make features of that image with the same encoder"):
        load_featured(captions, str(tmp_path / "few"))
    with pytest.raises(DataError, match=r"scenes:test are drawn when they are needed, and have no files"):
        load_featured("scenes:test", str(tmp_path / "few"))
