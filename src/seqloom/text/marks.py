"""Symbols that texts may hold besides words: a blank to be filled in, the name of a gap."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import groupby
from typing import Any, Self

import numpy as np

from seqloom.text.tokenizer import Ids, Tokenizer, distinct_strings, visible


class MarkedTokenizer(Tokenizer):
    """Another tokeniser whose texts may also hold marks, such as `[MASK]`, which are one token each.

    The ids of marks follow all others. Spaces before a mark belong to it, as they belong to a word: "a [MASK] c" and
    "a[MASK] c" are the same, but where every character is a token. What follows a mark is read as in the midst of a
    text.
    """

    kind = "marked"

    def __init__(self, inner: Tokenizer, marks: Sequence[str]) -> None:
        self.inner, self.marks, self.lowercase = inner, list(marks), inner.lowercase
        self._ids = {mark: id for id, mark in enumerate(self.marks, start=inner.size)}
        spaces = "" if inner.kind == "characters" else r"\s*"
        self._split = re.compile(spaces + "(" + "|".join(map(re.escape, self.marks)) + ")")

    @property
    def size(self) -> int:
        return self.inner.size + len(self.marks)

    def mark(self, name: str) -> int:
        """The id of a mark."""
        return self._ids[name]

    @cached_property
    def _rest(self) -> Tokenizer:
        """What reads the text after a mark."""
        return self.inner.continuing()

    def encode_batch(self, texts: Sequence[str]) -> list[Ids]:
        marked = [self._split.search(text) is not None for text in texts]
        plain = [text for text, has_marks in zip(texts, marked, strict=True) if not has_marks]
        found = iter(self.inner.encode_batch(plain))  # at once, which is faster
        return [
            np.array(self.encode(text), np.uint32) if has_marks else next(found)
            for text, has_marks in zip(texts, marked, strict=True)
        ]

    def encode(self, text: str) -> list[int]:
        first, *others = self._split.split(text)  # text, mark, text, mark, ..., text
        ids = self.inner.encode(first) if first else []
        for mark, part in zip(others[::2], others[1::2], strict=True):
            ids += [self._ids[mark], *(self._rest.encode(part) if part else [])]
        return ids

    def pieces(self, text: str) -> list[str]:
        first, *others = self._split.split(text)
        pieces = self.inner.pieces(first) if first else []
        for mark, part in zip(others[::2], others[1::2], strict=True):
            pieces += [mark, *(self._rest.pieces(part) if part else [])]
        return pieces

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
