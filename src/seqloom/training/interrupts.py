"""Ctrl-C and SIGTERM: finish the step, save, then leave."""

from __future__ import annotations

import signal
import threading
from types import FrameType
from typing import Any, Self

from seqloom.errors import SeqloomError


class Interrupted(SeqloomError):
    """Training was told to stop; a checkpoint was saved. Exit code 130 after Ctrl-C, 143 after SIGTERM."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number


class Interrupts:
    """Inside this block the two signals only raise a flag; a second Ctrl-C ends the program at once."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGINT, signal.SIGTERM):
                self._previous[number] = signal.signal(number, self._raised)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _raised(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number
