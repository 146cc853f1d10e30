"""Contextual vectors of whole data sets: computed once, kept on disk, mapped into memory."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.store import cache_folder
from seqloom.files import atomic_folder, checksum
from seqloom.runs.folder import RunFolder
from seqloom.runs.trained import Embeds

DTYPE = np.float16  # half the space, and closer to the vectors than dropout leaves them


def contextual(run: Embeds, sentences: Sequence[Sequence[str]]) -> NDArray[Any]:
    """[words, layers, width]: every layer's vectors of all words, one sentence after the other."""
    vectors = np.empty(_shape(run, sentences), DTYPE)
    _fill(vectors, run, sentences)
    return vectors


def cached_contextual(run: Embeds, sentences: Sequence[Sequence[str]]) -> NDArray[Any]:
    """The same from the cache, where they were computed before with the same run."""
    folder = _folder(run, sentences)
    shape = _shape(run, sentences)
    if not folder.is_dir():
        with atomic_folder(folder) as temporary:
            vectors = np.memmap(temporary / "vectors.bin", DTYPE, "w+", shape=shape)
            _fill(vectors, run, sentences)
            vectors.flush()
    return np.memmap(folder / "vectors.bin", DTYPE, "r", shape=shape).view(np.ndarray)


def _fill(vectors: NDArray[Any], run: Embeds, sentences: Sequence[Sequence[str]]) -> None:
    ends = np.cumsum([len(words) for words in sentences])
    for number, layers in run.layers(sentences):
        vectors[ends[number] - layers.shape[1] : ends[number]] = layers.transpose(1, 0, 2)


def _shape(run: Embeds, sentences: Sequence[Sequence[str]]) -> tuple[int, int, int]:
    return sum(map(len, sentences)), run.depth, run.width


def _folder(run: Embeds, sentences: Sequence[Sequence[str]]) -> Path:
    recipe = hashlib.sha256(checksum(RunFolder(run.path).weights_file).encode())
    for words in sentences:
        recipe.update("\0".join([*words, "\n"]).encode("utf-8", "surrogatepass"))
    return cache_folder() / "contextual" / recipe.hexdigest()[:32]
