"""Tiny runs, and servers of them: real processes that are asked from outside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import chdir
from pathlib import Path
from typing import Any

import pytest
from kinds import CASES, Case
from served import TURNS, Serving
from workshop import Workshop

import seqloom

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
    "bert",
    "autoencoder",
    "rbm",
)


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
