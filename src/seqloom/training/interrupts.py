"""Ctrl-C, SIGTERM and SIGHUP: finish the step, save, then leave."""

from __future__ import annotations

import shlex
import signal
import threading
from collections.abc import Sequence
from types import FrameType
from typing import Any, Self

from seqloom.errors import SeqloomError


class Interrupted(SeqloomError):
    """Training was told to stop; a checkpoint was saved. Exit code 130 after Ctrl-C, 143 after SIGTERM, 129 after
    SIGHUP."""

    def __init__(self, message: str, number: int) -> None:
        super().__init__(message)
        self.exit_code = 128 + number
        self.command: Sequence[str] = ()
        """What goes on from here, where anything does."""

    def __str__(self) -> str:
        goes_on = f"; go on with: {shlex.join(self.command)}" if self.command else ""
        return super().__str__() + goes_on


class Interrupts:
    """Inside this block the signals only raise a flag; a second Ctrl-C ends the program at once.

    SIGHUP comes when the terminal goes away; under nohup it is ignored, and stays so.
    """

    def __init__(self) -> None:
        self.number: int | None = None
        self._previous: dict[int, Any] = {}

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            hang_up = () if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN else (signal.SIGHUP,)
            for number in (signal.SIGINT, signal.SIGTERM, *hang_up):
                self._previous[number] = signal.signal(number, self._raised)
        return self

    def __exit__(self, *_: object) -> None:
        for number, handler in self._previous.items():
            signal.signal(number, handler)

    def _raised(self, number: int, frame: FrameType | None) -> None:
        if self.number is not None and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number
