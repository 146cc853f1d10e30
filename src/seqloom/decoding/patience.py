"""Searches go on as long as somebody waits for what they find."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

_waits: ContextVar[Callable[[], bool] | None] = ContextVar("waits", default=None)


class GivenUpError(Exception):
    """Nobody waits any more."""


@contextmanager
def while_waited_for(waits: Callable[[], bool]) -> Iterator[None]:
    """Searches in this block end with `GivenUpError` before the first step at which `waits` says no."""
    token = _waits.set(waits)
    try:
        yield
    finally:
        _waits.reset(token)


def check_patience() -> None:
    """Before a step of a search."""
    waits = _waits.get()
    if waits is not None and not waits():
        raise GivenUpError
