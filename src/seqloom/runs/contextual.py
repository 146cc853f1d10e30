"""Contextual vectors: layers mixed into one, and those of whole data sets, computed once, kept on disk, mapped into
memory."""

from __future__ import annotations

import hashlib
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqloom.data.cache import About, cached
from seqloom.errors import UserError
from seqloom.files import checksum
from seqloom.runs.capabilities import Embeds
from seqloom.runs.folder import RunFolder

FILE = "vectors.bin"
DTYPE = np.float16  # half the space, and closer to the vectors than dropout leaves them


Mix = Literal["mean", "top", "layers"]
Vectors = NDArray[np.float32]
Words = Sequence[str] | Sequence[Sequence[str]]
"""Texts, or sentences that are split into words already."""


class MixesLayers(Embeds):
    """A run whose layers become one vector as is asked for."""

    def embed(self, sentences: str | Words, mix: Mix | Sequence[float] = "mean") -> list[Vectors]:
        """A vector for each word of each sentence, that depends on the words around it: [words, width] each.

        sentences: texts, which the run splits, or lists of words. What comes out for a sentence does not depend on the
            others.
        mix: how the layers, the words by themselves being the first, become one vector: their `mean`, the `top` one, or
            a weight for each; `layers` gives all of them, [depth, words, width].
        """
        if not isinstance(mix, str) and len(mix) != self.depth:
            raise UserError(f"there are {self.depth} layers and {len(mix)} weights to mix them with")
        split = self.split(sentences)
        vectors: list[Vectors] = [np.empty(0, np.float32)] * len(split)
        for number, layers in self.layers(split):
            match mix:
                case "layers":
                    vectors[number] = layers
                case "mean":
                    vectors[number] = layers.mean(0)
                case "top":
                    vectors[number] = layers[-1]
                case _:
                    vectors[number] = np.einsum("j,jtw->tw", np.asarray(mix, np.float32), layers)
        return vectors

    @abstractmethod
    def split(self, sentences: str | Words) -> list[list[str]]:
        """The words of each sentence, as the model reads them."""


def contextual(run: Embeds, sentences: Sequence[Sequence[str]]) -> NDArray[Any]:
    """[words, layers, width]: every layer's vectors of all words, one sentence after the other."""
    vectors = np.empty(_shape(run, sentences), DTYPE)
    _fill(vectors, run, sentences)
    return vectors


def cached_contextual(run: Embeds, sentences: Sequence[Sequence[str]]) -> NDArray[Any]:
    """The same from the cache, where they were computed before with the same run."""
    shape = _shape(run, sentences)

    def fill(folder: Path) -> About:
        vectors = np.memmap(folder / FILE, DTYPE, "w+", shape=shape)
        _fill(vectors, run, sentences)
        vectors.flush()
        return {}

    entry = cached("contextual", _recipe(run, sentences), fill)
    return np.memmap(entry.folder / FILE, DTYPE, "r", shape=shape).view(np.ndarray)


def _fill(vectors: NDArray[Any], run: Embeds, sentences: Sequence[Sequence[str]]) -> None:
    ends = np.cumsum([len(words) for words in sentences])
    for number, layers in run.layers(sentences):
        vectors[ends[number] - layers.shape[1] : ends[number]] = layers.transpose(1, 0, 2)


def _shape(run: Embeds, sentences: Sequence[Sequence[str]]) -> tuple[int, int, int]:
    return sum(map(len, sentences)), run.depth, run.width


def _recipe(run: Embeds, sentences: Sequence[Sequence[str]]) -> str:
    recipe = hashlib.sha256(checksum(RunFolder(run.path).weights_file).encode())
    for words in sentences:
        recipe.update("\0".join([*words, "\n"]).encode("utf-8", "surrogatepass"))
    return recipe.hexdigest()
