"""Words with their vectors: what is near, what is alike, a is to b as c is to what."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import UserError, did_you_mean

Floats = NDArray[np.float32]
Near = list[tuple[str, float]]
"""Words with their cosines, nearest first."""


class WordVectors:
    """Vectors by word, most frequent words first. Lengths are divided out once, when first compared."""

    def __init__(self, words: Sequence[str], vectors: Floats) -> None:
        """`vectors`: one row for each word."""
        if len(words) != len(vectors):
            raise ValueError(f"{len(words):,} words, and vectors for {len(vectors):,}")
        self.words = list(words)
        self.vectors = vectors

    @property
    def size(self) -> int:
        """Length of a vector."""
        return self.vectors.shape[1]

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._places

    def __getitem__(self, word: str) -> Floats:
        return self.vectors[self.place(word)]

    def place(self, word: str) -> int:
        """The row of a word."""
        row = self._places.get(word)
        if row is None:
            lowered = word.lower()
            hint = f" (did you mean {lowered!r}?)" if lowered in self else did_you_mean(word, self._spelled_like(word))
            raise UserError(f"there is no vector for {word!r}{hint}")
        return row

    def similarity(self, a: str, b: str) -> float:
        """The cosine of the angle between the vectors of two words."""
        return float(self.unit[self.place(a)] @ self.unit[self.place(b)])

    def neighbours(self, word: str | Floats, n: int = 10) -> Near:
        """The n words whose vectors point most nearly the same way as a word's, or as a vector."""
        if isinstance(word, str):
            place = self.place(word)
            return self.nearest(self.unit[place : place + 1], np.array([[place]]), n)[0]
        return self.nearest(np.asarray(word, np.float32)[None], np.empty((1, 0), np.int64), n)[0]

    def analogy(self, a: str, b: str, c: str, n: int = 1) -> Near:
        """a is to b as c is to ...: the words nearest to b - a + c, but those three (3CosAdd, Mikolov et al. 2013)."""
        return self.most_similar([b, c], a, n)

    def most_similar(self, positive: str | Sequence[str] = (), negative: str | Sequence[str] = (), n: int = 10) -> Near:
        """The n words nearest to Σ positive - Σ negative, of unit vectors; none of those given is among them."""
        added, taken = ([words] if isinstance(words, str) else list(words) for words in (positive, negative))
        if not added and not taken:
            raise UserError("most_similar needs a word, as positive or negative")
        places = np.array([self.place(word) for word in (*added, *taken)])
        signs = np.array([1.0] * len(added) + [-1.0] * len(taken), np.float32)
        return self.nearest((signs @ self.unit[places])[None], np.unique(places)[None], n)[0]

    def doesnt_match(self, words: Sequence[str]) -> str:
        """The word whose vector is farthest from the mean of all of them, each of length 1; of equals, the first."""
        if isinstance(words, str) or not words:
            raise UserError('doesnt_match needs a list of words: ["breakfast", "lunch", "river"]')
        vectors = self.unit[[self.place(word) for word in words]]
        return words[int((vectors @ vectors.mean(axis=0)).argmin())]

    def analogies(self, places: NDArray[np.int64]) -> Floats:
        """b - a + c of unit vectors, for rows of places of a, b and c. [questions, 3] -> [questions, size]"""
        a, b, c = (self.unit[places[:, column]] for column in range(3))
        return b - a + c

    def nearest(self, queries: Floats, left_out: NDArray[np.int64], n: int) -> list[Near]:
        """The n words nearest to each of several vectors, those at the places left out not among them."""
        cosines = queries @ self.unit.T
        cosines /= np.maximum(np.linalg.norm(queries, axis=1, keepdims=True), 1e-30)
        np.put_along_axis(cosines, left_out, -np.inf, axis=1)
        n = min(n, len(self) - left_out.shape[1])
        if n < 1:
            return [[] for _ in queries]
        top = np.argpartition(-cosines, n - 1, axis=1)[:, :n]
        nearest = []
        for row, places in zip(cosines, top, strict=True):
            ordered = places[np.lexsort((places, -row[places]))]
            nearest.append([(self.words[place], float(row[place])) for place in ordered])
        return nearest

    @cached_property
    def unit(self) -> Floats:
        """The vectors with length 1; one of zeros stays as it is. [V, size]"""
        lengths = np.linalg.norm(self.vectors, axis=1, keepdims=True)
        return self.vectors / np.maximum(lengths, 1e-30)

    @cached_property
    def _places(self) -> dict[str, int]:
        return {word: place for place, word in reversed(list(enumerate(self.words)))}

    def _spelled_like(self, word: str) -> list[str]:
        """Few enough words to look for a similar spelling among: those with the same beginning."""
        return [known for known in self.words if known[:1] == word[:1]][:20_000] if word else []
