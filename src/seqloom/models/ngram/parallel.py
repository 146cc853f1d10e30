"""Work on several cores, in threads: numpy and the compiled kernels let go of Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def each(work: Callable[[T], None], parts: Iterable[T]) -> None:
    """Do the work on every part; whoever is free takes the next one."""
    parts = list(parts)
    threads = min(len(parts), cores())
    if threads <= 1:
        for part in parts:
            work(part)
        return
    with ThreadPoolExecutor(threads) as pool:
        list(pool.map(work, parts))


def blocks(whole: slice, size: int = 1 << 18) -> Iterator[slice]:
    """A range of nodes in parts of at most `size`."""
    for start in range(whole.start, whole.stop, size):
        yield slice(start, min(start + size, whole.stop))


def cores() -> int:
    """How many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
