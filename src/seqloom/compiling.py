"""Compiled loops: numba compiles them at their first call and keeps the result; the user is told when it does."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from numba import njit, types
from numba.core import cgutils, event
from numba.extending import intrinsic

from seqloom.progress import say

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile a function of numbers and arrays. It lets go of Python's lock, so that threads may share the work."""
    return cast(Function, njit(cache=True, nogil=True)(function))


def compiled_for(*signature: Any) -> Callable[[Function], Function]:
    """Compile a function for arguments of these types, to be called from Python a million times a second.

    The call goes straight to the compiled code: numba does not look at what it is given first, which may take 2 µs, and
    must be given just that. The function keeps Python's lock, since letting go of it takes longer than it is of use.
    """

    def compile(function: Function) -> Function:
        return cast(Function, njit(cache=True)(function).compile(signature))

    return compile


@intrinsic
def _pointer(_typing: Any, _address: Any) -> Any:
    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.inttoptr(arguments[0], cgutils.voidptr_t)

    return types.voidptr(types.int64), generate


pointer = cast(Callable[[int], Any], _pointer)
"""In compiled code: an address as a pointer, of which numba's `carray` makes an array."""


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
