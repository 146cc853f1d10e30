"""Symbols that texts may hold besides words: a blank to be filled in, the name of a gap."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any, Self

import numpy as np

from seqloom.text.subwords import UnigramTokenizer
from seqloom.text.tokenizer import Ids, Tokenizer, distinct_strings, visible


class MarkedTokenizer(Tokenizer):
    """Another tokeniser whose texts may also hold marks, such as `[MASK]`, which are one token each.

    The ids of marks follow all others. Spaces around a mark belong to it: "a [MASK] c" and "a[MASK] c" are the same.
    """

    kind = "marked"

    def __init__(self, inner: Tokenizer, marks: Sequence[str]) -> None:
        self.inner, self.marks, self.lowercase = inner, list(marks), inner.lowercase
        self._ids = {mark: id for id, mark in enumerate(self.marks, start=inner.size)}
        self._split = re.compile(r"\s*(" + "|".join(map(re.escape, self.marks)) + ")")
        self._adds_a_space = inner.kind == UnigramTokenizer.kind

    @property
    def size(self) -> int:
        return self.inner.size + len(self.marks)

    def mark(self, name: str) -> int:
        """The id of a mark."""
        return self._ids[name]

    def encode(self, text: str) -> list[int]:
        return [id for place, part in enumerate(self._parts(text)) for id in self._of_part(part, place % 2 == 1)]

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        marked = [self._split.search(text) is not None for text in texts]
        plain = [text for text, has_marks in zip(texts, marked, strict=True) if not has_marks]
        found = iter(self.inner.encode_batch(plain))  # at once, which is faster
        return [
            np.array(self.encode(text), np.uint32) if has_marks else next(found)
            for text, has_marks in zip(texts, marked, strict=True)
        ]

    def _parts(self, text: str) -> list[str]:
        """Text, mark, text, mark, ..., text. A tokeniser that reads every text as if a space stood before it is not
        given the one after a mark."""
        first, *others = self._split.split(text)
        return [first, *(part.removeprefix(" ") for part in others)] if self._adds_a_space else [first, *others]

    def _of_part(self, part: str, mark: bool) -> list[int]:
        return [self._ids[part]] if mark else self.inner.encode(part) if part else []

    def pieces(self, text: str) -> list[str]:
        parts = self._parts(text)
        of_words = [self.inner.pieces(part) if part else [] for part in parts[::2]]
        of_marks = [[mark] for mark in parts[1::2]]
        between = [pieces for pair in zip(of_words, [*of_marks, []], strict=True) for pieces in pair]
        return [piece for pieces in between for piece in pieces]

    def tokens(self, ids: Iterable[int]) -> list[str]:
        return [self.marks[id - self.inner.size] if id >= self.inner.size else self.inner.tokens([id])[0] for id in ids]

    @staticmethod
    def join(pieces: Iterable[str]) -> str:
        return " ".join(pieces)

    def decode(self, ids: Iterable[int]) -> str:
        parts: list[str] = []
        for marked, group in groupby(visible(ids), lambda id: id >= self.inner.size):
            several = list(group)
            parts += self.tokens(several) if marked else [self.inner.decode(several)]
        if len(parts) == 1:
            return parts[0]
        return " ".join(part.strip() for part in parts if part.strip())

    def contents(self) -> dict[str, Any]:
        return {"inner": self.inner.to_json(), "marks": self.marks}

    @classmethod
    def from_contents(cls, contents: dict[str, Any]) -> Self:
        from seqloom.text.kinds import tokenizer_of  # which knows this class, too

        marks = distinct_strings(contents["marks"])
        if not marks or not all(mark == mark.strip() != "" for mark in marks):
            raise ValueError("a mark is empty, or has spaces around it")
        return cls(tokenizer_of(contents["inner"]), marks)
