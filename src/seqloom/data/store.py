"""Token ids on disk: written once in a stream, then memory-mapped, so that a corpus may be larger than memory."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqloom.data.corpus import Corpus
from seqloom.errors import DataError
from seqloom.files import atomic_folder, write_json
from seqloom.text.chunks import in_chunks
from seqloom.text.special import EOS, UNK
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.words import count_words

CHUNK = 1 << 20  # characters encoded at a time
FORMAT = 2  # raise when the files change shape: old stores are then built anew


def cache_folder() -> Path:
    """Where token stores and tokenisers are kept between runs: `$SEQLOOM_CACHE`, or the user's cache folder."""
    default = Path(os.environ.get("XDG_CACHE_HOME", Path.home() / ".cache")) / "seqloom"
    return Path(os.environ.get("SEQLOOM_CACHE", default))


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
    def open(cls, folder: Path) -> TokenStore:
        """A store built before."""
        header = json.loads((folder / "store.json").read_text(encoding="utf-8"))
        totals = Totals(**header["totals"])
        return cls(np.memmap(folder / "tokens.bin", dtype=header["dtype"], mode="r", shape=(totals.tokens,)), totals)

    @staticmethod
    def folder(corpus: Corpus, tokenizer: Tokenizer) -> Path:
        """Where the store of a corpus under a tokeniser is kept: another place for each content of both."""
        recipe = f"{FORMAT}\n{corpus.fingerprint}\n{tokenizer.document}"
        return cache_folder() / "tokens" / hashlib.sha256(recipe.encode()).hexdigest()[:32]

    @staticmethod
    def dtype(tokenizer: Tokenizer) -> np.dtype[np.unsignedinteger]:
        """The smallest numbers that hold all ids."""
        return np.dtype(np.uint16 if tokenizer.size <= 1 << 16 else np.uint32)

    @classmethod
    def build(cls, texts: Iterable[str], tokenizer: Tokenizer, folder: Path) -> TokenStore:
        """Encode `texts` in a stream into `folder`."""
        dtype = cls.dtype(tokenizer)
        units = tokens = words = characters = unknown = 0
        with atomic_folder(folder) as temporary:
            with open(temporary / "tokens.bin", "wb") as file:
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
            write_header(temporary, dtype, Totals(units, tokens, words, characters, unknown))
        return cls.open(folder)

    @classmethod
    def of(cls, corpus: Corpus, tokenizer: Tokenizer) -> TokenStore:
        """The store of a corpus under a tokeniser: from the cache when neither changed, else built."""
        folder = cls.folder(corpus, tokenizer)
        if (folder / "store.json").is_file():
            return cls.open(folder)
        try:
            return cls.build(corpus, tokenizer, folder)
        except DataError as error:
            raise error.located(corpus) from error

    def __len__(self) -> int:
        return len(self.tokens)


def write_header(folder: Path, dtype: np.dtype[np.unsignedinteger], totals: Totals) -> None:
    """Say what is in `tokens.bin`."""
    write_json(folder / "store.json", {"format": FORMAT, "dtype": dtype.name, "totals": asdict(totals)})


_END = np.array([EOS])
