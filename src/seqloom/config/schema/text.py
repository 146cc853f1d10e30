"""How text becomes tokens."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from seqloom.config.schema.base import Schema, Size, Times


class LearnedText(Schema):
    """What tokenisers share that learn their vocabulary from the training text."""

    kind: str
    lowercase: bool = False
    """Lower the case of all text first."""


class CountedText(LearnedText):
    """What tokenisers share whose vocabulary is what they count."""

    min_count: Times = 1
    """Rarer tokens become `<unk>`."""
    max_size: Times | None = None
    """Keep at most this many tokens (and the four special symbols)."""


class WordText(CountedText):
    kind: Literal["words"] = "words"
    """Words and punctuation marks apart; each Chinese character is a word."""


class WhitespaceText(CountedText):
    kind: Literal["whitespace"] = "whitespace"
    """The text is tokenised already: words are what stands between spaces."""


class CharacterText(CountedText):
    kind: Literal["characters"] = "characters"
    """One token per character, spaces and newlines too."""


class BpeText(LearnedText):
    kind: Literal["bpe"] = "bpe"
    """Byte-level byte-pair encoding: nothing is ever unknown, and decoding gives back the exact text."""
    max_size: Annotated[Size, Field(ge=260)] = 8000
    """Subwords in the vocabulary; 256 bytes and four special symbols at least."""
    min_count: Times = 2
    """How often a pair of pieces must be seen to become one."""


class UnigramText(LearnedText):
    kind: Literal["unigram"] = "unigram"
    """Subwords of a unigram language model (Kudo 2018)."""
    max_size: Annotated[Size, Field(ge=8)] = 8000
    """Subwords in the vocabulary, the special symbols included."""


class RunText(Schema):
    kind: Literal["run"] = "run"
    """The tokeniser of another run as it is, so that both models speak of the same tokens."""
    path: str
    """The run's folder, or a `tokenizer.json`; it is copied, and not needed again."""


TextConfig = Annotated[
    WordText | WhitespaceText | CharacterText | BpeText | UnigramText | RunText, Field(discriminator="kind")
]
