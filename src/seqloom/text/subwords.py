"""Tokenisers of subwords, encoded by the `tokenizers` library.

The library knows nothing of the special symbols: it would look for them in the text and turn a typed `<bos>` into
the control symbol. It is given the ordinary pieces only, numbered after them.
"""

from __future__ import annotations

import codecs
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Self

import numpy as np
import regex
from numpy.typing import NDArray
from tokenizers import Encoding, Regex, models, pre_tokenizers, trainers
from tokenizers import Tokenizer as LibraryTokenizer

from seqloom.errors import DataError
from seqloom.text.special import SPECIALS, UNK
from seqloom.text.tokenizer import Ids, LearnedTokenizer, Tokenizer, distinct_strings, empty_corpus, visible
from seqloom.text.unigram import learn_pieces

SPACE = "▁"  # how the unigram model writes a space


def word_pattern(space: str) -> str:
    """The words whose parts are subwords: letters, digits or marks, each with the space before them.

    The end of a contraction ('s, 'll) is a word of its own. No word is longer than 64 characters, which bounds the
    work on text without spaces (learning byte pairs takes time quadratic in the length of a word).
    """
    return (
        r"(?<=\p{L})['’]\p{L}{1,2}(?!\p{L})"
        rf"|{space}?[\p{{L}}\p{{M}}]{{1,64}}"
        rf"|{space}?\p{{N}}{{1,64}}"
        rf"|{space}?[^{space}\s\p{{L}}\p{{M}}\p{{N}}]{{1,64}}"
        rf"|[{space}\s]{{1,64}}(?![^{space}\s])"  # whitespace, less the space that belongs to the word after it
        rf"|[{space}\s]{{1,64}}"
    )


class SubwordTokenizer(LearnedTokenizer):
    """Encoding with the library, in parallel over the texts of a batch."""

    library: LibraryTokenizer
    """What encodes; for exporting it. Its vocabulary has the ordinary pieces at their ids."""

    def encode(self, text: str) -> list[int]:
        return self.encode_batch([text])[0].tolist()

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        encodings = self._encodings(self.library.encode_batch_fast, texts)
        return [np.array(encoding.ids, dtype=np.uint32) for encoding in encodings]

    def _encodings(self, encode: Callable[..., list[Encoding]], texts: Sequence[str]) -> list[Encoding]:
        """The texts through one of the library's methods."""
        prepared = [self.prepare(text) for text in texts]
        try:
            return encode(prepared, add_special_tokens=False)
        except TypeError:  # the library's word for a string that has no UTF-8
            raise DataError("a text holds half of a surrogate pair, which stands for no character; remove it") from None


class BpeTokenizer(SubwordTokenizer):
    """Byte-pair encoding over bytes (Sennrich et al. 2016; Radford et al. 2019).

    The 256 bytes are pieces, and then the most frequent pair of neighbouring pieces becomes one, again and again.
    Nothing is ever unknown, and any text comes back exactly.
    """

    kind = "bpe"

    def __init__(self, pieces: Sequence[str], merges: Sequence[tuple[str, str]], lowercase: bool = False) -> None:
        """`pieces` and `merges` are written in the 256 printable characters that stand for bytes (GPT-2's)."""
        self.byte_pieces = list(pieces)
        self.merges = [(left, right) for left, right in merges]
        self.lowercase = lowercase
        numbered = {piece: id for id, piece in enumerate(pieces, start=len(SPECIALS))}
        self.library = LibraryTokenizer(models.BPE(vocab=numbered, merges=self.merges))
        self.library.pre_tokenizer = self._words_in_bytes()
        self._bytes = [symbol.encode() for symbol in SPECIALS] + [
            bytes(map(BYTE_OF.__getitem__, piece)) for piece in self.byte_pieces
        ]

    @classmethod
    def train(cls, texts: Iterable[str], *, lowercase: bool = False, min_count: int = 2, max_size: int = 8000) -> Self:
        """`max_size` counts everything: the special symbols, the 256 bytes and the merged pieces."""
        library = LibraryTokenizer(models.BPE())
        library.pre_tokenizer = cls._words_in_bytes()
        trainer = trainers.BpeTrainer(
            vocab_size=max_size - len(SPECIALS),
            min_frequency=min_count,
            initial_alphabet=list(BYTE_OF),
            show_progress=False,
        )
        library.train_from_iterator(_not_empty(texts, lowercase), trainer)
        model = json.loads(library.to_str())["model"]
        pieces = sorted(model["vocab"], key=model["vocab"].__getitem__)
        return cls(pieces, model["merges"], lowercase)

    @staticmethod
    def _words_in_bytes() -> pre_tokenizers.PreTokenizer:
        words = pre_tokenizers.Split(Regex(word_pattern(" ")), behavior="isolated")
        return pre_tokenizers.Sequence([words, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])

    @property
    def size(self) -> int:
        return len(self._bytes)

    def pieces(self, text: str) -> list[str]:
        """A piece that is part of a character only is shown as bytes, like `\\xe6`."""
        return self.tokens(self.encode(text))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self._bytes[id].decode("utf-8", errors="backslashreplace") for id in ids]

    @staticmethod
    def join(pieces: Iterable[str]) -> str:
        return "".join(pieces)

    def decode(self, ids: Iterable[int]) -> str:
        # From bytes, as pieces may divide a character. A model may stop in the middle of one: that reads U+FFFD.
        return b"".join(map(self._bytes.__getitem__, visible(ids))).decode("utf-8", errors="replace")

    def settled(self, ids: Sequence[int]) -> int:
        # Up to the last piece that ends with a whole character, or with bytes that can no longer become one.
        count = len(ids)
        while count and _begun(b"".join(map(self._bytes.__getitem__, ids[:count]))):
            count -= 1
        return count

    @property
    def openings(self) -> NDArray[np.bool_]:
        return np.array([piece.startswith(b" ") for piece in self._bytes])

    def contents(self) -> dict[str, Any]:
        return {"lowercase": self.lowercase, "pieces": self.byte_pieces, "merges": self.merges}

    @classmethod
    def from_contents(cls, contents: dict[str, Any]) -> Self:
        pieces = distinct_strings(contents["pieces"])
        if not BYTE_OF.keys() <= set(pieces):
            raise ValueError("a byte is missing")
        return cls(pieces, contents["merges"], contents["lowercase"])


