"""Drawing units that are on or off: most of what sampling does besides products of matrices."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.compiling import compiled

KEYS = 2**63 - 1


def bernoulli(chances: Tensor) -> Tensor:
    """1 with the given chance, else 0.

    On a CPU, torch draws uniform numbers one after another, which takes longer than all else that is done with them.
    Here they are the hashes of the units' numbers under a key, which torch draws: what follows from torch's seed, or
    from its state in a checkpoint, follows from them still.
    """
    if chances.device.type != "cpu" or chances.dtype != torch.float32:
        return torch.rand_like(chances).lt_(chances)
    given = chances.detach().contiguous()
    drawn = torch.empty_like(given)
    key = int(torch.empty((), dtype=torch.int64).random_(KEYS))
    draw(given.view(-1).numpy(), drawn.view(-1).numpy(), np.uint32(key & 0xFFFFFFFF), np.uint32(key >> 31))
    return drawn


@compiled
def draw(chances: NDArray[np.float32], drawn: NDArray[np.float32], first: np.uint32, second: np.uint32) -> None:
    """Compare each chance with 24 bits of the hash of its number, by one half of the key before and one within.

    The hash is lowbias32 (Wellons 2018), two rounds of multiplying and mixing high bits into low ones; on 32-bit
    numbers, eight are hashed at once.
    """
    for unit in range(len(chances)):
        number = np.uint32(unit) * np.uint32(0x9E3779B9) + first
        number = np.uint32(number ^ (number >> np.uint32(16))) * np.uint32(0x7FEB352D)
        number = np.uint32(np.uint32(number) ^ second)
        number = np.uint32(number ^ (number >> np.uint32(15))) * np.uint32(0x846CA68B)
        number = np.uint32(number)
        number = np.uint32(number ^ (number >> np.uint32(16)))
        uniform = np.float32(np.int32(number >> np.uint32(8))) * np.float32(2.0**-24)
        drawn[unit] = np.float32(uniform < chances[unit])
