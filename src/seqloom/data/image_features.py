"""What another encoder says of images: a safetensors file with an entry for each, named as the image's file is."""

from __future__ import annotations

import json
from collections.abc import Sequence
from math import isqrt
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError, safe_open
from torch import Tensor

from seqloom.data.cache import cached_array
from seqloom.data.corpus import digest
from seqloom.errors import DataError, quoted

Features = NDArray[np.floating[Any]]
"""[count, rows, columns, size]"""
FLOATS = ("F16", "BF16", "F32", "F64")


class FeatureFile:
    """A safetensors file whose entries have one shape: [size], [places, size] or [rows, columns, size].

    Read as a picture of `size` channels: places whose number is a square are those of a square grid, row after row;
    others stand in one row.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        try:
            self._file = safe_open(self.path, framework="pt")
        except FileNotFoundError:
            raise DataError(f"{path}: there is no such file of features") from None
        except (OSError, SafetensorError) as error:
            raise DataError(f"{path} is no safetensors file that can be read ({error}); write it anew") from None
        self.names: tuple[str, ...] = tuple(sorted(self._file.keys()))
        if not self.names:
            raise DataError(f"{path} has no entries: there must be one for each image, named as its file is")
        self._known = frozenset(self.names)
        self._first = list(self._file.get_slice(self.names[0]).get_shape())
        self.shape = as_grid(self._first, f"{path}, entry {quoted(self.names[0])}")
        """Rows, columns and size."""
        self._dtype = torch.float16 if self._type(self.names[0]) == "F16" else torch.float32

    def stacked(self, names: Sequence[str]) -> Features:
        """The features of some images, mapped from the cache."""
        recipe = json.dumps([digest(self.path), list(names)])
        dtype = np.float16 if self._dtype == torch.float16 else np.float32
        return cached_array("features", recipe, (len(names), *self.shape), dtype, map(self.row, names))

    def row(self, name: str) -> Features:
        """The features of an image, [rows, columns, size]."""
        entry = name if name in self._known else Path(name).name
        if entry not in self._known:
            raise DataError(
                f"{self.path} has no entry {quoted(entry)}: make features of that image with the same encoder, and "
                f"name them as its file is; there are {len(self.names):,} entries, {quoted(self.names[0])} the first"
            )
        where = f"{self.path}, entry {quoted(entry)}"
        shape = list(self._file.get_slice(entry).get_shape())
        if shape != self._first:
            raise DataError(
                f"{where}: the features are {shape}, and those of {quoted(self.names[0])} {self._first}; write all "
                "images in one shape"
            )
        if self._type(entry) not in FLOATS:
            raise DataError(f"{where}: the features are of type {self._type(entry)}; write them as float16 or float32")
        values: Tensor = self._file.get_tensor(entry).to(self._dtype)
        if not torch.isfinite(values).all():
            raise DataError(f"{where}: some of the features are infinite or no numbers; make them anew")
        return values.numpy().reshape(self.shape)

    def _type(self, name: str) -> str:
        return str(self._file.get_slice(name).get_dtype())


def as_grid(shape: Sequence[int], where: str) -> tuple[int, int, int]:
    """Rows, columns and size of features of a shape."""
    if not 1 <= len(shape) <= 3 or 0 in shape:
        raise DataError(f"{where}: the features are {list(shape)}, not [size], [places, size] or a grid of them")
    *grid, size = shape
    if len(grid) == 2:
        return grid[0], grid[1], size
    places = grid[0] if grid else 1
    side = isqrt(places)
    return (side, side, size) if side * side == places else (1, places, size)
