"""Token ids on disk: written once in a stream, then memory-mapped, so that a corpus may be larger than memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqloom.data.cache import About, Entry, cached
from seqloom.data.corpus import Corpus
from seqloom.errors import DataError
from seqloom.text.chunks import in_chunks
from seqloom.text.special import EOS, UNK
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.words import count_words

CHUNK = 1 << 20  # characters encoded at a time
FILE = "tokens.bin"


@dataclass(frozen=True)
class Totals:
    """What a store counts, so that scores can be given per token, per word and per character."""

    units: int
    tokens: int
    """`<eos>` of each unit included."""
    words: int
    """Pieces between spaces, each Chinese or Japanese character one; plus one per unit for its end."""
    characters: int
    """Plus one per unit for its end."""
    unknown: int
    """Tokens that became `<unk>`."""


@dataclass(frozen=True)
class TokenStore:
    """The units of a corpus, each followed by `<eos>`, as one array of ids."""

    tokens: NDArray[np.unsignedinteger]
    totals: Totals

    @classmethod
    def open(cls, entry: Entry) -> TokenStore:
        """A store built before."""
        totals = Totals(**entry.about["totals"])
        return cls(np.memmap(entry.folder / FILE, entry.about["dtype"], "r", shape=(totals.tokens,)), totals)

    @staticmethod
    def dtype(tokenizer: Tokenizer) -> np.dtype[np.unsignedinteger]:
        """The smallest numbers that hold all ids."""
        return np.dtype(np.uint16 if tokenizer.size <= 1 << 16 else np.uint32)

    @classmethod
    def build(cls, texts: Iterable[str], tokenizer: Tokenizer, folder: Path) -> TokenStore:
        """Encode `texts` in a stream into `folder`."""
        return cls.open(Entry.write(folder, lambda temporary: _encode(texts, tokenizer, temporary)))

    @classmethod
    def of(cls, corpus: Corpus, tokenizer: Tokenizer) -> TokenStore:
        """The store of a corpus under a tokeniser: from the cache when neither changed, else built."""
        try:
            return cls.cached(corpus, tokenizer, lambda folder: _encode(corpus, tokenizer, folder))
        except DataError as error:
            raise error.located(corpus) from error

    @classmethod
    def cached(cls, corpus: Corpus, tokenizer: Tokenizer, fill: Callable[[Path], About]) -> TokenStore:
        """The same, where `fill` knows a way of its own to build it."""
        return cls.open(cached("tokens", f"{corpus.fingerprint}\n{tokenizer.document}", fill))

    def __len__(self) -> int:
        return len(self.tokens)

    def unit_places(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Where the units begin, and how many tokens each has without its `<eos>`; blank ones are left out."""
        ends = np.flatnonzero(self.tokens == EOS)
        starts = np.concatenate([[0], ends[:-1] + 1])
        some = ends > starts
        if not some.any():
            raise DataError("the text has no words to learn from or to score")
        return starts[some], (ends - starts)[some]


def about(dtype: np.dtype[np.unsignedinteger], totals: Totals) -> About:
    """What is in a store."""
    return {"dtype": dtype.name, "totals": asdict(totals)}


def _encode(texts: Iterable[str], tokenizer: Tokenizer, folder: Path) -> About:
    dtype = TokenStore.dtype(tokenizer)
    units = tokens = words = characters = unknown = 0
    with open(folder / FILE, "wb") as file:
        for chunk in in_chunks(texts, len, CHUNK):
            pieces = []
            for text, ids in zip(chunk, tokenizer.encode_batch(chunk), strict=True):
                words += count_words(text) + 1
                characters += len(text) + 1
                pieces += [ids, _END]
            array = np.concatenate(pieces).astype(dtype)
            unknown += int(np.count_nonzero(array == UNK))
            units += len(chunk)
            tokens += len(array)
            array.tofile(file)
    if not tokens:
        raise DataError("the corpus is empty: there is no text to learn from or to score")
    return about(dtype, Totals(units, tokens, words, characters, unknown))


_END = np.array([EOS])
