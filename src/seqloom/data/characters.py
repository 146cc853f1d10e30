"""Words as they are spelled: bytes of UTF-8 between a mark where the word begins and one where it ends."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seqloom.text.special import SPECIALS

EMPTY = 0  # after the end of a word
FIRST_BYTE = 1
WORD_BEGINS, WORD_ENDS = 257, 258
FIRST_SPECIAL = 259
CODES = FIRST_SPECIAL + len(SPECIALS)
"""How many codes there are."""


def spell(words: Sequence[str], max_length: int) -> NDArray[np.int16]:
    """[words, max_length]: the codes of each word, both marks included; longer words are cut before the last mark."""
    codes = np.full((len(words), max_length), EMPTY, np.int16)
    for row, word in zip(codes, words, strict=True):
        letters = np.frombuffer(word.encode("utf-8", "surrogatepass"), np.uint8)[: max_length - 2]
        row[0] = WORD_BEGINS
        row[1 : len(letters) + 1] = letters
        row[1 : len(letters) + 1] += FIRST_BYTE
        row[len(letters) + 1] = WORD_ENDS
    return codes


def spell_specials(max_length: int) -> NDArray[np.int16]:
    """[4, max_length]: the special symbols, which have no letters but a code of their own each."""
    codes = np.full((len(SPECIALS), max_length), EMPTY, np.int16)
    codes[:, 0] = WORD_BEGINS
    codes[:, 1] = FIRST_SPECIAL + np.arange(len(SPECIALS))
    codes[:, 2] = WORD_ENDS
    return codes
