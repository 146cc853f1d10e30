"""Words that carry grammar rather than meaning, and marks that are no words at all."""

from __future__ import annotations

from pathlib import Path

import regex

from seqloom.text.special import SPECIALS, UNK

STOP_WORDS = frozenset(Path(__file__).with_name("stopwords.txt").read_text(encoding="utf-8").split())
"""Those of English and of Chinese."""

LETTER_OR_DIGIT = regex.compile(r"[\p{L}\p{N}]")


def is_stop_word(word: str) -> bool:
    """Whether a word is a function word of English or Chinese, a mark without any letter or digit, or `<unk>`."""
    if word == SPECIALS[UNK]:
        return True
    return word.lower().replace("’", "'") in STOP_WORDS or LETTER_OR_DIGIT.search(word) is None
