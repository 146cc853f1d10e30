"""Batches of labelled sentences: what is known of each word, and the labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.batch import Batch, Numbers
from seqloom.data.ragged import Ragged, padded
from seqloom.data.stream import Sequences
from seqloom.data.word_pieces import WordPieces


@dataclass(frozen=True)
class LabelledBatch(Batch):
    """Rows of words, padded."""

    ids: Tensor
    """[rows, time]: words under the tokeniser."""
    layers: Tensor | None
    """[rows, time, layers, width]: contextual vectors of every layer, where there are any."""
    targets: Tensor
    """[rows, time] labels of the words, 0 where padding is; or [rows] labels of the sentences."""
    lengths: Tensor
    """[rows]: words."""
    pieces: Tensor | None = None
    """[rows, pieces], and the two below: see `PieceBatch`; for a network below that is trained along."""
    piece_lengths: Tensor | None = None
    firsts: Tensor | None = None

    counted = ("tokens",)

    @cached_property
    def tokens(self) -> int:
        """How many labels there are to predict."""
        return int(self.lengths.sum()) if self.targets.dim() == 2 else len(self.targets)

    @property
    def unit(self) -> str:
        return "tokens" if self.targets.dim() == 2 else "texts"

    @property
    def mask(self) -> Tensor:
        """[rows, time]: True where a word stands."""
        return torch.arange(self.ids.size(1), device=self.ids.device) < self.lengths.unsqueeze(1)


@dataclass(frozen=True)
class LabelledSentences(Sequences):
    """Sentences by number, their words one after the other; each has one word at least."""

    ids: NDArray[np.int64]
    sizes: Numbers
    """[sentences]: how many words each has."""
    labels: Numbers
    """One for each word, or one for each sentence."""
    by_word: bool
    """Which of the two."""
    layers: NDArray[Any] | None = None
    """[words, layers, width]: contextual vectors."""
    pieces: WordPieces | None = None
    """The sentences as a network below reads them that is trained along."""

    @cached_property
    def words(self) -> Ragged:
        """The words of each sentence."""
        return Ragged.of_lengths(self.ids, self.sizes)

    @property
    def lengths(self) -> Numbers:
        """How many words each sentence has."""
        return self.sizes

    def targets(self, numbers: Numbers) -> int:
        return int(self.sizes[numbers].sum()) if self.by_word else len(numbers)

    def batch(self, numbers: Numbers) -> LabelledBatch:
        ids, lengths = padded(self.words, numbers)
        if self.by_word:
            targets, _ = padded(Ragged(self.labels, self.words.offsets), numbers, filler=0)
        else:
            targets = torch.from_numpy(self.labels[numbers])
        layers = None
        if self.layers is not None:
            layers = torch.zeros(*ids.shape, *self.layers.shape[1:])
            for row, number in enumerate(numbers):
                first, last = self.words.offsets[number : number + 2]
                layers[row, : last - first] = torch.from_numpy(self.layers[first:last].astype(np.float32))
        below = None if self.pieces is None else self.pieces.batch(numbers)
        cut = (None, None, None) if below is None else (below.pieces, below.piece_lengths, below.firsts)
        return LabelledBatch(ids, layers, targets, lengths, *cut, numbers=numbers)
