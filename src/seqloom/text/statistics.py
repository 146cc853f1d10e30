"""What a corpus is made of: how many words, which ones, in which company."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import DataError
from seqloom.text.stopwords import is_stop_word
from seqloom.text.words import split_words
from seqloom.text.zipf import ZipfFit, zipf_exponent

Integers = NDArray[np.int64]
Gram = tuple[str, ...]

CHUNK = 1 << 20  # words counted at a time
LONGEST = 3  # words of an n-gram


@dataclass(frozen=True)
class CorpusStatistics:
    """Counts over a corpus, of words and of n-grams within its units."""

    units: int
    characters: int
    """Without what separates units."""
    vocabulary: Sequence[str]
    """The distinct words, in the order they were first seen."""
    tables: Sequence[NgramTable]
    """The n-gram frequencies of order 1, 2, ..."""

    @classmethod
    def of(
        cls,
        texts: Iterable[str],
        split: Callable[[str], list[str]] = split_words,
        lowercase: bool = False,
    ) -> CorpusStatistics:
        """Count in one pass over `texts`."""
        numbers: defaultdict[str, int] = defaultdict()
        numbers.default_factory = numbers.__len__  # a new word gets the next number
        counters = [_NgramCounter(order) for order in range(1, LONGEST + 1)]
        units = characters = 0
        chunk: list[int] = []
        lengths: list[int] = []

        def count_chunk() -> None:
            words = np.array(chunk, dtype=np.int64)
            unit = np.repeat(np.arange(len(lengths)), lengths)
            for counter in counters:
                counter.add(words, unit, len(numbers))
            chunk.clear()
            lengths.clear()

        for text in texts:
            units += 1
            characters += len(text)
            words = split(text.lower() if lowercase else text)
            chunk.extend(map(numbers.__getitem__, words))
            lengths.append(len(words))
            if len(chunk) >= CHUNK:
                count_chunk()
        count_chunk()
        if not numbers:
            raise DataError("the text holds no words; check the file")
        return cls(units, characters, list(numbers), [counter.table() for counter in counters])

    @property
    def words(self) -> int:
        return int(self.tables[0].counts.sum())

    @property
    def distinct_words(self) -> int:
        return len(self.vocabulary)

    def frequencies(self, order: int = 1) -> Integers:
        """How often each distinct n-gram occurs, most frequent first: what a Zipf plot shows."""
        return np.sort(self._table(order).counts)[::-1]

    def zipf(self, order: int = 1) -> ZipfFit:
        """Zipf's law fitted to the words, or to n-grams."""
        return zipf_exponent(self._table(order).counts)

    def top_words(self, number: int = 20, stop_words: bool = True) -> list[tuple[str, int]]:
        """The most frequent words; without function words and punctuation when `stop_words` is false."""
        return [(gram[0], count) for gram, count in self.top_ngrams(1, number, stop_words)]

    def top_ngrams(self, order: int, number: int = 20, stop_words: bool = True) -> list[tuple[Gram, int]]:
        """The most frequent n-grams, ties by the alphabet; without `stop_words`, those that contain none."""
        table = self._table(order)
        grams, counts = table.words(), table.counts
        if not stop_words:
            function = np.fromiter(map(is_stop_word, self.vocabulary), dtype=bool, count=len(self.vocabulary))
            content = ~function[grams].any(axis=1)
            grams, counts = grams[content], counts[content]
        if len(counts) > number:  # only what can be among the first needs sorting
            candidates = counts >= np.partition(counts, -number)[-number]
            grams, counts = grams[candidates], counts[candidates]
        named = [
            (tuple(self.vocabulary[word] for word in gram), count)
            for gram, count in zip(grams.tolist(), counts.tolist(), strict=True)
        ]
        return sorted(named, key=lambda pair: (-pair[1], pair[0]))[:number]

    def _table(self, order: int) -> NgramTable:
        if not 1 <= order <= len(self.tables):
            raise DataError(f"n-grams of order {order} were not counted, only 1 to {len(self.tables)}")
        return self.tables[order - 1]


@dataclass(frozen=True)
class NgramTable:
    """Distinct n-grams, each packed into one integer of 63 bits with equal room for every word, and their counts."""

    order: int
    keys: Integers
    counts: Integers

    def words(self) -> Integers:
        """The word numbers of the n-grams: one row each, `order` columns."""
        width = 63 // self.order
        shifts = width * np.arange(self.order - 1, -1, -1)
        return (self.keys[:, None] >> shifts) & ((1 << width) - 1)


class _NgramCounter:
    """Counts n-grams chunk by chunk: each chunk is sorted, and sorted parts of like size are merged.

    As in merge sort, an n-gram takes part in few merges, however many chunks there are.
    """

    def __init__(self, order: int) -> None:
        self.order = order
        self.width = 63 // order
        self.parts: list[tuple[Integers, Integers]] = []  # (keys, counts), the later the smaller

    def add(self, words: Integers, unit: Integers, distinct: int) -> None:
        """Count the n-grams of some words that do not cross from one unit into the next."""
        if distinct > 1 << self.width:
            raise DataError(
                f"n-grams of {self.order} can be counted for {1 << self.width:,} distinct words at most, and the text "
                "has more; lower its case, or count shorter n-grams"
            )
        starts = max(0, len(words) - self.order + 1)
        keys = np.zeros(starts, dtype=np.int64)
        for offset in range(self.order):
            keys = (keys << self.width) | words[offset : offset + starts]
        whole = unit[:starts] == unit[self.order - 1 :]
        self.parts.append(np.unique(keys[whole], return_counts=True))
        while len(self.parts) > 1 and len(self.parts[-1][0]) * 2 > len(self.parts[-2][0]):
            self._merge_last()

    def table(self) -> NgramTable:
        while len(self.parts) > 1:
            self._merge_last()
        return NgramTable(self.order, *self.parts[0])

    def _merge_last(self) -> None:
        (keys, counts), (more_keys, more_counts) = self.parts.pop(), self.parts.pop()
        all_keys, all_counts = np.concatenate([keys, more_keys]), np.concatenate([counts, more_counts])
        order = np.argsort(all_keys, kind="stable")
        all_keys, all_counts = all_keys[order], all_counts[order]
        firsts = np.flatnonzero(np.diff(all_keys, prepend=-1))
        merged = np.add.reduceat(all_counts, firsts) if len(firsts) else all_counts
        self.parts.append((all_keys[firsts], merged))
