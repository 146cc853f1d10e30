"""What a network is computed for, where its layers do otherwise for it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class Occasion:
    """`with occasion():` what is computed in this block is for it, and `occasion.now` is True."""

    def __init__(self) -> None:
        self.now = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        before, self.now = self.now, True
        try:
            yield
        finally:
            self.now = before


exporting = Occasion()
"""A network is written down for an engine of others, which has kernels of its own, and for any shape.

Before 2.13, torch answers that it exports while it compiles."""

recording = Occasion()
"""What a GPU does is recorded, or made ready for that, to be replayed: it counts how long kernels take, not how long it
takes to start them."""
