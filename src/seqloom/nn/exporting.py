"""Whether a network is being written down for an engine of others, which has kernels of its own."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

_exporting = False


@contextmanager
def exporting() -> Iterator[None]:
    """What networks compute in this block is written down, and must hold for any shape."""
    global _exporting
    before, _exporting = _exporting, True
    try:
        yield
    finally:
        _exporting = before


def is_exporting() -> bool:
    """Whether that is so. To torch's question of this name, its compiler says yes too, before 2.13."""
    return _exporting
