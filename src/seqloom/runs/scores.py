"""log p of texts and of their tokens: what scoring gives back, the same for all trained models."""

from __future__ import annotations

import gc
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from itertools import chain, islice, starmap
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from seqloom.metrics.likelihood import Likelihood
from seqloom.text.special import EOS, SPECIALS

END = SPECIALS[EOS]
"""What the end of a text is called among its tokens."""


class Score(NamedTuple):
    """log p of one text. (A tuple: there may be a million of them.)"""

    log_prob: float
    tokens: int
    unknown: int
    known_log_prob: float
    """log p of the tokens that are not unknown."""

    @classmethod
    def of(cls, tokens: Sequence[TokenScore]) -> Score:
        """The score of a text from those of its tokens."""
        known = sum(token.log_prob for token in tokens if not token.unknown)
        unknown = [token.log_prob for token in tokens if token.unknown]
        return cls(known + sum(unknown), len(tokens), len(unknown), known)

    def plus(self, other: Score) -> Score:
        """Both texts together."""
        return Score(
            self.log_prob + other.log_prob,
            self.tokens + other.tokens,
            self.unknown + other.unknown,
            self.known_log_prob + other.known_log_prob,
        )

    @staticmethod
    def together(scores: Sequence[Score], words: int | None = None, characters: int | None = None) -> Likelihood:
        """The likelihood of several texts; per word and per character only where these were counted."""
        tokens = sum(score.tokens for score in scores)
        return Likelihood(
            sum(score.log_prob for score in scores),
            tokens,
            tokens if words is None else words,
            tokens if characters is None else characters,
            sum(score.unknown for score in scores),
            sum(score.known_log_prob for score in scores),
        )


class TokenScore(NamedTuple):
    """log p of one token of a text, given those before it."""

    text: str
    """As it stands in the text, also where it is unknown; `<eos>` for the end."""
    log_prob: float
    order: int | None
    """N-gram models: how many tokens the longest n-gram that was found has, this one counted."""
    unknown: bool


class ScoredTokens(NamedTuple):
    """log p of every token of several texts, one text after the other."""

    log_probs: NDArray[np.floating]
    unknown: NDArray[np.bool_]
    lengths: NDArray[np.integer]
    """Of each text."""
    orders: NDArray[np.integer] | None = None

    @classmethod
    def of_rows(cls, rows: Sequence[tuple[NDArray[np.floating], NDArray[np.bool_]]]) -> ScoredTokens:
        """Of log p and whether it is unknown for the tokens of each text."""
        log_probs, unknown = zip(*rows, strict=True) if rows else ([np.empty(0)], [np.empty(0, bool)])
        return cls(np.concatenate(log_probs), np.concatenate(unknown), np.array([len(row) for row, _ in rows], int))

    def without_ends(self) -> ScoredTokens:
        """The same without the last token of each text."""
        inside = np.ones(len(self.log_probs), bool)
        inside[np.cumsum(self.lengths) - 1] = False
        return ScoredTokens(self.log_probs[inside], self.unknown[inside], self.lengths - 1)

    def scores(self) -> list[Score]:
        """The score of each text."""
        log_probs = self.log_probs.astype(np.float64)
        columns = (log_probs, self.unknown, np.where(self.unknown, 0.0, log_probs))
        totals, unknowns, known = (_sums(values, self.lengths).tolist() for values in columns)
        with _no_garbage():
            return list(map(Score, totals, self.lengths.tolist(), unknowns, known))

    def token_scores(self, pieces: Iterable[Sequence[str]]) -> list[list[TokenScore]]:
        """The score of each token; `pieces` are what stands for them in each text."""
        orders = [None] * len(self.log_probs) if self.orders is None else self.orders.tolist()
        texts = chain.from_iterable(pieces)
        flat = starmap(TokenScore, zip(texts, self.log_probs.tolist(), orders, self.unknown.tolist(), strict=True))
        return [list(islice(flat, length)) for length in self.lengths.tolist()]


@contextmanager
def _no_garbage() -> Iterator[None]:
    """Make many small objects, all of which stay: looking for garbage among them would take longer than scoring."""
    collecting = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _sums(values: NDArray[Any], lengths: NDArray[np.integer]) -> NDArray[Any]:
    """The sum over each text."""
    some = lengths > 0
    sums = np.zeros(len(lengths), values.dtype if values.dtype != bool else np.int64)
    if some.any():
        sums[some] = np.add.reduceat(values, (np.cumsum(lengths) - lengths)[some], dtype=sums.dtype)
    return sums
