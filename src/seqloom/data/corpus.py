"""A corpus: one or several files, read in a stream of units of text."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Literal

from seqloom.data.corpora import FOLDER, natural_unit, resolve, wrapping
from seqloom.errors import DataError
from seqloom.files import checksum
from seqloom.text.reading import read_units

Unit = Literal["line", "paragraph", "file"]


@dataclass(frozen=True)
class Corpus:
    """Files and what counts as one unit of them; `start` and `stop` cut a part out, in characters."""

    paths: tuple[Path, ...]
    unit: Unit = "line"
    field: str = "text"
    start: int = 0
    stop: int | None = None

    @classmethod
    def open(cls, names: str | list[str], unit: Unit | Literal["auto"] = "auto", field: str = "text") -> Corpus:
        """Files by path, or a bundled corpus by name; `auto` is the unit that suits them (`natural_unit`)."""
        paths = tuple(resolve(name, "text") for name in ([names] if isinstance(names, str) else names))
        if not paths:
            raise DataError("no files given: name at least one")
        return cls(paths, natural_unit(paths) if unit == "auto" else unit, field)

    def __iter__(self) -> Iterator[str]:
        """The units whose first character lies between `start` and `stop`; a whole file is cut at a line's end."""
        position = 0
        for path in self.paths:
            for text in read_units(path, self.unit, self.field):
                begin, position = position, position + len(text) + 1  # the end of a unit counts as one character
                if self.unit == "file":
                    text = self._clip(text, begin)
                    if text:
                        yield text
                elif begin >= self.start and (self.stop is None or begin < self.stop):
                    yield text

    def _clip(self, text: str, begin: int) -> str:
        first = _line_start(text, self.start - begin)
        last = len(text) if self.stop is None else _line_start(text, self.stop - begin)
        return text[first:last]

    @cached_property
    def fingerprint(self) -> str:
        """Changes when a file's content, or how it is read, changes."""
        digests = [digest(path) for path in self.paths]
        parts = [self.unit, self.field, str(self.start), str(self.stop), *digests]
        return hashlib.sha256("\n".join(parts).encode()).hexdigest()

    def hold_out(self, fraction: float) -> tuple[Corpus, Corpus]:
        """Cut the last `fraction` of the text off: (training part, validation part)."""
        characters = _characters(self, tuple(map(_stamp, self.paths)))
        if not characters:
            raise DataError(f"{self} is empty: there is no text to learn from")
        cut = int(characters * (1 - fraction))
        return replace(self, stop=cut), replace(self, start=cut)

    @property
    def remark(self) -> str | None:
        """What to know before the lines of wrapped files are taken for what they are not."""
        found = wrapping(self.paths[0])
        if found is None or self.unit == "file" or self.paths[0].is_relative_to(FOLDER):
            return None
        wrapped = f"{self.paths[0]} is wrapped at {found.width} columns"
        if self.unit == "paragraph":
            return f"{wrapped}: read by paragraphs (data.unit=line reads lines)"
        how = "paragraph reads by paragraphs" if found.in_paragraphs else "file reads on over their ends"
        return f"{wrapped}, and its lines are read as texts of their own: data.unit={how}"

    def __str__(self) -> str:
        return ", ".join(str(path) for path in self.paths)


Stamp = tuple[Path, int, int]
"""A file with its size and time of change: while they stay the same, it is not read again to be hashed or counted."""


def _stamp(path: Path) -> Stamp:
    found = path.stat()
    return path, found.st_size, found.st_mtime_ns


def digest(path: Path) -> str:
    """The checksum of a file, which is read once while it stays the same."""
    return _digest(_stamp(path))


@lru_cache
def _digest(stamp: Stamp) -> str:
    return checksum(stamp[0])


@lru_cache
def _characters(corpus: Corpus, stamps: tuple[Stamp, ...]) -> int:  # noqa: ARG001 - part of the key
    """The length of a corpus in characters, the end of each unit counted as one."""
    return sum(len(text) + 1 for text in corpus)


def _line_start(text: str, position: int) -> int:
    """The first line start at or after `position`; the position itself when no line starts after it."""
    if position <= 0:
        return 0
    newline = text.find("\n", position - 1)
    return min(position, len(text)) if newline < 0 else newline + 1
