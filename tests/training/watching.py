"""Processes that train: watched, and ended in the middle."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from seqloom.training import read_metrics


@dataclass
class Training:
    """A process that is running `seqloom ...`."""

    process: int
    nursery: subprocess.Popen[str]
    log: Path
    code: int | None = None

    def signal(self, number: int) -> None:
        """Send a signal; a process that has just ended does not mind."""
        with suppress(ProcessLookupError):
            os.kill(self.process, number)

    def wait(self) -> int:
        """The exit code; negative when a signal ended it."""
        if self.code is None:
            self.code = int(self.nursery.stdout.readline())
        return self.code

    @property
    def ended(self) -> bool:
        """Whether it ended, without waiting for it."""
        state = Path(f"/proc/{self.process}/stat")
        return not state.exists() or state.read_text().rpartition(")")[2].split()[0] == "Z"

    @property
    def output(self) -> str:
        return self.log.read_text(encoding="utf-8")


def until(happened: Callable[[], Any], seconds: float = 60.0) -> None:
    """Look again and again, without pause: moments inside a save are short."""
    limit = time.monotonic() + seconds
    while not happened():
        if time.monotonic() > limit:
            raise AssertionError("it did not happen")


def same_result(one: Path, other: Path) -> bool:
    """The same figures, times aside, and the same weights bit for bit."""
    weights = (one / "model.safetensors").read_bytes() == (other / "model.safetensors").read_bytes()
    return figures(one) == figures(other) and weights


def figures(folder: Path) -> list[dict[str, Any]]:
    timing = {"seconds", "tokens_per_second"}
    return [{key: value for key, value in entry.items() if key not in timing} for entry in read_metrics(folder)]
