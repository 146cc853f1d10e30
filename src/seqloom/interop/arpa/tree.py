"""From n-grams in the order of a file to those of a model, and back to words."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seqloom.interop.arpa.lines import Ngrams
from seqloom.interop.arpa.reader import ArpaReader, Block, Parse
from seqloom.models.ngram.model import NgramModel
from seqloom.models.ngram.trie import Nodes, Trie

Floats = NDArray[np.float32]


def build_model(reader: ArpaReader, parse: Parse, log_probs: Floats, backoffs: Floats) -> NgramModel:
    """The model of a file whose unigrams are read, their numbers given by id: read the rest, and sort it."""
    order = len(reader.counts)
    words, children, all_log_probs, all_backoffs = _levels(reader, _Table(reader, parse, len(log_probs)))
    trie = Trie.of_levels([np.arange(len(log_probs)), *words], children)
    log_probs = np.concatenate([log_probs, *all_log_probs])
    backoffs = np.concatenate([backoffs, *all_backoffs])[: trie.levels[-2]].copy()
    for length in range(2, order):
        level = trie.level(length)
        missing = level.start + np.flatnonzero(np.isnan(log_probs[level]))
        log_probs[missing] = _backed_off(trie, log_probs, backoffs, trie.ngrams(length, missing))
    return NgramModel(trie, log_probs, backoffs)


class _Table:
    """N-grams of two words and more as rows of whole numbers, several words packed into each: few keys to sort by."""

    def __init__(self, reader: ArpaReader, parse: Parse, vocabulary_size: int) -> None:
        self.order = len(reader.counts)
        self.vocabulary_size = vocabulary_size
        self.bits = vocabulary_size.bit_length()  # a word is its id + 1, and 0 is no word
        self.packed = 63 // self.bits
        self.size = 0
        self.keys = [np.zeros(0, np.int64) for _ in range(0, self.order, self.packed)]
        self.log_probs, self.backoffs = np.zeros(0, np.float32), np.zeros(0, np.float32)
        self.numbers: list[Sequence[int]] = []  # of lines, block by block
        for length in range(2, self.order + 1):
            for block in reader.section(length, parse):
                self._add(block)
        self._resize(self.size)
        reader.end()

    def _add(self, block: Block) -> None:
        start, self.size = self.size, self.size + len(block.ngrams)
        if self.size > len(self.log_probs):
            self._resize(self.size + self.size // 4)
        for column in range(self.order):
            key = self.keys[column // self.packed][start : self.size]
            key <<= self.bits
            if column < block.ngrams.shape[1]:
                key += block.ngrams[:, column] + 1
        self.log_probs[start : self.size] = block.log_probs
        self.backoffs[start : self.size] = block.backoffs
        self.numbers.append(block.numbers)

    def _resize(self, rows: int) -> None:
        for key in self.keys:
            key.resize(rows, refcheck=False)  # in place: there is no second copy
        self.log_probs.resize(rows, refcheck=False)
        self.backoffs.resize(rows, refcheck=False)

    def sort(self) -> NDArray[np.int64]:
        """Sort the n-grams, nothing coming before any word; return where each was. Numbers stay where they are."""
        sorting = np.lexsort(self.keys[::-1])
        for key in self.keys:
            key[:] = key[sorting]
        return sorting

    def column(self, column: int) -> NDArray[np.int32]:
        """The word of each n-gram at one place, -1 where there is none."""
        if column >= self.order:
            return np.full(self.size, -1, np.int32)
        index = column // self.packed
        last = min((index + 1) * self.packed, self.order) - 1
        words = self.keys[index] >> (last - column) * self.bits
        words &= (1 << self.bits) - 1
        words -= 1
        return words.astype(np.int32)

    def line(self, row: int) -> int:
        """The line where an n-gram stood."""
        for numbers in self.numbers:
            if row < len(numbers):
                return numbers[row]
            row -= len(numbers)
        raise IndexError(row)


def _levels(reader: ArpaReader, table: _Table) -> tuple[list[Nodes], list[Nodes], list[Floats], list[Floats]]:
    """Of each order from 2: last words, how many n-grams continue each of the order below, and their numbers.

    In the sorted table each n-gram stands just before those that begin with it. Where one is missing, and only longer
    ones begin so, its log-probability is NaN.
    """
    sorting = table.sort()
    words: list[Nodes] = []
    children: list[Nodes] = []
    log_probs: list[Floats] = []
    backoffs: list[Floats] = []
    column, following = table.column(0), table.column(1)
    parents: Nodes = column  # the node of each row's beginning, numbered within its level
    above = table.vocabulary_size
    changes = _changes(column)
    for length in range(2, table.order + 1):
        column, following = following, table.column(length)
        changes |= _changes(column)
        starts = np.flatnonzero(changes & (column >= 0))
        listed = following[starts] < 0
        rows = sorting[starts]
        words.append(column[starts])
        children.append(np.bincount(parents[starts], minlength=above))
        log_probs.append(np.where(listed, table.log_probs[rows], np.float32(np.nan)))
        backoffs.append(np.where(listed, table.backoffs[rows], np.float32(0)))
        above = len(starts)
        begins = np.zeros(table.size, np.int32)
        begins[starts] = 1
        parents = np.cumsum(begins, out=begins)
        parents -= 1
    if not changes.all():
        raise reader.error("this n-gram stands in an earlier line too", table.line(int(sorting[np.argmin(changes)])))
    return words, children, log_probs, backoffs


def _changes(column: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Where a column differs from the row before."""
    changes = np.ones(len(column), bool)
    changes[1:] = column[1:] != column[:-1]
    return changes


def _backed_off(trie: Trie, log_probs: Floats, backoffs: Floats, ngrams: Ngrams) -> Floats:
    """log p of the last word of each n-gram after the others, as if the n-gram were not in the model."""
    last = ngrams[:, -1]
    scores = log_probs[last]
    for begin in range(ngrams.shape[1] - 2, -1, -1):  # from the shortest context to the longest
        contexts: Nodes = ngrams[:, begin]
        for column in range(begin + 1, ngrams.shape[1] - 1):
            contexts = trie.find(contexts, ngrams[:, column])
        scores = scores + np.where(contexts >= 0, backoffs[contexts], np.float32(0))
        if begin:
            nodes = trie.find(contexts, last)
            scores = np.where(nodes >= 0, log_probs[nodes], scores)
    return np.minimum(scores, np.float32(0))  # as the reader does with what the file says
