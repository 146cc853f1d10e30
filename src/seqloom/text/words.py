"""Words, and the two tokenisers whose tokens are words."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import regex
from numpy.typing import NDArray

from seqloom.text.special import EOS
from seqloom.text.tokenizer import Ids, VocabularyTokenizer
from seqloom.text.vocabulary import Vocabulary

if TYPE_CHECKING:
    from seqloom.text.word_table import WordTable

# Scripts written without spaces, where a character is the smallest unit that means something. The long-vowel marks
# ー and ｰ belong to no single script, so they are named.
IDEOGRAPH = r"\p{Han}\p{Hiragana}\p{Katakana}ーｰ"
UNSPACED = IDEOGRAPH + r"\u3000-\u303f\uff01-\uff65"  # and their full-width punctuation
# Letters, digits, the marks on them, and the joiners that stand inside Persian and Indic words.
LETTER = rf"[[\p{{L}}\p{{M}}\p{{N}}_\u200c\u200d]--[{IDEOGRAPH}]]"

WORD = regex.compile(
    rf"""
      <unk>                              # rare words of corpora that come with them replaced
    | [{IDEOGRAPH}]\p{{M}}*              # 我
    | \p{{Nd}}++(?:[.,:]\p{{Nd}}++)++    # 3.14  1,000  12:30
    | {LETTER}++(?:['’]{LETTER}++)*+     # word  don't  o’clock
    | \.\.\. | --                        # marks that come in several characters
    | [^\s\x1c-\x1f]                     # any other mark, alone
    """,
    regex.VERBOSE | regex.VERSION1,
)
# The same for ASCII, of which most text of many languages is: a third of the time.
ASCII_WORD = re.compile(r"<unk>|\d+(?:[.,:]\d+)+|\w+(?:'\w+)*|\.\.\.|--|[^\s\x1c-\x1f]", re.ASCII)
ONE_IDEOGRAPH = regex.compile(f"[{IDEOGRAPH}]")

# How marks attach when words are put back together, applied to the words joined by single spaces.
QUOTES = (  # the space goes inside a pair of straight quotes
    (regex.compile(r'(?<!\S)" (.+?) "(?!\S)'), r'"\1"'),
    (regex.compile(r"(?<!\S)' (.+?) '(?!\S)"), r"'\1'"),
)
ATTACHMENTS = (
    *QUOTES,
    (regex.compile(r" (?=(?:[.,;:!?%)\]}…”’»°]|\.\.\.)['\"]?(?:\s|$))"), ""),  # closing marks hold on to the left
    (regex.compile(r"(?<=(?:^|\s)['\"]?[(\[{“‘«¿¡$£€#]) "), ""),  # opening marks to the right
    (regex.compile(r" (-|--|–|—|/|@) "), r"\1"),  # and these to both sides
    # Ideographs are written without spaces.
    (regex.compile(rf"(?<=[{UNSPACED}]\p{{M}}*) | (?=[{UNSPACED}])"), ""),
)

ENDS_IN_LETTER = regex.compile(rf"(?:{LETTER}|[{IDEOGRAPH}]\p{{M}}*|<unk>)\Z", regex.VERSION1)
OPEN_QUOTE = regex.compile(r"(?<!\S)[\"'](?!\S)")

LARGE_BATCH = 1 << 18  # characters from which on loading compiled code, half a second, is soon made up for


def split_words(text: str) -> list[str]:
    """Words, numbers and punctuation marks; a contraction is one word, and so is each Han or kana character."""
    return (ASCII_WORD if text.isascii() else WORD).findall(text)


def join_words(words: Iterable[str]) -> str:
    """Put words back together the way they are usually written: the inverse of `split_words` up to whitespace."""
    text = " ".join(words)
    for pattern, replacement in ATTACHMENTS:
        text = pattern.sub(replacement, text)
    return text


def has_open_quote(words: Sequence[str]) -> bool:
    """Whether a quotation mark among the words waits for the one that makes a pair of it."""
    if '"' not in words and "'" not in words:
        return False
    text = " ".join(words)
    for pattern, replacement in QUOTES:
        text = pattern.sub(replacement, text)
    return OPEN_QUOTE.search(text) is not None


def count_words(text: str) -> int:
    """The number of whitespace-separated pieces, each Han or kana character being a piece of its own.

    The yardstick of perplexity per word, the same for every tokeniser.
    """
    if text.isascii():
        return len(text.split())
    spaced, ideographs = ONE_IDEOGRAPH.subn(" ", text)
    return len(spaced.split()) + ideographs


class WordTokenizer(VocabularyTokenizer):
    """Words, numbers and punctuation marks (`split_words`); decoding restores the text up to whitespace."""

    kind = "words"

    @staticmethod
    def split(text: str) -> list[str]:
        return split_words(text)

    @staticmethod
    def join(pieces: Iterable[str]) -> str:
        return join_words(pieces)

    def settled(self, ids: Sequence[int]) -> int:
        # Up to the last word of letters, which whatever follows leaves alone; but a quotation mark that is open may
        # yet become the first of a pair.
        words = self.tokens(ids)
        count = len(words)
        while count and not ENDS_IN_LETTER.search(words[count - 1]):
            count -= 1
        return 0 if has_open_quote(words[:count]) else count


class WhitespaceTokenizer(WordTokenizer):
    """For text that is tokenised already: words are what stands between spaces.

    Large batches are encoded in compiled code.
    """

    kind = "whitespace"

    def __init__(self, vocabulary: Vocabulary, lowercase: bool = False) -> None:
        super().__init__(vocabulary, lowercase)
        self._table: WordTable | None = None

    @staticmethod
    def split(text: str) -> list[str]:
        return text.split()

    @staticmethod
    def join(pieces: Iterable[str]) -> str:
        return " ".join(pieces)

    def settled(self, ids: Sequence[int]) -> int:
        return len(ids)  # spaces stand between all words

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        if self._compiled(texts) is None:
            return super().encode_batch(texts)
        ids, lengths = self.encode_flat(texts)
        ends = lengths.cumsum()
        begins = ends - lengths
        words = ids.view(np.uint32)
        return [words[begin : end - 1] for begin, end in zip(begins.tolist(), ends.tolist(), strict=True)]

    def encode_flat(self, texts: Sequence[str]) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
        table = self._compiled(texts)
        if table is None:
            return super().encode_flat(texts)
        prepared = [self.prepare(text) for text in texts] if self.lowercase else texts
        joined = "\n".join([*prepared, ""])
        if joined.count("\n") != len(texts):  # some hold newlines, at which they must not be cut
            joined = "\n".join([*(text.replace("\n", " ") for text in prepared), ""])
        ids = table.look_up(joined.encode("utf-8", "surrogatepass"))
        return ids, np.diff(np.flatnonzero(ids == EOS), prepend=-1)

    def _compiled(self, texts: Sequence[str]) -> WordTable | None:
        """The table to encode a batch with: made for the first large one, and kept for all that follow."""
        if self._table is None and sum(map(len, texts)) < LARGE_BATCH:
            return None
        table = self.table
        return table if texts else None

    @property
    def table(self) -> WordTable:
        """The words in compiled code: not to be asked for before it pays, for it loads a compiler."""
        if self._table is None:
            from seqloom.text.word_table import WordTable

            self._table = WordTable.of(self.vocabulary.ordinary)
        return self._table