class UnigramTokenizer(SubwordTokenizer):
    """Subwords of a unigram language model (Kudo 2018): a word is cut in the likeliest way.

    Spaces are written "▁" and belong to the word after them, as in SentencePiece. Text whose characters were seen
    in training comes back exactly (save for a "▁" of its own); others are unknown.
    """

    kind = "unigram"

    def __init__(self, pieces: Sequence[tuple[str, float]], lowercase: bool = False) -> None:
        """`pieces` with their log-probabilities."""
        self.scored_pieces = [(piece, float(score)) for piece, score in pieces]
        self.lowercase = lowercase
        # The library numbers pieces by their place and finds all of them in the text. The special symbols hold
        # their places under names with a space, which no prepared text contains.
        placeholders = [(f" {symbol}", 0.0) for symbol in SPECIALS]
        self.library = LibraryTokenizer(models.Unigram([*placeholders, *self.scored_pieces], unk_id=UNK))
        self.library.pre_tokenizer = pre_tokenizers.Split(Regex(word_pattern(SPACE)), behavior="isolated")
        self._strings = [*SPECIALS, *(piece for piece, _ in self.scored_pieces)]

    @classmethod
    def train(cls, texts: Iterable[str], *, lowercase: bool = False, max_size: int = 8000) -> Self:
        """`max_size` counts everything, the special symbols too."""
        split = regex.compile(word_pattern(SPACE)).findall
        counts: Counter[str] = Counter()
        for text in _not_empty(texts, lowercase):
            counts.update(split(SPACE + text.replace(" ", SPACE)))
        return cls(learn_pieces(counts, max_size - len(SPECIALS)), lowercase)

    def prepare(self, text: str) -> str:
        # A first word looks like any other: it, too, has a space before it.
        return SPACE + self.marked(text) if text else text

    def marked(self, text: str) -> str:
        """A text with its spaces as pieces write them."""
        return super().prepare(text).replace(" ", SPACE)

    def continuing(self) -> Tokenizer:
        return _Continuing(self.scored_pieces, self.lowercase)

    @property
    def size(self) -> int:
        return len(self._strings)

    def pieces(self, text: str) -> list[str]:
        """Unknown characters in a row are one piece."""
        return self._encodings(self.library.encode_batch, [text])[0].tokens  # the fast method has ids only

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self._strings[id] for id in ids]

    @staticmethod
    def join(pieces: Iterable[str]) -> str:
        return "".join(pieces).replace(SPACE, " ").removeprefix(" ")

    @property
    def openings(self) -> NDArray[np.bool_]:
        return np.array([piece.startswith(SPACE) for piece in self._strings])

    def contents(self) -> dict[str, Any]:
        return {"lowercase": self.lowercase, "pieces": self.scored_pieces}

    @classmethod
    def from_contents(cls, contents: dict[str, Any]) -> Self:
        distinct_strings([piece for piece, _ in contents["pieces"]])
        if not all(math.isfinite(score) for _, score in contents["pieces"]):
            raise ValueError("the score of a piece is no number")
        return cls(contents["pieces"], contents["lowercase"])


class _Continuing(UnigramTokenizer):
    """The same for the midst of a text: a first word has a space before it only where there is one."""

    def prepare(self, text: str) -> str:
        return self.marked(text)


def _begun(text: bytes) -> bool:
    """Whether the last bytes are the beginning of a character, which more bytes would complete."""
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    decoder.decode(text)
    return bool(decoder.getstate()[0])


def _byte_characters() -> dict[str, int]:
    """The byte that each character of the byte alphabet stands for.

    Printable Latin-1 characters stand for themselves; the other bytes, in order, are written from U+0100 on.
    """
    printable = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = [byte for byte in range(256) if byte not in printable]
    return {chr(byte): byte for byte in sorted(printable)} | {chr(256 + i): byte for i, byte in enumerate(others)}


BYTE_OF = _byte_characters()


def _not_empty(texts: Iterable[str], lowercase: bool) -> Iterator[str]:
    """The texts, for training; an error after the last one if none held anything."""
    empty = True
    for text in texts:
        if text:
            empty = False
            yield text.lower() if lowercase else text
    if empty:
        raise empty_corpus()
