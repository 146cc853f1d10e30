"""An open vocabulary for models that copy: the unknown words of a source have numbers of their own.

Of a source's words that the tokeniser does not know, the k-th distinct one (from 0, in order of appearance) is
numbered `tokenizer.size + k`, in that source and in the target that belongs to it (See et al. 2017, "Get To The
Point", section 2.2). So a model can copy, and learn to copy, a name it has never seen. In another pair the same number
is another word: the words travel with the ids.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from seqloom.text.special import UNK
from seqloom.text.tokenizer import Tokenizer, visible

FlatIds = NDArray[np.int32]
Lengths = NDArray[np.int64]


def encode_sources(tokenizer: Tokenizer, texts: Sequence[str]) -> tuple[FlatIds, Lengths, list[list[str]]]:
    """The ids of many sources as `Tokenizer.encode_flat` gives them, their lengths, and the unknown words of each."""
    ids, lengths = tokenizer.encode_flat(texts)
    numbered: list[dict[str, int]] = [{} for _ in texts]
    for place, text, word in _unknown(tokenizer, texts, ids, lengths):
        numbers = numbered[text]
        ids[place] = numbers.setdefault(word, tokenizer.size + len(numbers))
    return ids, lengths, [list(numbers) for numbers in numbered]


def encode_targets(
    tokenizer: Tokenizer, texts: Sequence[str], words: Sequence[Sequence[str]]
) -> tuple[FlatIds, Lengths]:
    """The ids of many targets as `Tokenizer.encode_flat` gives them, and their lengths; `words`: of each source."""
    ids, lengths = tokenizer.encode_flat(texts)
    for place, text, word in _unknown(tokenizer, texts, ids, lengths):
        if word in words[text]:
            ids[place] = tokenizer.size + words[text].index(word)
    return ids, lengths


def tokens(tokenizer: Tokenizer, ids: Iterable[int], words: Sequence[str]) -> list[str]:
    """Each id as a piece a person can read, special symbols too; `words`: the unknown words of the source."""
    numbers = [int(id) - tokenizer.size for id in ids]  # of words from 0 on, and below it of the vocabulary
    known = tokenizer.tokens(UNK if number >= 0 else number + tokenizer.size for number in numbers)
    return [words[number] if number >= 0 else token for number, token in zip(numbers, known, strict=True)]


def decode(tokenizer: Tokenizer, ids: Iterable[int], words: Sequence[str]) -> str:
    """The text of some ids, as `Tokenizer.decode` writes it; `words`: the unknown words of the source."""
    if not words:  # always so for byte pairs, whose pieces, parts of characters, only the tokeniser can put together
        return tokenizer.decode(ids)
    return tokenizer.join(tokens(tokenizer, visible(ids), words))


class Opened:
    """A tokeniser that writes the unknown words of one source too."""

    def __init__(self, tokenizer: Tokenizer, words: Sequence[str]) -> None:
        self.tokenizer, self.words = tokenizer, words

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids."""
        return decode(self.tokenizer, ids, self.words)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each id as a piece a person can read."""
        return tokens(self.tokenizer, ids, self.words)

    def settled(self, ids: Sequence[int]) -> int:
        """As `Tokenizer.settled`."""
        return self.tokenizer.settled([UNK if id >= self.tokenizer.size else id for id in ids])


def _unknown(
    tokenizer: Tokenizer, texts: Sequence[str], ids: FlatIds, lengths: Lengths
) -> Iterator[tuple[int, int, str]]:
    """Where unknown tokens are: (place among the ids, number of the text, the word as it stands there)."""
    places = np.flatnonzero(ids == UNK)
    owners = np.repeat(np.arange(len(texts)), lengths)[places]
    positions = places - (np.cumsum(lengths) - lengths)[owners]  # within the text
    pieces: list[str] = []
    latest = None
    for place, owner, position in zip(places.tolist(), owners.tolist(), positions.tolist(), strict=True):
        if owner != latest:
            pieces, latest = tokenizer.pieces(texts[owner]), owner
        yield place, owner, pieces[position]
