"""Named arrays in one file, which is mapped into memory instead of read: the safetensors format."""

from __future__ import annotations

import hashlib
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
HEADER = 100_000_000  # bytes of a header at most, as in the safetensors library

UNSEALED = {"seal": "0" * 64}
"""The metadata of a safetensors file that is to be sealed."""

_DTYPES = {"int32": "I32", "int64": "I64", "float32": "F32", "float64": "F64"}  # as safetensors calls them


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], sealed: bool = False) -> None:
    """Write arrays as one safetensors file, atomically, without a second copy of them in memory.

    sealed: with the file's own checksum in its header, for what no manifest answers for yet.
    """
    header: dict[str, Any] = {"__metadata__": UNSEALED} if sealed else {}
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
        if sealed:
            seal(temporary)


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


# -------------------------------------------------------------------------------------------------------------- seals


def seal(path: Path) -> None:
    """Write the SHA-256 of a safetensors file in the place that `UNSEALED` keeps for it in the header."""
    place, checksum, _ = _sealing(path)
    with open(path, "r+b") as file:
        file.seek(place)
        file.write(checksum)


def check_seal(path: Path) -> None:
    """Refuse a file that was sealed and is not what was written, or is not there."""
    try:
        _, checksum, kept = _sealing(path)
    except FileNotFoundError:
        raise CheckpointError(f"{path} is missing: bring it back from a copy, or train again") from None
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged, or not finished ({error}): go on with --resume") from None
    if checksum != kept:
        raise CheckpointError(f"{path} is not what was written (its checksum differs): train again")


def _sealing(path: Path) -> tuple[int, bytes, bytes]:
    """Where the seal of a file stands, what it must be (the checksum of all the rest), and what it is."""
    with open(path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
        length = int.from_bytes(content[:8], "little")
        place = content.find(b'"seal":', 8, 8 + min(length, HEADER))
        place = content.find(b'"', place + 7, place + 16) + 1 if place > 0 else 0  # with or without a space before it
        if not place:
            raise ValueError("it has no checksum")
        with memoryview(content) as view:
            digest = hashlib.sha256(view[:place])
            digest.update(view[place + 64 :])
        return place, digest.hexdigest().encode(), content[place : place + 64]
