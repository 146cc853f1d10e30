"""Named arrays in one file, which is mapped into memory instead of read: the safetensors format."""

from __future__ import annotations

import hashlib
import json
import mmap
import os
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import CheckpointError
from seqloom.files import BLOCK, atomic_file, note_hashes

LARGE = 1 << 26  # bytes from which on a file is written past the system's cache
PAGE = 4096
LONGEST_HEADER = 100_000_000  # bytes, as safetensors has it

UNSEALED = {"seal": "0" * 64}
"""The metadata of a safetensors file that is to be sealed."""

Expected = tuple[type[np.number[Any]], tuple[int | None, ...]]
"""The type of an array's numbers, or a family of types, and its shape; None: any size."""

_NAMES = {"int32": "I32", "int64": "I64", "float32": "F32", "float64": "F64"}  # as safetensors calls them
_DTYPES = {name: np.dtype(ours) for ours, name in _NAMES.items()}


def write_arrays(path: Path, arrays: Mapping[str, NDArray[Any]], sealed: bool = False) -> None:
    """Write arrays as one safetensors file, atomically, without a second copy of them in memory.

    sealed: with the file's own checksum in its header, for what no manifest answers for yet.
    """
    header: dict[str, Any] = {"__metadata__": UNSEALED} if sealed else {}
    end = 0
    for name, array in arrays.items():
        begin, end = end, end + array.nbytes
        header[name] = {"dtype": _NAMES[array.dtype.name], "shape": list(array.shape), "data_offsets": [begin, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)  # what follows is aligned
    pieces: list[Any] = [len(text).to_bytes(8, "little") + text, *map(np.ascontiguousarray, arrays.values())]
    with atomic_file(path) as temporary:
        hashes = _write_directly(temporary, pieces) if end >= LARGE else None
        if hashes is None:
            with open(temporary, "wb") as file:
                for piece in pieces:
                    file.write(piece)
        if sealed:
            seal(temporary)
        elif hashes is not None:
            note_hashes(temporary, hashes)


def _write_directly(path: Path, pieces: Iterable[Any]) -> list[bytes] | None:
    """Write to the disk past the system's cache, which would take another copy of all of it, and longer than the disk.

    Each block is hashed while the disk writes it: reading all of it back for its checksum would take as long again.
    None where the file system does not have it (in memory, over some networks): nothing is written then.
    """
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_DIRECT)
    except (AttributeError, OSError):
        return None
    size = filled = 0
    hashes: list[bytes] = []
    with mmap.mmap(-1, BLOCK) as block, ThreadPoolExecutor(1) as pool:  # aligned, as direct writing wants it

        def write() -> None:
            with memoryview(block) as view, view[:filled] as content:
                writing = pool.submit(os.write, descriptor, view[: -(-filled // PAGE) * PAGE])
                hashes.append(hashlib.sha256(content).digest())
                writing.result()

        try:
            for piece in pieces:
                rest = memoryview(piece).cast("B") if memoryview(piece).nbytes else memoryview(b"")
                size += len(rest)
                while rest:
                    taken = min(len(rest), BLOCK - filled)
                    block[filled : filled + taken] = rest[:taken]
                    filled, rest = filled + taken, rest[taken:]
                    if filled == BLOCK:
                        write()
                        filled = 0
            if filled:
                write()
            os.ftruncate(descriptor, size)
        finally:
            os.close(descriptor)
    return hashes


def map_arrays(path: Path, expected: Mapping[str, Expected]) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file by name, mapped into memory: nothing is read until it is used.

    The file may be anybody's: an array is what its header says and what is expected of it, or it is refused.
    """
    start, header = _header(path)
    try:
        whole = np.memmap(path, np.uint8, "r").view(np.ndarray)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"cannot read {path}: {getattr(error, 'strerror', None) or 'it is damaged'}") from None
    arrays = {}
    for name, (dtype, shape) in expected.items():
        if name not in header:
            raise CheckpointError(f"{path} is damaged: it has no {name}")
        try:
            array = _array(whole, start, **header[name])
        except (KeyError, TypeError, ValueError, OverflowError):
            raise CheckpointError(f"{path} is damaged: its header does not say where {name} is") from None
        if not np.issubdtype(array.dtype, dtype) or not fits(array.shape, shape):
            sizes = ", ".join("any" if size is None else f"{size:,}" for size in shape)
            raise CheckpointError(
                f"{path} is damaged, or of another model: {name} should be {dtype.__name__} [{sizes}], "
                f"and is {array.dtype} {list(array.shape)}"
            )
        arrays[name] = array
    return arrays


def shapes_of(path: Path) -> dict[str, tuple[str, list[int]]]:
    """The type (F32, I64, ...) and the shape of each array of a safetensors file, by its header: no array is read."""
    start, header = _header(path)
    header.pop("__metadata__", None)
    try:
        end = start + max((array["data_offsets"][1] for array in header.values()), default=0)
        shapes = {name: (str(array["dtype"]), [int(size) for size in array["shape"]]) for name, array in header.items()}
    except (KeyError, TypeError, ValueError, IndexError):
        raise CheckpointError(f"cannot read {path}: its header is damaged") from None
    if (size := path.stat().st_size) != end:
        raise CheckpointError(f"{path} is damaged: it has {size:,} bytes, and its header tells of {end:,}")
    return shapes


def _header(path: Path) -> tuple[int, dict[str, Any]]:
    """Where the arrays of a safetensors file begin, and what its header says of them."""
    try:
        with open(path, "rb") as file:
            length = int.from_bytes(file.read(8), "little")
            header = json.loads(file.read(length)) if length <= LONGEST_HEADER else None
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"cannot read {path}: {getattr(error, 'strerror', None) or 'its header is damaged'}"
        ) from None
    if not isinstance(header, dict):
        raise CheckpointError(f"cannot read {path}: its header is damaged")
    return 8 + length, header


def _array(whole: NDArray[np.uint8], start: int, dtype: str, shape: list[int], data_offsets: list[int]) -> NDArray[Any]:
    """The array that an entry of a header describes; one of the errors caught above where it describes none."""
    kind = _DTYPES[dtype]
    begin, end = (start + offset for offset in data_offsets)
    if not start <= begin <= end <= len(whole) or begin % kind.itemsize or min(shape, default=0) < 0:
        raise ValueError
    return whole[begin:end].view(kind).reshape(shape)


def fits(shape: tuple[int, ...], expected: tuple[int | None, ...]) -> bool:
    """Whether a shape is the expected one, where None stands for any size."""
    return len(shape) == len(expected) and all(want in (None, size) for size, want in zip(shape, expected, strict=True))


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
        place = content.find(b'"seal":', 8, 8 + min(length, LONGEST_HEADER))
        place = content.find(b'"', place + 7, place + 16) + 1 if place > 0 else 0  # with or without a space before it
        if not place:
            raise ValueError("it has no checksum")
        with memoryview(content) as view:
            digest = hashlib.sha256(view[:place])
            digest.update(view[place + 64 :])
        return place, digest.hexdigest().encode(), content[place : place + 64]
