"""Named arrays in one file: safetensors reads ours, whichever way they were written, and damage is noticed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from seqloom import arrays, files
from seqloom.arrays import Expected, map_arrays, write_arrays
from seqloom.errors import CheckpointError
from seqloom.files import checksum

SOME = {
    "levels": np.array([0, 3, 9]),
    "words": np.arange(7, dtype=np.int32),
    "none": np.empty(0, np.float32),
    "log_probs": np.linspace(-5, 0, 12001, dtype=np.float32),
    "table": np.arange(12, dtype=np.float64).reshape(3, 4)[:, ::2],
}
EXPECTED: dict[str, Expected] = {name: (array.dtype.type, array.shape) for name, array in SOME.items()}


@pytest.mark.parametrize("block", [None, 4096, 8192])
def test_safetensors_reads_what_is_written_and_so_do_we(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int | None
) -> None:
    if block:  # every file is a large one, and takes many blocks
        monkeypatch.setattr(arrays, "LARGE", 0)
        monkeypatch.setattr(arrays, "BLOCK", block)
        monkeypatch.setattr(files, "BLOCK", block)
    write_arrays(tmp_path / "some.safetensors", SOME)
    while_writing, read_back = checksum(tmp_path / "some.safetensors"), checksum(tmp_path / "some.safetensors")
    assert while_writing == read_back
    theirs = load_file(tmp_path / "some.safetensors")
    ours = map_arrays(tmp_path / "some.safetensors", EXPECTED)
    for name, array in SOME.items():
        np.testing.assert_array_equal(theirs[name], array)
        np.testing.assert_array_equal(ours[name], array)
        assert ours[name].dtype == array.dtype


def test_a_file_that_safetensors_wrote_is_mapped(tmp_path: Path) -> None:
    save_file({name: np.ascontiguousarray(array) for name, array in SOME.items()}, tmp_path / "theirs.safetensors")
    ours = map_arrays(tmp_path / "theirs.safetensors", EXPECTED)
    assert all(np.array_equal(ours[name], array) for name, array in SOME.items())
    assert not ours["words"].flags.writeable


def test_a_file_system_without_direct_writing_is_written_to_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "LARGE", 0)
    monkeypatch.setattr(arrays.os, "O_DIRECT", 1 << 30, raising=False)  # no such flag: refused, or without effect
    write_arrays(tmp_path / "some.safetensors", SOME)
    np.testing.assert_array_equal(load_file(tmp_path / "some.safetensors")["words"], SOME["words"])


def test_the_checksum_of_a_sealed_file_is_that_of_what_it_became(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "LARGE", 0)
    write_arrays(tmp_path / "some.safetensors", SOME, sealed=True)
    content = (tmp_path / "some.safetensors").read_bytes()
    assert checksum(tmp_path / "some.safetensors") == hashlib.sha256(content).hexdigest()


def test_damage_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "some.safetensors"
    with pytest.raises(CheckpointError, match="No such file"):
        map_arrays(file, EXPECTED)
    write_arrays(file, SOME)
    whole = file.read_bytes()
    with pytest.raises(CheckpointError, match="it has no sentences"):
        map_arrays(file, {"sentences": (np.int32, (None,))})
    for length in (0, 4, 100, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"some\.safetensors"):
            map_arrays(file, EXPECTED)


TRUE = {"dtype": "I32", "shape": [4], "data_offsets": [0, 16]}
LIES: dict[str, Any] = {
    "no dtype": {"shape": [4], "data_offsets": [0, 16]},
    "no shape": {"dtype": "I32", "data_offsets": [0, 16]},
    "no offsets": {"dtype": "I32", "shape": [4]},
    "a dtype that is none": TRUE | {"dtype": "I33"},
    "a dtype that is not even a name": TRUE | {"dtype": ["I32"]},
    "a shape below 0": TRUE | {"shape": [-4]},
    "a shape that is to be guessed": TRUE | {"shape": [-1]},
    "a shape larger than the data": TRUE | {"shape": [5]},
    "a shape beyond all numbers": TRUE | {"shape": [0, 10**30], "data_offsets": [0, 0]},
    "a shape of fractions": TRUE | {"shape": [4.0]},
    "a shape that is a word": TRUE | {"shape": "four"},
    "offsets before the data": TRUE | {"data_offsets": [-16, 0]},
    "offsets after the data": TRUE | {"data_offsets": [8, 24]},
    "offsets the wrong way round": TRUE | {"data_offsets": [16, 0]},
    "offsets between two numbers": TRUE | {"shape": [3], "data_offsets": [2, 14]},
    "three offsets": TRUE | {"data_offsets": [0, 8, 16]},
    "offsets that are words": TRUE | {"data_offsets": ["0", "16"]},
    "no entry at all": None,
    "a list": [TRUE],
}


def written(path: Path, header: str) -> Path:
    padded = header.encode() + b" " * (-len(header.encode()) % 8)
    path.write_bytes(len(padded).to_bytes(8, "little") + padded + bytes(16))
    return path


def test_a_header_written_by_hand_is_read(tmp_path: Path) -> None:
    arrays = map_arrays(written(tmp_path / "true", json.dumps({"words": TRUE})), {"words": (np.int32, (4,))})
    assert arrays["words"].tolist() == [0, 0, 0, 0]


@pytest.mark.parametrize("lie", LIES)
def test_a_header_that_lies_about_an_array_is_refused(lie: str, tmp_path: Path) -> None:
    file = written(tmp_path / "lying", json.dumps({"words": LIES[lie]}))
    with pytest.raises(CheckpointError, match="lying is damaged: its header does not say where words is"):
        map_arrays(file, {"words": (np.int32, (None,))})


@pytest.mark.parametrize("header", ["[]", "7", "null", '"words"', "[" * 100_000, "{", "\x00"])
def test_a_header_that_names_no_arrays_is_refused(header: str, tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="its header is damaged"):
        map_arrays(written(tmp_path / "lying", header), {"words": (np.int32, (None,))})


def test_a_header_of_gigabytes_is_not_read(tmp_path: Path) -> None:
    file = tmp_path / "sparse"
    with open(file, "wb") as sparse:
        sparse.write((8 << 30).to_bytes(8, "little"))
        sparse.truncate(9 << 30)
    with pytest.raises(CheckpointError, match="its header is damaged"):
        map_arrays(file, {"words": (np.int32, (None,))})


@pytest.mark.parametrize("expected", [(np.int64, (7,)), (np.floating, (7,)), (np.int32, (8,)), (np.int32, (7, None))])
def test_another_array_than_expected_is_refused(tmp_path: Path, expected: Expected) -> None:
    write_arrays(tmp_path / "some", SOME)
    with pytest.raises(CheckpointError, match=r"words should be .*, and is int32 \[7\]"):
        map_arrays(tmp_path / "some", {"words": expected})
