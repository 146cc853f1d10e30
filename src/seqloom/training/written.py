"""Texts that a model wrote: strings for those who read them, and numbers of words for those who only count."""

from __future__ import annotations

from array import array
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import NDArray

from seqloom.metrics.corpus_scores import ScoringNumbers
from seqloom.metrics.ngram_counts import NumberedTexts
from seqloom.text.special import EOS, UNK
from seqloom.text.tokenizer import Tokenizer

Ids = NDArray[np.int64]
BASE = 0x9E3779B97F4A7C15  # odd, so that no bit is lost when its powers multiply
SLOTS = 20  # bits


class WrittenTexts(Sequence[str]):
    """Texts as tokens, spelled when somebody asks for it."""

    def __init__(self, tokens: Ids, tokenizer: Tokenizer, spell: Callable[[], list[str]]) -> None:
        """tokens: [texts, time], `<pad>` behind the end."""
        self.tokens, self.tokenizer = tokens, tokenizer
        self._spell = spell

    @cached_property
    def spelled(self) -> list[str]:
        return self._spell()

    def __len__(self) -> int:
        return len(self.tokens)

    @overload
    def __getitem__(self, place: int) -> str: ...
    @overload
    def __getitem__(self, place: slice) -> list[str]: ...
    def __getitem__(self, place: int | slice) -> str | list[str]:
        return self.spelled[place]


class WordNumbers:
    """From texts to the numbers of their words, as `ScoringNumbers` has them.

    Where a text is its pieces put together as they are, it is cut before every piece that begins with a space. What
    stands between two cuts has the same words wherever it stands: it is spelled and split once, and found again by the
    sum Σ_i k(y_i) b^i of its tokens y_1, y_2, ... with a random number k of 64 bits for each. (Two that differ have the
    same sum with a probability of about 2^-64.)
    """

    def __init__(self, tokenize: str) -> None:
        self.numbers = ScoringNumbers(tokenize)
        self._tokenizer: Tokenizer | None = None

    def of(self, texts: Sequence[str]) -> NumberedTexts:
        """The numbers of the words of texts."""
        if isinstance(texts, WrittenTexts) and self._knows(texts.tokenizer) and texts.tokens.max() < len(self._keys):
            return self._of_tokens(texts.tokens)
        return NumberedTexts.of([self.numbers.of(text) for text in texts])

    def _knows(self, tokenizer: Tokenizer) -> bool:
        if tokenizer is not self._tokenizer:
            self._tokenizer = tokenizer
            self._openings = tokenizer.openings if self.numbers.tokenize == "13a" else None  # others look further
            self._keys = np.random.default_rng(0).integers(0, 1 << 63, tokenizer.size, np.uint64) * 2 + 1
            self._runs: dict[int, int] = {}  # a number for each sum
            self._words, self._begins, self._counts = array("q"), array("q"), array("q")
            # Sums by their first bits, each with its number: nearly all are found here, and at once.
            self._latest, self._numbers = np.zeros(1 << SLOTS, np.uint64), np.zeros(1 << SLOTS, np.int64)
        return self._openings is not None

    def _of_tokens(self, tokens: Ids) -> NumberedTexts:
        assert self._openings is not None
        seen = (tokens > EOS) | (tokens == UNK)
        ids, text = tokens[seen], seen.nonzero()[0]
        if not len(ids):
            return NumberedTexts.of([[]] * len(tokens))
        cuts = self._openings[ids]
        cuts[0] = True
        cuts[1:] |= text[1:] != text[:-1]
        starts = cuts.nonzero()[0]
        lengths = np.diff(starts, append=len(ids))
        places = np.arange(len(ids)) - np.repeat(starts, lengths)
        powers = np.cumprod(np.full(int(lengths.max()), BASE, np.uint64))
        sums = np.add.reduceat(self._keys[ids] * powers[places], starts)
        slots = (sums >> np.uint64(64 - SLOTS)).astype(np.int64)
        runs = self._numbers[slots]
        for place in (self._latest[slots] != sums).nonzero()[0].tolist():
            start = starts[place]
            runs[place] = self._run(int(sums[place]), ids[start : start + lengths[place]])
        counts = np.frombuffer(self._counts, np.int64)[runs]
        begins = np.frombuffer(self._begins, np.int64)[runs]
        behind = counts.cumsum()
        words = np.repeat(begins - behind + counts, counts) + np.arange(behind[-1])
        of_texts = np.bincount(text[starts], counts, len(tokens)).astype(np.int64)
        return NumberedTexts(np.frombuffer(self._words, np.int64)[words], of_texts)

    def _run(self, key: int, ids: Ids) -> int:
        """The number of some tokens in a row; where they come for the first time, their words are taken down."""
        assert self._tokenizer is not None
        number = self._runs.setdefault(key, len(self._runs))
        if number == len(self._begins):
            words = self.numbers.of(self._tokenizer.decode(ids.tolist()))
            self._begins.append(len(self._words))
            self._counts.append(len(words))
            self._words.extend(words)
        slot = key >> (64 - SLOTS)
        self._latest[slot], self._numbers[slot] = key, number
        return number
