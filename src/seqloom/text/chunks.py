"""Long streams in pieces that fit into memory."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

T = TypeVar("T")


def in_chunks(items: Iterable[T], length: Callable[[T], int], limit: int) -> Iterator[list[T]]:
    """The items some at a time, as many as are `limit` characters long together; each end counts as one."""
    chunk: list[T] = []
    characters = 0
    for item in items:
        chunk.append(item)
        characters += length(item) + 1
        if characters >= limit:
            yield chunk
            chunk, characters = [], 0
    if chunk:
        yield chunk
