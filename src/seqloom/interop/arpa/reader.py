"""Reading an ARPA file from top to bottom, and saying which line is wrong, and why."""

from __future__ import annotations

import codecs
import math
import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, NoReturn

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import DataError, quoted
from seqloom.interop.arpa.lines import Ngrams, Parsed, natural
from seqloom.text.reading import raw_lines

BLOCK = 1 << 15  # lines worked on at a time
LONGEST_LINE = 1 << 20  # bytes; n-grams take some hundred
PREAMBLE = 10_000  # lines that may stand before \data\
COUNT = re.compile(rb"ngram\s+(\d{1,18})\s*=\s*(\d{1,18})")
NOISE = 1e-6  # by which a log-probability may be positive, having been rounded
CUT_SHORT = "the file ends before \\end\\: it was cut short; copy or export it again"

Parse = Callable[[Sequence[bytes], int], Parsed]
"""As `lines.parse`, with its words."""


class Block(NamedTuple):
    """Some n-grams of one order, in the order of the file."""

    ngrams: Ngrams
    log_probs: NDArray[np.float32]
    backoffs: NDArray[np.float32]
    numbers: Sequence[int]
    """Of the lines where they stand."""


class ArpaReader:
    """Takes the parts of a file in the order they stand there: counts, a section for each order, the end."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lines = raw_lines(path, LONGEST_LINE)
        self._number = 0  # of lines read
        self._line = b""  # the last one of them, unless it is of a section
        self.counts = self._read_counts()
        """How many n-grams of each order the file announces."""
        self.words: defaultdict[bytes, int] = defaultdict()
        """The words and their places among the 1-grams: a new word gets the next one."""
        self.words.default_factory = self.words.__len__

    def section(self, order: int, parse: Parse) -> Iterator[Block]:
        """All n-grams of one order."""
        self._expect(f"\\{order}-grams:", order - 1)
        left = self.counts[order - 1]
        while left:
            lines = list(islice(self._lines, min(left, BLOCK)))
            first = self._number + 1
            self._number += len(lines)
            if len(lines) < min(left, BLOCK) and not any(line.startswith(b"\\") for line in lines):
                raise self.error(CUT_SHORT)
            try:
                ngrams, log_probs, backoffs = parse(lines, order)
                self._check(order, log_probs, backoffs)
            except (ValueError, KeyError):
                self._blame(lines, first, order, left)
            numbers: Sequence[int] = range(first, first + len(lines))
            if len(ngrams) < len(lines):
                numbers = [number for number, line in zip(numbers, lines, strict=True) if line.strip()]
            yield Block(ngrams, natural(np.minimum(log_probs, 0.0)), natural(backoffs), numbers)
            left -= len(ngrams)
        self._advance()

    def end(self) -> None:
        """Nothing follows the last section but `\\end\\`."""
        self._expect("\\end\\", len(self.counts))
        if self._advance():
            raise self.error(f"{self._shown()} follows \\end\\, which should be the last line")

    def error(self, message: str, number: int | None = None) -> DataError:
        """What is wrong with a line, by default the last one read."""
        return DataError(f"{self.path}, line {number or self._number}: {message}")

    # ---------------------------------------------------------------------------------------------------- lines

    def _advance(self) -> bytes:
        """The next line that is not blank; empty at the end of the file."""
        self._line = b""
        for line in self._lines:
            self._number += 1
            self._line = line.strip()
            if self._line:
                break
        return self._line

    def _read_counts(self) -> list[int]:
        while self._advance().removeprefix(codecs.BOM_UTF8) != b"\\data\\":
            if not self._line or self._number > PREAMBLE:
                raise self.error("no line up to here reads \\data\\: it is not an ARPA file")
        counts: list[int] = []
        while match := COUNT.fullmatch(self._advance()):
            if int(match[1]) != len(counts) + 1:
                raise self.error(f"{self._shown()} stands where ngram {len(counts) + 1}=... should")
            counts.append(int(match[2]))
        if not counts:
            raise self.error(f"{self._shown()} follows \\data\\, where ngram 1=... should")
        return counts

    def _expect(self, mark: str, before: int) -> None:
        """The line must be the one that ends the section of order `before`."""
        if self._line == mark.encode():
            return
        if not self._line:
            raise self.error(CUT_SHORT)
        if before and not self._line.startswith(b"\\"):
            announced = self.counts[before - 1]
            raise self.error(f"there are more {before}-grams than the {announced:,} that \\data\\ announces")
        raise self.error(f"{self._shown()} stands where {mark} should")

    def _shown(self) -> str:
        return _text(self._line[:60]) if self._line else "the end of the file"

    # ------------------------------------------------------------------------------------------------- mistakes

    def _check(self, order: int, log_probs: NDArray[np.float64], backoffs: NDArray[np.float64]) -> None:
        """The numbers must be what they stand for. (No comparison with NaN is true.)"""
        if not (log_probs <= NOISE).all() or not (backoffs < math.inf).all():
            raise ValueError
        if order == len(self.counts) and backoffs.any():
            raise ValueError

    def _blame(self, lines: list[bytes], first: int, order: int, left: int) -> NoReturn:
        """Say which line is wrong, and why."""
        for number, line in enumerate(lines, first):
            if line.startswith(b"\\"):
                announced = self.counts[order - 1]
                raise self.error(
                    f"\\data\\ announces {announced:,} {order}-grams, and here are {announced - left:,}", number
                )
            if fields := line.split():
                left -= 1
                if complaint := self._complaint(order, *fields):
                    raise self.error(complaint if line.endswith(b"\n") else CUT_SHORT, number)
        raise AssertionError("lines were refused, and none of them is wrong")

    def _complaint(self, order: int, log_prob: bytes, *words: bytes) -> str | None:
        if not _is_number(log_prob):
            return f"{_text(log_prob)} is not a log-probability"
        if float(log_prob) > NOISE:
            return f"the log-probability {_text(log_prob)} is positive, which no logarithm of a probability is"
        if len(words) < order:
            return f"here should be {order} words, and there are {len(words)}"
        *rest, last = words[order:] or [b"0"]
        if rest or not _is_number(last):
            return f"here should be {order} words and no more than a back-off weight: {_text(b' '.join(words))}"
        if order == len(self.counts) and float(last):
            return f"the longest n-grams have no back-off weight, and this one has {_text(last)}"
        unknown = [word for word in words[:order] if word not in self.words]
        if unknown and order > 1:
            return f"the word {_text(unknown[0])} is not among the 1-grams"
        return None


def _text(field: bytes) -> str:
    return quoted(field.decode("utf-8", "backslashreplace"))


def _is_number(field: bytes) -> bool:
    try:
        return float(field) < math.inf  # NaN is not
    except ValueError:
        return False
