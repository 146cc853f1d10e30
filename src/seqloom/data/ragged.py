"""Sequences of different lengths, kept one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.text.open_words import encode_sources
from seqloom.text.special import PAD
from seqloom.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Ragged:
    """Sequences one after the other: number i is tokens[offsets[i] : offsets[i + 1]]."""

    tokens: NDArray[np.integer]
    offsets: NDArray[np.int64]

    @classmethod
    def of_lengths(cls, tokens: NDArray[np.integer], lengths: NDArray[np.int64]) -> Ragged:
        """Tokens cut into sequences of these lengths."""
        return cls(tokens, np.concatenate([[0], np.cumsum(lengths)]))

    @classmethod
    def of_rows(cls, rows: Sequence[Sequence[int] | NDArray[np.int64]]) -> Ragged:
        """Lists of tokens."""
        tokens = np.concatenate([np.array(row, np.int64) for row in rows])
        return cls.of_lengths(tokens, np.array([len(row) for row in rows], np.int64))

    @classmethod
    def encoded(cls, texts: list[str], tokenizer: Tokenizer) -> Ragged:
        """Texts under a tokeniser, each ending in `<eos>`."""
        return cls.of_lengths(*tokenizer.encode_flat(texts))

    @classmethod
    def encoded_openly(cls, texts: list[str], tokenizer: Tokenizer) -> tuple[Ragged, list[list[str]]]:
        """Sources under an open vocabulary, each ending in `<eos>`, and the unknown words of each by number."""
        tokens, lengths, words = encode_sources(tokenizer, texts)
        return cls.of_lengths(tokens, lengths), words

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, number: int) -> NDArray[np.integer]:
        return self.tokens[self.offsets[number] : self.offsets[number + 1]]

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How long each sequence is."""
        return np.diff(self.offsets)

    def lengths_of(self, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
        """How long some sequences are."""
        return self.offsets[numbers + 1] - self.offsets[numbers]

    def where(self, keep: NDArray[np.bool_]) -> Ragged:
        """Only the sequences that are to be kept."""
        return self.of_lengths(self.tokens[np.repeat(keep, self.lengths)], self.lengths[keep])


def padded(sequences: Ragged, numbers: NDArray[np.int64], filler: int = PAD) -> tuple[Tensor, Tensor]:
    """Some sequences, [rows, longest] padded with `<pad>` or another number, and their lengths [rows]."""
    starts, lengths = sequences.offsets[numbers], sequences.lengths_of(numbers)
    steps = np.arange(lengths.max())
    real = steps < lengths[:, None]  # [rows, longest]
    ids = np.full(real.shape, filler, np.int64)
    ids[real] = sequences.tokens[(starts[:, None] + steps)[real]]
    return torch.from_numpy(ids), torch.from_numpy(lengths)


def even_pieces(
    starts: NDArray[np.int64], sizes: NDArray[np.int64], longest: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where sequences begin and how long they are, after those of more than `longest` tokens were cut into pieces of
    about the same length."""
    counts = np.maximum(1, -(-sizes // longest))
    piece = np.arange(counts.sum()) - np.repeat(np.cumsum(counts) - counts, counts)  # 0, 1, ... in each sequence
    starts, sizes, counts = (np.repeat(values, counts) for values in (starts, sizes, counts))
    first, last = sizes * piece // counts, sizes * (piece + 1) // counts
    return starts + first, last - first
