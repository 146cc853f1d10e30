"""The tokeniser whose tokens are characters."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from seqloom.text.special import SPECIALS, UNK
from seqloom.text.tokenizer import Ids, VocabularyTokenizer
from seqloom.text.vocabulary import Vocabulary


class CharacterTokenizer(VocabularyTokenizer):
    """One token per character (Unicode code point), spaces and newlines too.

    Text of known characters comes back exactly. Encoding is one look-up in a table over code points.
    """

    kind = "characters"

    def __init__(self, vocabulary: Vocabulary, lowercase: bool = False) -> None:
        super().__init__(vocabulary, lowercase)
        known = np.array([ord(character) for character in vocabulary.ordinary], dtype=np.uint32)
        # One entry more than the highest known code point: all code points above it share that unknown.
        self._table = np.full(int(known.max(initial=0)) + 2, UNK, dtype=np.uint32)
        self._table[known] = np.arange(len(SPECIALS), len(vocabulary), dtype=np.uint32)

    @staticmethod
    def split(text: str) -> list[str]:
        return list(text)

    @staticmethod
    def join(pieces: Iterable[str]) -> str:
        return "".join(pieces)

    def encode(self, text: str) -> list[int]:
        return self._look_up(text).tolist()

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        return [self._look_up(text) for text in texts]

    def _look_up(self, text: str) -> Ids:
        code_points = np.frombuffer(self.prepare(text).encode("utf-32-le", "surrogatepass"), dtype="<u4")
        return self._table[np.minimum(code_points, len(self._table) - 1)]
