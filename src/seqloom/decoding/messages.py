"""How a search learns of results on a GPU without making processor and GPU wait for each other."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BEHIND = 1  # steps: the GPU computes the next one while the processor looks at the results of this one
FEW = 32  # rows whose step takes a GPU no longer than one row's


class Message:
    """Numbers on their way to the processor."""

    def __init__(self, numbers: Tensor) -> None:
        self._numbers = numbers.to("cpu", non_blocking=True)
        self._sent: torch.cuda.Event | None = None
        if numbers.is_cuda:
            self._sent = torch.cuda.Event()
            self._sent.record()

    def read(self) -> NDArray[np.generic[Any]]:
        """The numbers, once they have arrived."""
        if self._sent is not None:
            self._sent.synchronize()
        return self._numbers.numpy()


def steps_behind(device: torch.device) -> int:
    """How many steps the processor may be behind. If the model runs on the processor itself, none: the step ahead might
    turn out not to be needed, and would have gained nothing."""
    return BEHIND if device.type == "cuda" else 0


def worth_dropping(rows: int, going: int, device: torch.device) -> bool:
    """Whether to drop the rows that have ended, while `going` of them go on.

    On the processor always: every row costs time. On a GPU a few rows more cost nothing, but each number of rows needs
    its own recording of the step (see `graphs`): there it pays once a quarter has ended.
    """
    return going < rows if device.type == "cpu" else rows - going >= rows / 4


def worth_keeping(rows: int, going: int, device: torch.device) -> int:
    """How many of some rows to keep while `going` of them go on, where steps are recorded with everything in them.

    On a GPU, 2^k or 3 · 2^k, so that batches that end in their own ways have the same few recordings, and none are made
    for what is small anyway: then some that ended are kept too. Each such number is at most 3/4 of the next.
    """
    if device.type == "cpu":
        return going
    room = FEW
    while room < going:
        room = room * 4 // 3 if room % 3 == 0 else room * 3 // 2
    return room if room <= rows * 3 / 4 else rows
