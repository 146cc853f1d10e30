"""Words that carry grammar rather than meaning, and marks that are no words at all."""

from __future__ import annotations

from pathlib import Path

import regex

from seqloom.text.special import SPECIALS, UNK

STOP_WORDS = frozenset(Path(__file__).with_name("stopwords.txt").read_text(encoding="utf-8").split())
"""Those of English and of Chinese."""

LETTER_OR_DIGIT = regex.compile(r"[\p{L}\p{N}]")
# A letter without case, as those of Chinese, is a word by itself; one with case, alone, is an initial.
WORD = regex.compile(r"\p{Lo}|\p{L}.*\p{L}", regex.DOTALL)


def is_stop_word(word: str) -> bool:
    """Whether a word is a function word of English or Chinese, a mark without any letter or digit, or `<unk>`."""
    if word == SPECIALS[UNK]:
        return True
    return word.lower().replace("’", "'") in STOP_WORDS or LETTER_OR_DIGIT.search(word) is None


def is_content_word(word: str) -> bool:
    """Whether a word carries meaning by itself: no stop word, no number, no single letter of an alphabet."""
    return WORD.search(word) is not None and not is_stop_word(word)
