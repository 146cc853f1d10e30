"""Processes for the price of a fork: a server has imported everything and run nothing, and forks a child for each call.

A child may be killed, may crash and may hang; whoever asked hears how it ended. It runs one function of `actions.py`.
"""

from __future__ import annotations

import gc
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, Literal, Self

from seqloom.errors import SeqloomError

PATIENCE = 60.0  # seconds after which a child hangs; the slowest takes three

Ending = Literal["done", "refused", "traceback", "crash", "hang"]


@dataclass(frozen=True)
class Outcome:
    """How a call ended."""

    ending: Ending
    value: Any = None
    """What the function returned, the message of a `SeqloomError`, what became of a traceback, or the exit status:
    negative when a signal ended the child."""
    said: str = ""
    """All that the child printed."""


@dataclass
class Child:
    """A process that is running a function."""

    process: int
    server: Server

    def signal(self, number: int) -> None:
        """Send a signal; a child that has just ended does not mind."""
        with suppress(ProcessLookupError):
            os.kill(self.process, number)

    @property
    def alive(self) -> bool:
        """Whether it has not ended yet."""
        return Path(f"/proc/{self.process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"

    def end(self) -> Outcome:
        """Wait for its end."""
        return Outcome(*self.server.ask("end", self.process))


class Server:
    """The process that forks."""

    def __init__(self) -> None:
        environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        self._process = subprocess.Popen(
            [sys.executable, "-c", "import forks; forks.serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.stdin.close()
        self._process.wait()

    def begin(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Child:
        """Start a child that calls a function; all that goes in and out is JSON."""
        return Child(self.ask("begin", function.__name__, arguments, options), self)

    def call(self, function: Callable[..., Any], *arguments: Any, **options: Any) -> Outcome:
        """Call a function in a child and wait for its end."""
        return self.begin(function, *arguments, **options).end()

    def ask(self, *request: Any) -> Any:
        """Send the server a request and wait for its answer."""
        self._process.stdin.write(json.dumps(request, default=str) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())


# ----------------------------------------------------------------------------------------- what the server process does


def serve() -> None:
    """Fork and wait as asked on standard input, until it is closed."""
    actions = import_module("actions")
    actions.prepare()
    gc.freeze()  # else the first collection in each child would copy all of it
    children: dict[int, tuple[int, Any]] = {}  # the end of a pipe to read, and a file with what was printed

    def begin(name: str, arguments: list[Any], options: dict[str, Any]) -> int:
        printed = tempfile.TemporaryFile()  # noqa: SIM115 - open until the child has ended
        reading, writing = os.pipe()
        child = os.fork()
        if child == 0:
            for number in (1, 2):
                os.dup2(printed.fileno(), number)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            _answer(writing, lambda: getattr(actions, name)(*arguments, **options))
        os.close(writing)
        children[child] = reading, printed
        return child

    def end(child: int) -> tuple[Ending, Any, str]:
        reading, printed = children.pop(child)
        answer, hangs = _read(reading)
        if hangs:
            os.kill(child, signal.SIGKILL)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        with printed:
            printed.seek(0)
            said = printed.read().decode(errors="replace")
        if hangs:
            return "hang", None, said
        ending, value = json.loads(answer) if answer and not status else ("crash", status)
        return ending, value, said

    for line in sys.stdin:
        request, *arguments = json.loads(line)
        sys.stdout.write(json.dumps({"begin": begin, "end": end}[request](*arguments)) + "\n")
        sys.stdout.flush()


def _answer(writing: int, work: Callable[[], Any]) -> None:
    """Do the work of a child, say how it ended, and leave without what Python does at its end."""
    try:
        answer: tuple[Ending, Any] = "done", work()
    except SeqloomError as error:
        answer = "refused", str(error)
    except BaseException as error:  # whatever it is, the test shall hear of it
        answer = "traceback", _short(error)
    sys.stdout.flush()
    sys.stderr.flush()
    with open(writing, "w", encoding="utf-8") as pipe:
        json.dump(answer, pipe, default=str)
    os._exit(0)


def _short(error: BaseException) -> str:
    """An error and the last lines of the way to it."""
    way = [f"{Path(frame.filename).name}:{frame.lineno}" for frame in traceback.extract_tb(error.__traceback__)]
    return f"{type(error).__name__}: {error} ({' > '.join(way[-5:])})"


def _read(reading: int) -> tuple[bytes, bool]:
    """All that comes out of a pipe, and whether its writer hangs."""
    parts = []
    with open(reading, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], PATIENCE)[0]:
            part = pipe.read(1 << 16)
            if not part:
                return b"".join(parts), False
            parts.append(part)
    return b"", True
