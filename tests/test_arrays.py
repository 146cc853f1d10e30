"""Named arrays in one file: safetensors reads ours, whichever way they were written, and damage is noticed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from seqloom import arrays
from seqloom.arrays import map_arrays, write_arrays
from seqloom.errors import CheckpointError

SOME = {
    "levels": np.array([0, 3, 9]),
    "words": np.arange(7, dtype=np.int32),
    "none": np.empty(0, np.float32),
    "log_probs": np.linspace(-5, 0, 12001, dtype=np.float32),
    "table": np.arange(12, dtype=np.float64).reshape(3, 4)[:, ::2],
}


@pytest.mark.parametrize("block", [None, 4096, 8192])
def test_safetensors_reads_what_is_written_and_so_do_we(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, block: int | None
) -> None:
    if block:  # every file is a large one, and takes many blocks
        monkeypatch.setattr(arrays, "LARGE", 0)
        monkeypatch.setattr(arrays, "BLOCK", block)
    write_arrays(tmp_path / "some.safetensors", SOME)
    theirs = load_file(tmp_path / "some.safetensors")
    ours = map_arrays(tmp_path / "some.safetensors", SOME)
    for name, array in SOME.items():
        np.testing.assert_array_equal(theirs[name], array)
        np.testing.assert_array_equal(ours[name], array)
        assert ours[name].dtype == array.dtype


def test_a_file_that_safetensors_wrote_is_mapped(tmp_path: Path) -> None:
    save_file({name: np.ascontiguousarray(array) for name, array in SOME.items()}, tmp_path / "theirs.safetensors")
    ours = map_arrays(tmp_path / "theirs.safetensors", SOME)
    assert all(np.array_equal(ours[name], array) for name, array in SOME.items())
    assert not ours["words"].flags.writeable


def test_a_file_system_without_direct_writing_is_written_to_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(arrays, "LARGE", 0)
    monkeypatch.setattr(arrays.os, "O_DIRECT", 1 << 30, raising=False)  # no such flag: refused, or without effect
    write_arrays(tmp_path / "some.safetensors", SOME)
    np.testing.assert_array_equal(load_file(tmp_path / "some.safetensors")["words"], SOME["words"])


def test_damage_is_an_error_that_names_the_file(tmp_path: Path) -> None:
    file = tmp_path / "some.safetensors"
    with pytest.raises(CheckpointError, match="No such file"):
        map_arrays(file, ["words"])
    write_arrays(file, SOME)
    whole = file.read_bytes()
    with pytest.raises(CheckpointError, match="it has no sentences"):
        map_arrays(file, ["sentences"])
    for length in (0, 4, 100, len(whole) - 1):
        file.write_bytes(whole[:length])
        with pytest.raises(CheckpointError, match=r"some\.safetensors"):
            map_arrays(file, SOME)
