"""Sentences for models that read them from both ends, under a vocabulary that is open.

The words that a model predicts have the ids of its tokeniser. Other words have higher numbers: as targets they are
`<unk>`, but as inputs they keep their spelling, where the model reads spellings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.batch import Batch, Numbers
from seqloom.data.characters import spell, spell_specials
from seqloom.data.ragged import even_pieces
from seqloom.data.store import TokenStore
from seqloom.data.stream import Sequences
from seqloom.text.special import BOS, EOS, PAD, UNK
from seqloom.text.vocabulary import Vocabulary


@dataclass(frozen=True)
class SentenceBatch(Batch):
    """Sentences from `<bos>` to `<eos>`, padded with `<pad>`; every distinct word of theirs is read once."""

    words: Tensor
    """[distinct] ids, or [distinct, characters] codes: what the input layer reads."""
    word_index: Tensor
    """[rows, time]: which of the words stands where."""
    targets: Tensor
    """[rows, time]: ids of the words; `<unk>` for those that are not predicted."""
    lengths: Tensor
    """[rows]: `<bos>` and `<eos>` counted."""

    counted = ("tokens", "steps")

    @cached_property
    def tokens(self) -> int:
        """How many words both directions predict: each all but the first that it reads."""
        return 2 * int(self.lengths.sum() - len(self.lengths))

    @cached_property
    def steps(self) -> Tensor:
        """[words predicted]: where, row after row, the forward direction predicts the next word. The backward direction
        predicts the same words from one place further on."""
        real = torch.arange(self.targets.size(1)) < (self.lengths - 1).unsqueeze(1)
        return real.flatten().nonzero().squeeze(1)

    def rows(self, first: int, last: int) -> SentenceBatch:
        """The rows from `first` up to `last`; words that do not stand there any more are still read."""
        return replace(super().rows(first, last), words=self.words)


@dataclass(frozen=True)
class Sentences(Sequences):
    """Sentences by number: words that stand one after the other in `ids`."""

    ids: NDArray[np.integer]
    starts: Numbers
    """[sentences]: where each begins in `ids`."""
    sizes: Numbers
    """[sentences]: how many words it has."""
    known: int
    """Ids from here on are of words that are not predicted."""
    spelling: NDArray[np.int16] | None
    """[ids, characters]: how each word is spelled, for models that read spellings."""

    @classmethod
    def of_store(cls, store: TokenStore, vocabulary: Vocabulary, known: int, characters: int | None) -> Sentences:
        """The units of a store, blank ones left out, under an open vocabulary of which `known` ids are predicted.

        characters: how many of a word are read; None for models that read whole words.
        """
        return cls(store.tokens, *store.unit_places(), known, spelling_of(vocabulary, characters))

    @classmethod
    def of_words(cls, sentences: Sequence[Sequence[str]], vocabulary: Vocabulary, characters: int | None) -> Sentences:
        """Sentences of words under a vocabulary; what it does not know is numbered from its end on."""
        known = len(vocabulary)
        others: dict[str, int] = {}
        flat: list[int] = []
        for words in sentences:
            for word, id in zip(words, vocabulary.ids(words), strict=True):
                flat.append(others.setdefault(word, known + len(others)) if id == UNK else id)
        sizes = np.array([len(words) for words in sentences], np.int64)
        spelling = spelling_of(vocabulary, characters)
        if spelling is not None and characters is not None:
            spelling = np.concatenate([spelling, spell(list(others), characters)])
        return cls(np.array(flat, np.int64), np.cumsum(sizes) - sizes, sizes, known, spelling)

    def cut(self, longest: int) -> Sentences:
        """The same words in sentences of no more than `longest`: longer ones are cut into even pieces."""
        starts, sizes = even_pieces(self.starts, self.sizes, longest)
        return replace(self, starts=starts, sizes=sizes)

    @property
    def lengths(self) -> Numbers:
        """How long each sentence is with `<bos>` and `<eos>`."""
        return self.sizes + 2

    def targets(self, numbers: Numbers) -> int:
        return 2 * int((self.sizes[numbers] + 1).sum())

    def predicted(self) -> NDArray[np.int64]:
        """All words as both directions predict them, to be counted: each sentence once more has both its ends."""
        ends = np.repeat(np.array([BOS, EOS]), len(self))
        words = self.ids[self.ids != EOS].astype(np.int64)
        return np.concatenate([np.where(words < self.known, words, UNK), ends])

    def batch(self, numbers: Numbers) -> SentenceBatch:
        sizes = self.sizes[numbers][:, None]
        steps = np.arange(sizes.max() + 2)
        inside = (steps > 0) & (steps <= sizes)  # [rows, time]
        ids = np.where(steps == 0, BOS, np.where(steps == sizes + 1, EOS, PAD))
        ids[inside] = self.ids[(self.starts[numbers][:, None] + steps - 1)[inside]]
        distinct, index = np.unique(ids, return_inverse=True)
        words = np.where(distinct < self.known, distinct, UNK) if self.spelling is None else self.spelling[distinct]
        return SentenceBatch(
            torch.from_numpy(words.astype(np.int64)),
            torch.from_numpy(index.reshape(ids.shape)),
            torch.from_numpy(np.where(ids < self.known, ids, UNK)),
            torch.from_numpy(self.lengths[numbers]),
            numbers=numbers,
        )


def spelling_of(vocabulary: Vocabulary, characters: int | None) -> NDArray[np.int16] | None:
    """[ids, characters]: how the words of a vocabulary are spelled; None where no one asks."""
    if characters is None:
        return None
    return np.concatenate([spell_specials(characters), spell(vocabulary.ordinary, characters)])
