"""Named arrays in one file, which is mapped into memory instead of read: the safetensors format."""

from __future__ import annotations

import json
import mmap
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import CheckpointError
from seqloom.files import atomic_file

LARGE = 1 << 26  # bytes from which on a file is written past the system's cache
BLOCK = 1 << 24  # bytes written at a time
PAGE = 4096

_DTYPES = {"int32": "I32", "int64": "I64", "float32": "F32", "float64": "F64"}  # as safetensors calls them


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write arrays as one safetensors file, atomically, without a second copy of them in memory."""
    header: dict[str, Any] = {}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _DTYPES[array.dtype.name], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # what follows is aligned
    pieces: list[Any] = [len(text).to_bytes(8, "little") + text, *map(np.ascontiguousarray, arrays.values())]
    with atomic_file(path) as temporary:
        if end < LARGE or not _write_directly(temporary, pieces):
            with open(temporary, "wb") as file:
                for piece in pieces:
                    file.write(piece)


def _write_directly(path: Path, pieces: Iterable[Any]) -> bool:
    """Write to the disk past the system's cache, which would take another copy of all of it, and longer than the disk.

    False where the file system does not have it (in memory, over some networks): nothing is written then.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_DIRECT)
    except (AttributeError, OSError):
        return False
    size = filled = 0
    with mmap.mmap(-1, BLOCK) as block:  # aligned, as direct writing wants it
        try:
            for piece in pieces:
                rest = memoryview(piece).cast("B") if memoryview(piece).nbytes else memoryview(b"")
                size += len(rest)
                while rest:
                    taken = min(len(rest), BLOCK - filled)
                    block[filled : filled + taken] = rest[:taken]
                    filled, rest = filled + taken, rest[taken:]
                    if filled == BLOCK:
                        os.write(descriptor, block)
                        filled = 0
            with memoryview(block) as view:
                os.write(descriptor, view[: -(-filled // PAGE) * PAGE])
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)
    return True


def map_arrays(path: Path, names: Iterable[str]) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file by name, mapped into memory: nothing is read until it is used."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length)) if 8 + length <= size else None
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or 'its header is damaged'}"
        ) from None
    arrays = {}
    for name in names:
        entry = header.get(name) if isinstance(header, dict) else None
        if entry is None:
            raise CheckpointError(f"{path} is damaged: it has no {name}")
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        if end > size:
            raise CheckpointError(f"{path} is damaged: {size:,} bytes, and {name} would end at {end:,}")
        dtype = np.dtype(next(ours for ours, theirs in _DTYPES.items() if theirs == entry["dtype"]))
        if begin == end:
            arrays[name] = np.empty(entry["shape"], dtype)
        else:
            arrays[name] = np.memmap(path, dtype, "r", begin, tuple(entry["shape"])).view(np.ndarray)
    return arrays
