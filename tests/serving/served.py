"""A server as a process of its own, and a client of it."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

TURNS = ["hello there", "good day", "how are you", "i am fine", "good bye"]
WAIT = 60.0  # seconds for a process to begin or end, on a machine that has much else to do


@dataclass
class Serving:
    """A server, and a client of it."""

    process: subprocess.Popen[str]
    log: Path
    token: str | None = None
    client: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        headers = {} if self.token is None else {"Authorization": f"Bearer {self.token}"}
        self.client = httpx.Client(base_url=self.url, timeout=WAIT, headers=headers)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The log."""
        lines = self.log.read_text(encoding="utf-8").splitlines()
        return [json.loads(line) for line in lines if line.endswith("}")]

    @property
    def url(self) -> str:
        begun = until(lambda: [event for event in self.events if event["event"] == "listening"])
        return begun[0]["url"]

    def until_ready(self) -> Serving:
        until(lambda: self.client.get("/health").status_code == 200)
        return self

    def post(self, path: str, **body: Any) -> httpx.Response:
        return self.client.post(path, json=body)

    def answer(self, path: str, **body: Any) -> Any:
        response = self.post(path, **body)
        assert response.status_code == 200, response.text
        return response.json()

    def refusal(self, status: int, path: str, **body: Any) -> dict[str, Any]:
        response = self.post(path, **body)
        assert response.status_code == status, response.text
        return response.json()["error"]

    def measure(self, name: str) -> float:
        """The sum of a measure over its labels."""
        lines = self.client.get("/metrics").text.splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith((f"{name} ", f"{name}{{")))

    def end(self) -> int:
        """Tell it to end, and wait."""
        with suppress(ProcessLookupError):
            self.process.send_signal(signal.SIGTERM)
        return self.process.wait(WAIT)


def until(there: Callable[[], Any]) -> Any:
    """What is there at last."""
    deadline = time.monotonic() + WAIT
    while time.monotonic() < deadline:
        with suppress(httpx.TransportError, FileNotFoundError):
            if found := there():
                return found
        time.sleep(0.05)
    raise AssertionError("it took too long")
