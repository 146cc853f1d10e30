"""CIDEr-D: how much a caption has of what people say of this image and of few others (Vedantam et al. 2015)."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Sequence
from functools import lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import DataError
from seqloom.metrics.corpus_scores import scoring_tokenizer, scoring_tokens
from seqloom.metrics.ngram_counts import check_counts

ORDERS = 4  # the longest n-gram
SIGMA = 6.0  # how far lengths may differ
REMEMBERED = 1 << 16  # texts whose vectors are kept: references come back

Words = tuple[Hashable, ...]


class Vector(NamedTuple):
    """The n-grams of a text, each with its weight."""

    weights: tuple[dict[Words, float], ...]
    """Of each order."""
    norms: tuple[float, ...]
    length: int
    """Bigrams, as in the authors' program."""


class Cider:
    """CIDEr-D of texts against their references, from 0 to 10:

    10/N Σ_n 1/m Σ_j exp(-(l - l_j)² / 2σ²) · Σ_ω min(g_n(ω), g_nj(ω)) g_nj(ω) / (|g_n| |g_nj|)

    over the m references of a text. g_n(ω) is the number of times that n-gram ω stands in the text, times log of the
    number of images by that of images whose references have ω: what is said of every image weighs nothing.
    """

    def __init__(self, references: Sequence[Sequence[Sequence[Hashable]]]) -> None:
        """Document frequencies are those of `references`, tokens of all references of each image."""
        if not len(references):
            raise DataError("CIDEr weighs words by how many images they are said of: there are no references")
        frequencies: Counter[Words] = Counter()
        for several in references:
            frequencies.update({ngram for text in several for counts in _ngrams(tuple(text)) for ngram in counts})
        images = math.log(len(references))
        self._rarity = {ngram: images - math.log(count) for ngram, count in frequencies.items()}
        self._unseen = images
        self.vector = lru_cache(REMEMBERED)(self._vector)

    def token_scores(
        self, texts: Sequence[Sequence[Hashable]], references: Sequence[Sequence[Sequence[Hashable]]]
    ) -> NDArray[np.float64]:
        """CIDEr-D of each text, given as tokens."""
        check_counts(texts, references)
        return np.array(
            [
                sum(self._likeness(self.vector(tuple(text)), self.vector(tuple(each))) for each in several)
                / len(several)
                for text, several in zip(texts, references, strict=True)
            ]
        )

    def _vector(self, text: Words) -> Vector:
        counts = _ngrams(text)
        weights = tuple(
            {ngram: count * self._rarity.get(ngram, self._unseen) for ngram, count in each.items()} for each in counts
        )
        norms = tuple(math.sqrt(sum(weight * weight for weight in each.values())) for each in weights)
        return Vector(weights, norms, max(0, len(text) - 1))

    @staticmethod
    def _likeness(ours: Vector, theirs: Vector) -> float:
        total = 0.0
        for mine, other, norm, other_norm in zip(ours.weights, theirs.weights, ours.norms, theirs.norms, strict=True):
            shared = sum(min(weight, other[ngram]) * other[ngram] for ngram, weight in mine.items() if ngram in other)
            if norm and other_norm:
                total += shared / (norm * other_norm)
        return 10 / ORDERS * total * math.exp(-((ours.length - theirs.length) ** 2) / (2 * SIGMA**2))


class TextCider(Cider):
    """CIDEr-D of texts, split into lower-case words as sacreBLEU splits them, without punctuation."""

    def __init__(self, references: Sequence[Sequence[str]]) -> None:
        self.tokenize = scoring_tokenizer(lines=(each for row in references[:1000] for each in row))
        self.words = lru_cache(REMEMBERED)(self._words)
        super().__init__([[self.words(each) for each in row] for row in references])

    def scores(self, texts: Sequence[str], references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
        """CIDEr-D of each text."""
        return self.token_scores(
            [self.words(text) for text in texts], [[self.words(each) for each in row] for row in references]
        )

    def _words(self, text: str) -> Words:
        pieces = scoring_tokens([text.lower()], self.tokenize)[0]
        return tuple(piece for piece in pieces if any(letter.isalnum() for letter in piece))


def _ngrams(text: Words) -> tuple[Counter[Words], ...]:
    return tuple(
        Counter(text[first : first + order] for first in range(len(text) - order + 1)) for order in range(1, ORDERS + 1)
    )
