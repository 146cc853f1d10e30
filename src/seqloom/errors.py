"""Errors written for the person who will read them.

The command line prints the message of a `SeqloomError`, without a traceback, and exits with its `exit_code`:
2 when the user's input or usage is at fault, 1 when the work itself failed.
"""

from __future__ import annotations

import difflib
import reprlib
from collections.abc import Iterable

LONGEST_QUOTE = 200  # characters


class SeqloomError(Exception):
    """Something failed that is nobody's mistake: a full disk, a loss that became NaN."""

    exit_code = 1


class UserError(SeqloomError):
    """The input or the usage is wrong. Say what, where (file, line, key) and what to do."""

    exit_code = 2


class ConfigError(UserError):
    """A configuration has an unknown key or a value out of range."""


class DataError(UserError):
    """A corpus, a pair of files or an image cannot be used as it is."""

    def located(self, where: object) -> DataError:
        """The same error with the name of the corpus before it, unless it names a file of it already."""
        begins_with_file = str(self).partition(", line ")[0] in str(where)
        return self if begins_with_file else DataError(f"{where}: {self}")


class CheckpointError(UserError):
    """A run folder or a checkpoint is missing, damaged or of another model."""


class TrainingError(SeqloomError):
    """Training cannot go on: the loss is not finite, or it exploded."""


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for a misspelt name: ` (did you mean 'lstm'?)`, or the list of what is known when nothing is close."""
    names = sorted(known)
    close = difflib.get_close_matches(name, names, n=1, cutoff=0.6)
    if close:
        return f" (did you mean {close[0]!r}?)"
    return f" (known: {', '.join(names)})" if names else ""


def shown(value: object) -> str:
    """A value as a message shows it: the beginning of what is long, for a file may hold values of any size."""
    return _REPR.repr(value)


def quoted(text: str) -> str:
    """A text as a message repeats it: the beginning of a long one."""
    return text if len(text) <= LONGEST_QUOTE else text[:LONGEST_QUOTE] + "…"


_REPR = reprlib.Repr()
_REPR.maxlevel, _REPR.maxlist, _REPR.maxdict = 2, 12, 12
_REPR.maxstring = _REPR.maxother = 80
