"""Whether what a GPU does is being recorded, to be replayed: then it counts how long kernels take, not how long it
takes to start them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_recording = False


@contextmanager
def recording() -> Iterator[None]:
    """What networks compute in this block is recorded, or makes ready for that."""
    global _recording
    before, _recording = _recording, True
    try:
        yield
    finally:
        _recording = before


def is_recording() -> bool:
    """Whether that is so."""
    return _recording
