"""Random numbers that are the same every time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """A block whose random numbers follow from `seed`; those outside go on as if it had not been there."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        yield
