"""Images as sequences of small squares, and back."""

from __future__ import annotations

from torch import Tensor


def patches(images: Tensor, size: int) -> Tensor:
    """[batch, channels, height, width] -> [batch, patches, channels · size · size]: row after row, a patch's pixels by
    channel, from the top, from the left."""
    cut = images.unflatten(3, (-1, size)).unflatten(2, (-1, size))  # [batch, channels, rows, size, columns, size]
    return cut.permute(0, 2, 4, 1, 3, 5).flatten(3).flatten(1, 2)


def joined(squares: Tensor, rows: int, columns: int) -> Tensor:
    """The images [batch, channels, height, width] whose patches, in that order, are squares [batch, rows · columns,
    channels, size, size]."""
    return squares.unflatten(1, (rows, columns)).permute(0, 3, 1, 4, 2, 5).flatten(4).flatten(2, 3)
