"""Tiny runs, and servers of them: real processes that are asked from outside."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import chdir, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest
from kinds import CASES, Case
from workshop import Workshop

import seqloom

TURNS = ["hello there", "good day", "how are you", "i am fine", "good bye"]
NAMES = (
    "transformer",
    "ngram",
    "pairs-transformer",
    "copying",
    "talker",
    "text-vae",
    "pairs-latent",
    "elmo-words",
    "word2vec",
    "classifier",
    "vae",
    "captioner",
    "text-to-image",
)
WAIT = 60.0  # seconds for a process to begin or end, on a machine that has much else to do


def case(name: str) -> Case:
    """A case of the contract suite, or a variant of one."""
    if name == "talker":
        return case("pairs-transformer").variant(
            "talker", "data.train=talks.jsonl", "data.valid=talks.jsonl", "data.history=3"
        )
    return next(each for each in CASES if each.name == name)


@pytest.fixture(scope="session")
def runs(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The folders of the runs."""
    folder = tmp_path_factory.mktemp("served")

    def train(each: Case) -> Path:
        with chdir(folder):
            seqloom.train(each.preset, each.settings, Path("runs") / each.name, report=False)
        return folder / "runs" / each.name

    workshop = Workshop(folder, corpus_file.read_text(encoding="utf-8").splitlines(), train)
    (folder / "talks.jsonl").write_text((json.dumps({"turns": TURNS}) + "\n") * 12, encoding="utf-8")
    return {name: workshop.run(case(name)) for name in NAMES}


@pytest.fixture(scope="session")
def trained(runs: dict[str, Path]) -> dict[str, Any]:
    """The same, as the Python API has them."""
    return {name: seqloom.load(path, "cpu") for name, path in runs.items()}


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


@pytest.fixture(scope="session")
def start(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Serving]]:
    """Start a server of some runs, with options."""
    begun: list[Serving] = []

    def make(*arguments: object, token: str | None = None) -> Serving:
        log = tmp_path_factory.mktemp("log") / "server.log"
        command = [sys.executable, "-m", "seqloom", "serve", "--port", "0", "--device", "cpu"]
        command += map(str, arguments)
        threads = {"OMP_NUM_THREADS": "1"}
        with open(log, "w") as file:
            process = subprocess.Popen(command, stderr=file, text=True, env=os.environ | threads)
        begun.append(Serving(process, log, token))
        return begun[-1]

    yield make
    for serving in begun:
        serving.client.close()
        serving.process.kill()
        serving.process.wait()


@pytest.fixture(scope="session")
def server(runs: dict[str, Path], start: Callable[..., Serving]) -> Serving:
    """A server of all runs."""
    return start(*runs.values()).until_ready()
