"""How well a model predicts text: entropy, cross-entropy, perplexity, bits per character."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from seqloom.data.store import TokenStore
from seqloom.models.autoregressive import Autoregressive
from seqloom.progress import watched
from seqloom.text.special import EOS, UNK

RATES = ("cross_entropy", "perplexity", "known_perplexity", "word_perplexity", "bits_per_character")


def entropy(distribution: ArrayLike) -> float:
    """H(p) = -Σ p log p in nats; zero probabilities add nothing."""
    probabilities = np.asarray(distribution, dtype=float)
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log(positive)).sum())


@dataclass(frozen=True)
class Likelihood:
    """log p(text) with the counts that turn it into rates comparable across tokenisers."""

    log_prob: float
    """Natural log."""
    tokens: int
    words: int
    characters: int
    unknown: int
    """Tokens outside the vocabulary; each was scored as `<unk>`, which flatters the perplexity."""
    known_log_prob: float
    """log p of the other tokens alone."""

    @property
    def cross_entropy(self) -> float:
        """-log p / tokens, in nats."""
        return -self.log_prob / self.tokens

    @property
    def perplexity(self) -> float:
        """exp(-log p / tokens): comparable only under the same tokeniser."""
        return _exp(self.cross_entropy)

    @property
    def known_perplexity(self) -> float:
        """The perplexity per token with the unknown ones left out of the sum and of the count."""
        known = self.tokens - self.unknown
        return _exp(-self.known_log_prob / known) if known else math.nan

    @property
    def word_perplexity(self) -> float:
        """exp(-log p / words): comparable across tokenisers, as long as nothing is unknown."""
        return _exp(-self.log_prob / self.words)

    @property
    def bits_per_character(self) -> float:
        """-log₂ p / characters: comparable across tokenisers, as long as nothing is unknown."""
        return -self.log_prob / math.log(2) / self.characters

    @classmethod
    def of_store(cls, store: TokenStore, log_prob: float, known_log_prob: float) -> Likelihood:
        """Of a whole store, with its counts."""
        totals = store.totals
        return cls(log_prob, totals.tokens, totals.words, totals.characters, totals.unknown, known_log_prob)

    def as_dict(self) -> dict[str, float]:
        """Counts and rates, for a table or a JSON line."""
        counts = {name: value for name, value in asdict(self).items() if name != "known_log_prob"}
        return counts | {rate: getattr(self, rate) for rate in RATES}


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def unit_likelihood(model: Autoregressive, store: TokenStore, piece: int = 1 << 22) -> Likelihood:
    """The likelihood of a whole store, every unit by itself from `<bos>` to `<eos>`; about `piece` tokens at a time."""
    everything = known = 0.0
    for tokens, lengths in watched(unit_pieces(store, piece), "tokens", len(store), lambda each: len(each[0])):
        scores = model.unit_log_probs(tokens, lengths)
        everything += float(scores.sum(dtype=np.float64))
        known += float(scores.sum(dtype=np.float64, where=tokens != UNK))
    return Likelihood.of_store(store, everything, known)


def unit_pieces(store: TokenStore, piece: int) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
    """The tokens of whole units, about `piece` of them at a time, and the units' lengths."""
    first = 0
    while first < len(store):
        tokens = np.asarray(store.tokens[first : first + piece])
        ends = np.flatnonzero(tokens == EOS) + 1
        if len(ends):
            yield tokens[: ends[-1]], np.diff(ends, prepend=0)
            first += int(ends[-1])
        else:  # a unit is longer than a piece
            piece *= 2
