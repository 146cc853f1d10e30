"""Lines that belong together: how they are joined, and how one sees that a text was broken into lines to fit a page."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

import regex

from seqloom.text.words import UNSPACED

LOOKED_AT = 5000  # lines of a file
LEAST_BREAKS = 10
NARROWEST = 40  # columns: verse is narrower, five or seven Chinese characters twice
MOST_IN_PARAGRAPH = 100  # lines, in the mean: with fewer blank lines there are no paragraphs to read
FIRST_IDEOGRAPH = "\u2e80"  # no character before it is one, which is known at a glance
ENDS_OF_SENTENCES = ".!?。！？"

_UNSPACED = regex.compile(f"[{UNSPACED}]")


def joined(lines: Iterable[str]) -> str:
    """Lines as one: a space between two of them, and none where Chinese or Japanese goes on."""
    parts: list[str] = []
    last = ""
    for line in lines:
        if last and line and _apart(last, line[0]):
            parts.append(" ")
        parts.append(line)
        last = line[-1:] or last
    return "".join(parts)


def _apart(last: str, first: str) -> bool:
    """Whether a space belongs between two characters: none beside an ideograph, unless the other is of a word that is
    written with spaces. So a quotation mark or a dash stays with its ideograph."""
    if max(last, first) < FIRST_IDEOGRAPH:
        return True
    unspaced = [bool(_UNSPACED.match(sign)) for sign in (last, first)]
    words = [sign.isalnum() and not is_unspaced for sign, is_unspaced in zip((last, first), unspaced, strict=True)]
    return not any(unspaced) or any(words)


class Wrapping(NamedTuple):
    """How a text was wrapped."""

    width: int
    """In columns."""
    in_paragraphs: bool
    """Whether blank lines say where a paragraph ends."""

    @classmethod
    def of(cls, lines: Sequence[str]) -> Wrapping | None:
        """How these lines of a text were wrapped; None where they end for another reason.

        Whoever wraps a text ends a line where the next word would be too long for it, in the middle of a sentence
        mostly. So this is asked of every break inside a paragraph, and in a wrapped text it is true of three in five.
        The width is what 95 % of the lines that are broken keep to. Verse and dialogue end their lines early, sentences
        and whole paragraphs of one line each at their own ends, and lists are narrow.
        """
        trimmed = [line.rstrip() for line in lines]
        breaks = [(line, after.split()[0]) for line, after in pairwise(trimmed) if line and after]
        if len(breaks) < LEAST_BREAKS:
            return None
        widths = sorted(columns(line) for line, _ in breaks)
        width = widths[int(0.95 * len(widths))]
        wraps = sum(
            columns(line) + 1 + _needed(word) > width and line[-1] not in ENDS_OF_SENTENCES for line, word in breaks
        )
        if width < NARROWEST or 5 * wraps < 3 * len(breaks):
            return None
        paragraphs = sum(bool(line) and not before for before, line in pairwise(["", *trimmed]))
        return cls(width, len(breaks) <= MOST_IN_PARAGRAPH * paragraphs)


def columns(text: str) -> int:
    """How wide a text is on a terminal: an ideograph takes two columns."""
    if text.isascii():
        return len(text)
    return sum(2 if unicodedata.east_asian_width(sign) in "WF" else 1 for sign in text)


def _needed(word: str) -> int:
    """The columns that the first word of a line would need on the line before; of Chinese, its first character."""
    return columns(word[0] if _UNSPACED.match(word) else word)
