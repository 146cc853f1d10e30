"""Text that comes token by token: shown as soon as it cannot change any more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

from seqloom.text.tokenizer import visible


class Writer(Protocol):
    """What writes ids as text: a tokeniser, or one that knows more words."""

    def decode(self, ids: Iterable[int]) -> str:
        """The text of some ids."""

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each id as a piece a person can read."""

    def settled(self, ids: Sequence[int]) -> int:
        """How many of the first ids read the same whatever follows."""


class Unfolding:
    """The text that follows some tokens, as `Tokenizer.decode` writes it, while more tokens arrive.

    What one token reads like may depend on its neighbours: a character has several bytes, a mark holds on to the word
    before it. So a window of the last tokens is decoded, and not all of them again and again: from the last token on
    behind which the text is settled.
    """

    def __init__(self, tokenizer: Writer, before: Sequence[int] = ()) -> None:
        self.tokenizer = tokenizer
        self.window = visible(before)
        self._before = len(self.window)  # how many of the window were there before the first that is added
        self._shorten(tokenizer.settled(self.window))
        self.shown = tokenizer.decode(self.window)
        """The part of the window's text that was given out, or stood before."""

    def add(self, tokens: Iterable[int]) -> str:
        """What can be read after these tokens and could not before."""
        self.window += visible(tokens)
        return self._read(self.tokenizer.settled)

    def end(self) -> str:
        """What is left, when nothing more follows."""
        return self._read(len)

    def _read(self, settled: Callable[[list[int]], int]) -> str:
        ready = settled(self.window)
        if ready < max(1, self._before):
            return ""
        text = self.tokenizer.decode(self.window[:ready])
        if not text.startswith(self.shown):  # what came changes how the text before it is written: it stands alone then
            self.window, self.shown, self._before = self.window[self._before :], "", 0
            return self._read(settled)
        new, self.shown, self._before = text[len(self.shown) :], text, 0
        if self._shorten(ready):
            self.shown = self.tokenizer.decode(self.window[:1])
        return new

    def _shorten(self, ready: int) -> bool:
        """Keep the last token that is settled, for its neighbour to hold on to, and what comes after it."""
        begin = max(0, ready - 1)
        self.window, self._before = self.window[begin:], max(0, self._before - begin)
        return begin > 0
