"""What a person sees while something takes its time: a bar on a terminal, plain lines elsewhere. All on stderr."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

Item = TypeVar("Item")
PAUSE = 5.0  # seconds between plain lines

_quiet = False  # of the whole process: threads have things to say too


def be_quiet(wanted: bool) -> None:
    """Whether nothing but results and errors is to be written from now on."""
    global _quiet
    _quiet = wanted


def say(message: str) -> None:
    """A line for the person who waits, unless that person wants none."""
    if not _quiet:
        sys.stderr.write(message + "\n")
        sys.stderr.flush()


def clock(seconds: float) -> str:
    """A time span as clocks show it: 0:42, 3:12, 2:05:00."""
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{seconds:02d}" if hours else f"{minutes}:{seconds:02d}"


def about(seconds: float) -> str:
    """A time span that nobody knows for sure: about 40 s, about 3 min."""
    if seconds < 60:
        return f"about {max(1, math.ceil(seconds / 10) * 10 if seconds > 10 else math.ceil(seconds))} s"
    minutes = math.ceil(seconds / 60)
    return f"about {minutes} min" if minutes < 120 else f"about {seconds / 3600:.1f} h"


class Reporter:
    """Where work tells how it goes; a kind of reporter says what it does with it."""

    after: float = 0.0
    """How many seconds are expected to follow what is under way: other models of a comparison."""

    def start(self, title: str, step: int, total: int, seconds: float = math.inf) -> None:
        """Work begins, or goes on, at `step`; it ends after so many seconds at the latest."""

    def advance(self, step: int, figures: str = "") -> None:
        """A step is done."""

    def say(self, message: str) -> None:
        """Something worth a line of its own."""

    def stop(self) -> None:
        """The work ended."""


class Silent(Reporter):
    """Says nothing: other processes of a group, and the Python interface when asked to be quiet."""


class Timed(Reporter):
    """Knows how long it will take: what is left by the pace so far, or by the clock where that ends it earlier."""

    def start(self, title: str, step: int, total: int, seconds: float = math.inf) -> None:
        """Look at the clock."""
        self.title, self.first, self.total, self.limit = title, step, total, seconds
        self.began = time.monotonic()

    def seconds_left(self, step: int) -> float:
        """By the steps that were made since the start."""
        spent = time.monotonic() - self.began
        return min(spent / max(1, step - self.first) * (self.total - step), max(0.0, self.limit - spent))

    def left(self, step: int) -> str:
        """The same for people, with what follows."""
        seconds = self.seconds_left(step)
        return f"{clock(seconds)} left" + (f", {clock(seconds + self.after)} for all" if self.after else "")


class Lines(Timed):
    """Plain lines, one every few seconds: for logs and pipes."""

    _said = -math.inf

    def start(self, title: str, step: int, total: int, seconds: float = math.inf) -> None:
        """Say what begins."""
        super().start(title, step, total, seconds)
        limit = f", {clock(seconds)} at most" if math.isfinite(seconds) else ""
        self.say(f"{title}: {total} steps{limit}" + (f", going on at {step}" if step else ""))

    def advance(self, step: int, figures: str = "") -> None:
        """Say where the work stands, if the last time was a while ago."""
        now = time.monotonic()
        if now - self._said >= PAUSE or step >= self.total:
            self._said = now
            self.say(f"step {step}/{self.total}  {figures}  {self.left(step)}")

    def say(self, message: str) -> None:
        """One line."""
        say(message)


class LateLines(Lines):
    """Plain lines for what is mostly done in a moment: the first one comes when it was not."""

    def start(self, title: str, step: int, total: int, seconds: float = math.inf) -> None:
        """Say nothing yet."""
        Timed.start(self, title, step, total, seconds)
        self._said = self.began

    def advance(self, step: int, figures: str = "") -> None:
        """Say where the work stands, if the last time was a while ago."""
        now = time.monotonic()
        if now - self._said >= PAUSE and step < self.total:
            self._said = now
            self.say(f"{self.title}: {step:,} of {self.total:,}, {self.left(step)}")


class Bar(Timed):
    """A progress bar with speed, loss and the time left; one after the other when several models are trained."""

    passes = False
    """Whether the bar goes away when the work is done."""
    _progress: Any = None

    def __init__(self) -> None:
        from rich.console import Console  # a tenth of a second, and most verbs show no bar

        self._console = Console(stderr=True)

    def start(self, title: str, step: int, total: int, seconds: float = math.inf) -> None:
        """Draw the bar."""
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn

        super().start(title, step, total, seconds)
        texts = (TextColumn(f"{{task.fields[{name}]}}", markup=False) for name in ("count", "figures", "left"))
        columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), BarColumn(bar_width=24), *texts)
        # What a verb prints is not to pass through a console that writes to stderr.
        self._progress = Progress(*columns, console=self._console, transient=self.passes, redirect_stdout=False)
        self._task = self._progress.add_task(title, total=1.0, count="", figures="", left="")
        self.advance(step)
        self._progress.start()

    def advance(self, step: int, figures: str = "") -> None:
        """Move the bar, by the steps or by the clock, whichever is ahead."""
        done = max(step / self.total, (time.monotonic() - self.began) / max(1e-9, self.limit))
        left = self.left(step) if step > self.first else ""
        self._progress.update(self._task, completed=done, count=f"{step:,}/{self.total:,}", figures=figures, left=left)

    def say(self, message: str) -> None:
        """A line above the bar, if there is one."""
        self._console.print(message, highlight=False, markup=False)

    def stop(self) -> None:
        """Leave the bar as it stands."""
        if self._progress:
            self._progress.stop()


class PassingBar(Bar):
    """A bar that leaves nothing behind."""

    passes = True


def reporter() -> Reporter:
    """For work whose course is of interest afterwards, as training is: a bar on a terminal, lines elsewhere."""
    if _quiet:
        return Silent()
    return Bar() if sys.stderr.isatty() else Lines()


def passing_reporter() -> Reporter:
    """For work of which nobody will ask how it went, such as decoding."""
    if _quiet:
        return Silent()
    return PassingBar() if sys.stderr.isatty() else LateLines()


_watching: ContextVar[Reporter] = ContextVar("watching", default=Silent())  # noqa: B039 - it has nothing that changes


@contextmanager
def watching(reporter: Reporter) -> Iterator[None]:
    """Inside this block, what is `watched` is shown."""
    before = _watching.set(reporter)
    try:
        yield
    finally:
        _watching.reset(before)
        reporter.stop()  # what ended in an error has left its bar


def remark(message: str) -> None:
    """A line for somebody who is `watching`."""
    _watching.get().say(message)


def watched(items: Iterable[Item], title: str, total: int, size: Callable[[Item], int] = lambda _: 1) -> Iterator[Item]:
    """The items as they are. Somebody who is `watching` sees how much is done, of `total`, each item being so much.

    What is watched inside of it is a part of it, and not shown; nor is a loop that has nothing to count.
    """
    shown = _watching.get()
    if isinstance(shown, Silent) or total < 2:
        yield from items
        return
    _watching.set(Silent())
    shown.start(title, 0, total)
    done = 0
    try:
        for item in items:
            yield item
            done += size(item)
            shown.advance(min(done, total))
    finally:
        shown.stop()
        _watching.set(shown)
