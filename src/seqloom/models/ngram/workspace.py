"""Where large arrays live: in memory as long as it lasts, then in files that are mapped into memory."""

from __future__ import annotations

import os
import tempfile
import weakref
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from seqloom.errors import SeqloomError
from seqloom.files import TEMPORARY


class Workspace:
    """Hands out arrays: up to `memory` bytes at a time in memory, what goes beyond in nameless files in `folder`."""

    def __init__(self, memory: float, folder: Path | None = None) -> None:
        self.folder = folder
        self._left = memory

    def array(self, size: int, dtype: DTypeLike) -> NDArray[Any]:
        """An array of `size` items, not filled. Its room is free again when nobody holds it any more."""
        needed = size * np.dtype(dtype).itemsize
        if needed > self._left:
            return self._mapped(size, dtype, needed)
        array = np.empty(size, dtype)
        self._left -= needed
        weakref.finalize(array, self._give_back, needed)
        return array

    def _give_back(self, amount: int) -> None:
        self._left += amount

    def _mapped(self, size: int, dtype: DTypeLike, needed: int) -> NDArray[Any]:
        try:
            if self.folder:
                self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(prefix=TEMPORARY, dir=self.folder) as file:
                if hasattr(os, "posix_fallocate"):  # a full disk is noticed here, not in the middle of the work
                    os.posix_fallocate(file.fileno(), 0, needed)
                else:
                    file.truncate(needed)
                return np.memmap(file, dtype, "r+", shape=(size,)).view(np.ndarray)
        except OSError as error:
            where = self.folder or tempfile.gettempdir()
            raise SeqloomError(
                f"no room for {needed / 1e9:.1f} GB of n-grams in {where} ({error.strerror or error}): "
                "make room there, allow more memory (engine.memory), or prune (model.prune)"
            ) from error
