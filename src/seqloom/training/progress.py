"""What a person sees while training runs: a bar on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn


class Reporter:
    """Where training tells how it goes; a kind of reporter says what it does with it."""

    def start(self, title: str, step: int, total: int) -> None:
        """Training begins, or goes on, at `step`."""

    def advance(self, step: int, figures: str) -> None:
        """A step is done."""

    def say(self, message: str) -> None:
        """Something worth a line of its own."""

    def stop(self) -> None:
        """Training ended."""


class Silent(Reporter):
    """Says nothing: other processes of a group, and the Python interface when asked to be quiet."""


class Lines(Reporter):
    """Plain lines, one every few seconds: for logs and pipes."""

    def __init__(self, seconds: float = 5.0) -> None:
        self.seconds = seconds
        self._said = 0.0

    def start(self, title: str, step: int, total: int) -> None:
        """Say what begins."""
        self._total, self._first, self._began = total, step, time.monotonic()
        self.say(f"{title}: {total} steps" + (f", going on at {step}" if step else ""))

    def advance(self, step: int, figures: str) -> None:
        """Say where training stands, if the last time was a while ago."""
        now = time.monotonic()
        if now - self._said < self.seconds and step < self._total:
            return
        self._said = now
        left = (now - self._began) / max(1, step - self._first) * (self._total - step)
        self.say(f"step {step}/{self._total}  {figures}  {_clock(left)} left")

    def say(self, message: str) -> None:
        """One line."""
        sys.stderr.write(message + "\n")
        sys.stderr.flush()


class Bar(Reporter):
    """A progress bar with speed, loss and the time left; one after the other when several models are trained."""

    def __init__(self) -> None:
        self._console = Console(stderr=True)

    def start(self, title: str, step: int, total: int) -> None:
        """Draw the bar."""
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeRemainingColumn(),
        )
        self._progress = Progress(*columns, console=self._console)
        self._task = self._progress.add_task(title, total=total, completed=step, figures="")
        self._progress.start()

    def advance(self, step: int, figures: str) -> None:
        """Move the bar."""
        self._progress.update(self._task, completed=step, figures=figures)

    def say(self, message: str) -> None:
        """A line above the bar, if there is one."""
        self._console.print(message, highlight=False, markup=False)

    def stop(self) -> None:
        """Leave the bar as it stands."""
        self._progress.stop()


def reporter() -> Reporter:
    """A bar on a terminal, lines elsewhere."""
    return Bar() if sys.stderr.isatty() else Lines()


def _clock(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"
