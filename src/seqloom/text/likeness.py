"""Words split in two by the likeness of their vectors."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

ROUNDS = 10  # of power iteration: a direction to split across need not be exact


def unit_vectors(vectors: NDArray[Any]) -> NDArray[np.float32]:
    """Vectors [words, size] with a length of 1; those of length 0 stay."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    return (vectors / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def halves(vectors: NDArray[np.float32], weights: NDArray[Any]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """The rows of two halves of vectors [words, size]: split across their first principal direction, where both sides
    weigh about as much. Of two rows or more each half has one at least; the same rows give the same halves."""
    order = np.argsort(vectors @ _principal(vectors, weights / weights.sum()), kind="stable")
    mass = np.cumsum(weights[order])
    cut = int(np.searchsorted(mass - weights[order] / 2, mass[-1] / 2, side="right"))  # where the middles of rows fall
    return order[:cut], order[cut:]


def _principal(vectors: NDArray[np.float32], shares: NDArray[Any]) -> NDArray[np.float32]:
    """The direction in which vectors, each with its share, differ most, of any length: power iteration from the one
    that differs most from the mean."""
    shares = shares.astype(np.float32)
    spread = (vectors - shares @ vectors) * np.sqrt(shares)[:, None]
    squares = np.einsum("ij,ij->i", spread, spread)
    spread /= max(float(squares.sum()) ** 0.5, 1e-30)  # so that no product grows, and few rounds cannot vanish
    direction: NDArray[np.float32] = spread[squares.argmax()]
    for _ in range(ROUNDS):
        direction = (spread @ direction) @ spread
    return direction
