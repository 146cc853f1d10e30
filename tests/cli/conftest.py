"""The command line called in this process, with what it writes and how it exits."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

import seqloom
from seqloom.cli import main


@dataclass(frozen=True)
class Outcome:
    """How a command ended."""

    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        """The JSON lines on stdout; anything else there is an error."""
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def error(self) -> str:
        """The one error line; the only thing on stderr, and nothing on stdout."""
        assert self.out == ""
        assert "Traceback" not in self.err
        (line,) = self.err.splitlines()
        assert line.startswith("error: "), line
        return line.removeprefix("error: ")


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Models this small only lose by sharing the work; processes that tests start keep to it too."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


@pytest.fixture
def cli(
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    standard_input: Callable[[bytes], AbstractContextManager[None]],
) -> Callable[..., Outcome]:
    """Call `seqloom ...`."""

    def call(*arguments: object, stdin: str = "") -> Outcome:
        monkeypatch.setattr(sys, "argv", ["seqloom", *map(str, arguments)])
        capfd.readouterr()
        with standard_input(stdin.encode()), pytest.raises(SystemExit) as ended:
            main()
        captured = capfd.readouterr()
        return Outcome(ended.value.code or 0, captured.out, captured.err)

    return call


def options(*settings: str) -> list[str]:
    """Each setting behind a --set."""
    return [part for setting in settings for part in ("--set", setting)]


@pytest.fixture(scope="session")
def tiny(corpus_file: Path) -> list[str]:
    """The settings that make a recurrent preset tiny."""
    return options(
        f"data.train={corpus_file}",
        "data.unit=line",
        "text.min_count=1",
        "data.batch_size=4",
        "data.length=8",
        "model.embedding.size=16",
        "model.features.size=16",
        "training.steps=40",
        "training.validate_every=20",
        "training.device=cpu",
    )


@pytest.fixture(scope="session")
def run(tiny: list[str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A small LSTM that has learned the tiny language a little; tests read it and leave it as it is."""
    path = tmp_path_factory.mktemp("runs") / "lstm"
    seqloom.train("lstm", tiny[1::2], path)
    return path
