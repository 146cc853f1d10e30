"""File events: whatever changes the disk below a folder, counted as it happens and disturbed at will."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from errno import EROFS
from pathlib import Path
from typing import Any

WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
PATHS = {  # of an audit event: its paths, each with the descriptor of the folder that it is relative to
    "os.rename": ((0, 2), (1, 3)),
    "os.remove": ((0, 1),),
    "os.mkdir": ((0, 2),),
    "os.rmdir": ((0, 1),),
    "os.chmod": ((0, 2),),
    "os.truncate": ((0, None),),
    "os.link": ((1, 3),),
    "os.symlink": ((1, 2),),
    "os.utime": ((0, 3),),
    "open": ((0, None),),
}
GROWS = {"open", "os.mkdir", "os.link", "os.symlink"}  # what a full disk refuses

Disturb = Callable[[str, int, str], None]
"""Called just before an event with its name, its number (from 1) and its path."""


def watch(folder: Path, disturb: Disturb) -> list[str]:
    """Disturb what changes the disk below a folder from now on, as long as this process lives. Gives the list of these
    events, which grows as they happen."""
    top, seen = str(folder.resolve()), []

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event not in PATHS or (event == "open" and not (arguments[2] or 0) & WRITES):
            return
        for place, base in PATHS[event]:
            path = _resolved(arguments[place], arguments[base] if base is not None else -1)
            if path == top or path.startswith(top + os.sep):
                seen.append(f"{event} {os.path.relpath(path, top)}")
                disturb(event, len(seen), path)
                return

    sys.addaudithook(hook)
    return seen


def nothing(event: str, number: int, path: str) -> None:
    """Disturb nothing."""


def kill_at(last: int) -> Disturb:
    """`kill -9` just before an event."""

    def disturb(event: str, number: int, path: str) -> None:
        if number == last:
            os.kill(os.getpid(), signal.SIGKILL)

    return disturb


def full_from(first: int, error: int) -> Disturb:
    """From an event on, nothing new can be written."""

    def disturb(event: str, number: int, path: str) -> None:
        if number >= first and event in GROWS:
            raise OSError(error, os.strerror(error), path)

    return disturb


def read_only(event: str, number: int, path: str) -> None:
    """Nothing can be changed."""
    raise OSError(EROFS, os.strerror(EROFS), path)


def _resolved(path: Any, base: int) -> str:
    if isinstance(path, int):
        return _target(path)
    name = os.fsdecode(path)
    # audit hooks say -1 for "no folder": the path is relative to the working directory
    return os.path.normpath(os.path.join(_target(base) if base >= 0 else os.getcwd(), name))  # noqa: PTH118, PTH109


def _target(descriptor: int) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - a path that may not be one of a file
    except OSError:
        return ""
