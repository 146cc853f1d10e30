"""Compiled loops: numba compiles them at their first call and keeps the result; the user is told when it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar, cast

from numba import njit
from numba.core import event

from seqloom.progress import say

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile a function of numbers and arrays. It lets go of Python's lock, so that threads may share the work."""
    return cast(Function, njit(cache=True, nogil=True)(function))


class _Announcement(event.Listener):
    """Says once in the life of a process that seqloom's loops are being compiled."""

    said = False

    def on_start(self, event: event.Event) -> None:
        function = event.data["dispatcher"].py_func
        if not self.said and function.__module__.startswith("seqloom."):
            self.said = True
            say("compiling inner loops: a few seconds, this once")

    def on_end(self, event: event.Event) -> None:
        """Nothing to say."""


event.register("numba:compile", _Announcement())
