"""What every tokeniser does: text to ids, and back."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import DataError
from seqloom.files import write_text
from seqloom.text.special import BOS, EOS, PAD
from seqloom.text.vocabulary import Vocabulary

Ids = NDArray[np.uint32]

_END = np.array([EOS], np.uint32)
_INVISIBLE = frozenset((PAD, BOS, EOS))
VERSION = 1  # of the JSON document; raise it when an old reader could no longer understand a new file


class Tokenizer(ABC):
    """Splits text into tokens and numbers them.

    Encoding adds no special symbols and never makes `<pad>`, `<bos>` or `<eos>` out of text; whoever builds batches
    puts them where they belong.
    """

    kind: ClassVar[str]
    lowercase: bool

    @property
    @abstractmethod
    def size(self) -> int:
        """How many ids there are, special symbols included."""

    @abstractmethod
    def encode(self, text: str) -> list[int]:
        """The ids of a text."""

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        """The ids of many texts."""
        return [np.array(self.encode(text), dtype=np.uint32) for text in texts]

    def encode_flat(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        """The ids of many texts one after the other, `<eos>` after each, and the length of each with it."""
        pieces = [piece for ids in self.encode_batch(texts) for piece in (ids, _END)]
        lengths = np.array([len(ids) + 1 for ids in pieces[::2]], np.int64)
        return np.concatenate(pieces, dtype=np.int32, casting="unsafe") if pieces else np.empty(0, np.int32), lengths

    def continuing(self) -> Tokenizer:
        """What reads text in the midst of another: itself, but where the first word of a text is treated in a way of
        its own."""
        return self

    @abstractmethod
    def pieces(self, text: str) -> list[str]:
        """What stands in the prepared text for each id of `encode(text)`: unknown words as they are written there."""

    @abstractmethod
    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each id as a piece a person can read, special symbols too."""

    @staticmethod
    @abstractmethod
    def join(pieces: Iterable[str]) -> str:
        """The text that pieces make when they are put together the way `decode` does it."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids. Padding, begin and end are skipped; what is unknown reads `<unk>`."""
        return self.join(self.tokens(visible(ids)))

    def settled(self, ids: Sequence[int]) -> int:
        """How many of the first ids read the same whatever follows, such that of what follows, only the last of them
        must be known to write it. All, where pieces are put together as they are; see `Unfolding`."""
        return len(ids)

    @property
    def openings(self) -> NDArray[np.bool_] | None:
        """Which ids begin with a space, where a text is its pieces put together as they are and spaces make no
        difference but between words; None where what a piece reads like depends on its neighbours."""
        return None

    @abstractmethod
    def contents(self) -> dict[str, Any]:
        """What the constructor needs, as JSON values."""

    @classmethod
    @abstractmethod
    def from_contents(cls, contents: dict[str, Any]) -> Self:
        """The tokeniser that `contents` described."""

    def to_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "version": VERSION, **self.contents()}

    @cached_property
    def document(self) -> str:
        """The JSON document, on one line: lists of words are long. A tokeniser does not change, so it is made once."""
        return json.dumps(self.to_json(), ensure_ascii=False)

    @classmethod
    def from_json(cls, document: dict[str, Any]) -> Self:
        if document.get("kind") != cls.kind:
            raise DataError(f"a tokeniser of kind {document.get('kind')!r} is not one of {cls.kind!r}")
        if document.get("version") != VERSION:
            raise DataError(
                f"the tokeniser has format version {document.get('version')!r} and this seqloom reads {VERSION}; "
                "use the version of seqloom that wrote it, or train again"
            )
        try:
            tokenizer = cls.from_contents(document)
            if not isinstance(tokenizer.lowercase, bool):
                raise TypeError("lowercase is neither true nor false")
            return tokenizer
        except Exception as error:  # the `tokenizers` library raises nothing more particular
            raise DataError(f"the {cls.kind} tokeniser is damaged ({type(error).__name__}: {error})") from error

    def save(self, path: Path) -> None:
        """Write one JSON document, atomically; `load_tokenizer` reads it."""
        write_text(path, self.document + "\n")

    def prepare(self, text: str) -> str:
        """What happens to a text before it is split."""
        return text.lower() if self.lowercase else text


class LearnedTokenizer(Tokenizer):
    """A tokeniser whose vocabulary is learned from text."""

    @classmethod
    @abstractmethod
    def train(cls, texts: Iterable[str]) -> Self:
        """Learn the vocabulary in one pass over `texts`; subclasses take their options by name."""


class VocabularyTokenizer(LearnedTokenizer):
    """Cuts text by a fixed rule. What it learns is which of the pieces have an id of their own: the frequent ones."""

    def __init__(self, vocabulary: Vocabulary, lowercase: bool = False) -> None:
        self.vocabulary, self.lowercase = vocabulary, lowercase

    @staticmethod
    @abstractmethod
    def split(text: str) -> list[str]:
        """The pieces of a prepared text."""

    @classmethod
    def train(
        cls, texts: Iterable[str], *, lowercase: bool = False, min_count: int = 1, max_size: int | None = None
    ) -> Self:
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(cls.split(text.lower() if lowercase else text))
        return cls.of_counts(counts, lowercase, min_count, max_size)

    @classmethod
    def of_counts(cls, counts: Mapping[str, int], lowercase: bool, min_count: int, max_size: int | None) -> Self:
        """The tokeniser of pieces that were seen so often; an error if none is frequent enough."""
        if not counts:
            raise empty_corpus()
        vocabulary = Vocabulary.from_counts(counts, min_count, max_size)
        if not vocabulary.ordinary:
            raise DataError(
                f"no token of the training text is seen {min_count} times (the most frequent: {max(counts.values())}); "
                "lower text.min_count or give more text"
            )
        return cls(vocabulary, lowercase)

    @property
    def size(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> list[int]:
        return self.vocabulary.ids(self.pieces(text))

    def pieces(self, text: str) -> list[str]:
        return self.split(self.prepare(text))

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return self.vocabulary.tokens(ids)

    def contents(self) -> dict[str, Any]:
        return {"lowercase": self.lowercase, "vocabulary": self.vocabulary.ordinary}

    @classmethod
    def from_contents(cls, contents: dict[str, Any]) -> Self:
        return cls(Vocabulary(distinct_strings(contents["vocabulary"])), contents["lowercase"])


def distinct_strings(pieces: Any) -> list[str]:
    """A list of strings, none of them twice; a TypeError or a ValueError where a document holds anything else."""
    if not isinstance(pieces, list) or not all(isinstance(piece, str) for piece in pieces):
        raise TypeError("its tokens are no list of strings")
    if len(set(pieces)) != len(pieces):
        raise ValueError("a token stands there twice")
    "".join(pieces).encode()  # half of a surrogate pair, which JSON can spell, is an error
    return pieces


def empty_corpus() -> DataError:
    return DataError("the training text is empty: a tokeniser learns its vocabulary from text; check data.train")


def visible(ids: Iterable[int]) -> list[int]:
    """The ids that stand for text: padding, begin and end left out."""
    return [id for id in map(int, ids) if id not in _INVISIBLE]
