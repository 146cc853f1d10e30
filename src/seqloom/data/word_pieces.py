"""Sentences of words for models that read pieces of them: each word's vector is that of its first piece."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from seqloom.data.batch import Batch, Numbers
from seqloom.data.ragged import Ragged, padded
from seqloom.data.stream import Sequences
from seqloom.text.marks import MarkedTokenizer
from seqloom.text.special import BOS, EOS, UNK
from seqloom.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class PieceBatch(Batch):
    """Rows of pieces, padded, and where in them words begin."""

    pieces: Tensor
    """[rows, time]: from `<bos>` to `<eos>`."""
    piece_lengths: Tensor
    """[rows]"""
    firsts: Tensor
    """[rows, words]: the place of each word's first piece; 0 where there is no word."""

    @property
    def tokens(self) -> int:
        """How many rows there are: nothing is predicted."""
        return len(self.pieces)


@dataclass(frozen=True)
class WordPieces(Sequences):
    """Sentences by number."""

    pieces: Ragged
    """From `<bos>` to `<eos>`."""
    firsts: Ragged
    """Of each word the place of its first piece in the sentence."""

    @classmethod
    def of(cls, sentences: Sequence[Sequence[str]], tokenizer: MarkedTokenizer) -> WordPieces:
        """Words as a tokeniser cuts them where they stand in a text, a space before all but the first. One that it
        makes nothing of is `<unk>`."""
        inner = tokenizer.inner
        first = _spelled(inner, {words[0] for words in sentences if words}, "")
        later = _spelled(inner.continuing(), {word for words in sentences for word in words[1:]}, " ")
        rows, firsts = [], []
        for words in sentences:
            row, places = [BOS], []
            for number, word in enumerate(words):
                places.append(len(row))
                row += (later if number else first)[word]
            rows.append([*row, EOS])
            firsts.append(places)
        return cls(Ragged.of_rows(rows), Ragged.of_rows(firsts))

    @property
    def lengths(self) -> Numbers:
        """How many pieces each sentence has."""
        return self.pieces.lengths

    def targets(self, numbers: Numbers) -> int:
        return len(numbers)

    def batch(self, numbers: Numbers) -> PieceBatch:
        pieces, lengths = padded(self.pieces, numbers)
        firsts, _ = padded(self.firsts, numbers, filler=0)
        return PieceBatch(pieces, lengths, firsts, numbers=numbers)


def at_words(vectors: Tensor, firsts: Tensor) -> Tensor:
    """The vectors of words, [..., rows, words, size], of those of all pieces, [..., rows, time, size]."""
    rows = torch.arange(len(firsts), device=firsts.device).unsqueeze(1)
    return vectors[..., rows, firsts, :]


def _spelled(tokenizer: Tokenizer, words: Iterable[str], before: str) -> dict[str, list[int]]:
    """The pieces of each word."""
    listed = sorted(words)
    encoded = tokenizer.encode_batch([before + word for word in listed])
    return {word: ids.tolist() or [UNK] for word, ids in zip(listed, encoded, strict=True)}
