"""Where words lie on a map, and which of their names can be read there."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from seqloom.models.word_vectors import WordVectors
from seqloom.text.stopwords import is_content_word

Floats = NDArray[np.float64]

LETTER, WIDE = 0.62, 1.0  # width of a letter, and of one of Chinese, in sizes of the font
SIZE = 8.5  # of the font, in points
INCHES = (10.4, 8.0)
FEWEST = 5  # words of a map


@dataclass(frozen=True)
class WordPlaces:
    """Words on a plane, those with similar vectors near each other."""

    words: Sequence[str]
    places: Floats
    """[words, 2], each coordinate from 0 to the number of words less one."""
    shown: NDArray[np.bool_]
    """Whose names can be written: where two would lie on each other, that of the later word is left out."""

    @classmethod
    def of(cls, vectors: WordVectors, words: Sequence[str]) -> WordPlaces:
        """The places of some words."""
        places = spread(project(vectors.unit[[vectors.place(word) for word in words]].astype(np.float64)))
        points = places / (len(words) - 1) * np.array(INCHES) * 72 * 0.93  # roughly where they come to lie on paper
        return cls(words, places, readable(points, words))


def frequent(vectors: WordVectors, number: int) -> list[str]:
    """The most frequent words that carry meaning by themselves."""
    return list(islice(filter(is_content_word, vectors.words), number))


def readable(points: Floats, words: Sequence[str]) -> NDArray[np.bool_]:
    """Which names can be written without touching one before them."""
    half = np.array([[_width(word) * SIZE / 2 + 2, SIZE * 0.65] for word in words])
    shown = np.zeros(len(words), bool)
    for index in range(len(words)):
        taken = np.flatnonzero(shown)
        apart = np.abs(points[taken] - points[index]) > half[taken] + half[index]
        shown[index] = apart.any(1).all()
    return shown


def _width(word: str) -> float:
    return sum(WIDE if unicodedata.east_asian_width(letter) in "WF" else LETTER for letter in word)


def project(vectors: Floats) -> Floats:
    """The two main components of vectors (PCA): the plane in which they differ most. [words, size] -> [words, 2]

    A component may point either way: it goes where its largest number is positive, so that a map is always the same.
    """
    left, strengths, directions = np.linalg.svd(vectors - vectors.mean(0), full_matrices=False)
    signs = np.sign(directions[np.arange(len(directions)), np.abs(directions).argmax(1)])
    places = (left * strengths * signs)[:, :2]
    return np.pad(places, ((0, 0), (0, 2 - places.shape[1])))


def spread(places: Floats) -> Floats:
    """Each coordinate by its rank: words crowd in the middle of the plane, and would hide each other there."""
    return places.argsort(0, kind="stable").argsort(0).astype(np.float64)
