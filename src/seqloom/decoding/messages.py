"""What a search hears from the device that its model runs on, without making either wait for the other."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

BEHIND = 1  # steps: a GPU goes on with the next while the processor looks at this one


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
    """How many steps a search looks back. On the processor none: it would only do work that nobody asks for."""
    return BEHIND if device.type == "cuda" else 0


def worth_dropping(rows: int, going: int, device: torch.device) -> bool:
    """Whether to leave out the rows that have ended, as the others go on.

    On a GPU other many rows need another recording of the step, and a few more cost nothing: there a quarter must be
    done.
    """
    return going < rows if device.type == "cpu" else rows - going >= rows / 4
