"""What is computed once and kept between runs: entries of a cache, each a folder that says what is in it."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seqloom.errors import CheckpointError
from seqloom.files import atomic_folder, checksum, read_sealed, write_sealed
from seqloom.progress import say

HEADER = "store.json"
ARRAY = "array.bin"
FORMAT = 5  # raise when the files of any entry change shape: all are then built anew

About = dict[str, Any]
"""What is to be known of an entry's files, as JSON values."""


@dataclass(frozen=True)
class Entry:
    """A folder with files, and a header with their checksums and its own."""

    folder: Path
    about: About

    @classmethod
    def read(cls, folder: Path) -> Entry | None:
        """An entry written before; None where there is none, or where any of it is not what was written."""
        try:
            header = read_sealed(folder / HEADER)
            sound = all(checksum(folder / name) == expected for name, expected in header["files"].items())
            return cls(folder, header["about"]) if sound else None
        except (CheckpointError, OSError, KeyError, TypeError, AttributeError):
            return None

    @classmethod
    def write(cls, folder: Path, fill: Callable[[Path], About]) -> Entry:
        """A new entry: `fill` puts files into a folder and says what they are. It takes the place of whatever stands
        there, unless that is sound: then another process made the same meanwhile, and may be reading it."""
        if folder.is_file():
            folder.unlink()
        with atomic_folder(folder, lambda other: cls.read(other) is not None) as temporary:
            about = fill(temporary)
            checksums = {file.name: checksum(file) for file in sorted(temporary.iterdir())}
            write_sealed(temporary / HEADER, {"about": about, "files": checksums})
        return cls(folder, about)


def cached(kind: str, recipe: str, fill: Callable[[Path], About]) -> Entry:
    """The entry that a recipe gives: from the cache, or made by `fill` where it is not there or damaged."""
    name = hashlib.sha256(f"{FORMAT}\n{kind}\n{recipe}".encode()).hexdigest()[:32]
    kept = _kept_folder() / kind
    entry = Entry.read(kept / name)
    if entry is not None:
        return entry
    folder = _writable(kept) / name  # elsewhere than the cache, this process may have made it before
    return Entry.read(folder) or Entry.write(folder, fill)


def cached_array(
    kind: str, recipe: str, shape: tuple[int, ...], dtype: DTypeLike, rows: Iterable[NDArray[Any]]
) -> NDArray[Any]:
    """An array of this shape, mapped from a file: from the cache, or written there row after row."""

    def fill(folder: Path) -> About:
        with open(folder / ARRAY, "wb") as file:
            for row in rows:
                file.write(np.ascontiguousarray(row, dtype).data)
        return {}

    entry = cached(kind, recipe, fill)
    return np.memmap(entry.folder / ARRAY, dtype, "c", shape=shape).view(np.ndarray)


def cache_folder() -> Path:
    """A folder to write to: `$SEQLOOM_CACHE`, or the user's cache folder; where that cannot be, a temporary one."""
    return _writable(_kept_folder())


def _kept_folder() -> Path:
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "seqloom"
    return Path(os.environ.get("SEQLOOM_CACHE", default))


def _writable(folder: Path) -> Path:
    """The folder, made where it is not there; a temporary one where it cannot be written to."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryFile(dir=folder):
            return folder
    except OSError:
        return Path(_substitute().name)


@cache
def _substitute() -> TemporaryDirectory[str]:
    """The folder that serves this process where the cache does not; it is deleted at the end."""
    say(f"cannot write to the cache {_kept_folder()}: what it would keep is made anew in each run")
    return TemporaryDirectory(prefix="seqloom-")
