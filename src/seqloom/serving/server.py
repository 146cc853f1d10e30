"""The process: loads behind an open port, ends within its grace."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import socket
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

import uvicorn

from seqloom.errors import SeqloomError, UserError
from seqloom.runs.folder import RunFolder
from seqloom.serving.access import log
from seqloom.serving.app import make_app
from seqloom.serving.errors import ApiError
from seqloom.serving.measures import Measures
from seqloom.serving.models import Models
from seqloom.serving.settings import Settings

LAST_WORDS = 0.1  # seconds for what was said last to be sent


def serve(folders: Mapping[str, Path], device: str, settings: Settings) -> None:
    """Serve runs until somebody ends it."""
    for folder in folders.values():
        RunFolder(folder).check_there()
    listening = listen(settings)
    server = Server(folders, device, settings)
    with listening:
        asyncio.run(server.run(listening))
    if not server.models.idle:  # Python cannot end in order while a thread computes
        leave(0)


def leave(status: int) -> NoReturn:
    """End the process as it is."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


def listen(settings: Settings) -> socket.socket:
    """The socket on which clients arrive."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # With its protocol named, asyncio sends parts of answers at once; else each waits 40 ms for the one before it.
    listening = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listening.bind((settings.host, settings.port))
    except OSError as error:
        listening.close()
        raise UserError(
            f"cannot listen on {settings.host}:{settings.port}: {error.strerror}; choose another "
            + ("--port" if error.errno in (errno.EADDRINUSE, errno.EACCES) else "--host")
        ) from None
    return listening


class Server:
    """One server, from its first signal of life to its last."""

    def __init__(self, folders: Mapping[str, Path], device: str, settings: Settings) -> None:
        self.settings, self.measures = settings, Measures()
        self.models = Models(folders, device, settings, self.measures)
        self.ended: float | None = None
        """When it was told to end."""
        app = make_app(self.models, settings, self.measures, lambda: self.ended is not None)
        self.uvicorn = Quiet(
            uvicorn.Config(
                app, log_config=None, access_log=False, lifespan="off", timeout_keep_alive=30, server_header=False
            )
        )

    async def run(self, listening: socket.socket) -> None:
        """Serve until told to end, then finish what runs."""
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self.end)
        host, port, *_ = listening.getsockname()
        shown = f"[{host}]" if ":" in host else host
        url = f"http://{shown}:{port}"
        log("listening", url=url, models=list(self.models.folders))
        if sys.stdout.isatty():  # somebody is looking, and would rather not read the log
            sys.stdout.write(f"open {url}/ in a browser; Ctrl-C ends it\n")
            sys.stdout.flush()

        def failed() -> None:
            loop.call_soon_threadsafe(self.end)

        self.models.load(failed)
        serving = asyncio.create_task(self.uvicorn.serve([listening]))
        while self.ended is None and not serving.done():
            await asyncio.sleep(0.05)
        while not self.models.idle and not self.late:
            await asyncio.sleep(0.02)
        if not self.models.idle:
            log("late", seconds=self.settings.grace)
            self.models.give_up(ApiError(503, "the server is ending"))
        await asyncio.sleep(LAST_WORDS)
        self.uvicorn.should_exit = True
        self.uvicorn.force_exit = self.late
        with suppress(TimeoutError):
            await asyncio.wait_for(serving, max(LAST_WORDS, self.left))
        log("ended")
        if self.models.problem is not None:
            problem = self.models.problem
            raise problem if isinstance(problem, SeqloomError) else SeqloomError(f"loading failed: {problem}")

    def end(self) -> None:
        """Take no more requests, and finish what runs; the second time, end at once."""
        if self.ended is not None:
            leave(143)
        self.ended = time.monotonic()
        log("ending", seconds=self.settings.grace)

    @property
    def left(self) -> float:
        """Seconds of grace that are left."""
        return self.settings.grace - (time.monotonic() - (self.ended or time.monotonic()))

    @property
    def late(self) -> bool:
        """Whether the grace is over."""
        return self.left <= 0


class Quiet(uvicorn.Server):
    """uvicorn without signal handlers of its own: ours finish what runs first."""

    def install_signal_handlers(self) -> None:
        """Leave signals alone."""

    def capture_signals(self):  # type: ignore[no-untyped-def]
        """Leave signals alone."""
        from contextlib import nullcontext

        return nullcontext()
