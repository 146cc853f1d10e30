"""What all tests share: a cache folder of their own, one thread, a small corpus, and the command line."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from seqloom.cli import main
from seqloom.config import RunConfig
from seqloom.config.schema.admission import parts
from seqloom.kinds import kind_names
from seqloom.runs import kind

torch.set_num_threads(1)  # the tests' models are tiny: more threads would only wait for each other

SENTENCES = [
    "the cat sat on the mat",
    "the dog sat on the log",
    "a cat and a dog met on the mat",
    "the log fell on the cat",
    "a dog fell on a mat",
]


@pytest.fixture(autouse=True, scope="session")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEQLOOM_CACHE", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(autouse=True)
def _exact_products() -> Iterator[None]:
    """Training on a GPU lets products be of TF32, for all of the process: the next test does without."""
    yield
    torch.set_float32_matmul_precision("highest")


@pytest.fixture(autouse=True, scope="module")
def _kinds_put_back() -> Iterator[None]:
    """Kinds of models and layers that a module of tests registers are forgotten at its end."""
    fields = [
        (schema, field, field.annotation) for schema in parts(RunConfig) for field in schema.model_fields.values()
    ]
    objectives = {model: model.objectives for model in RunConfig.model_parts()}
    assert kind_names()  # ours are there
    known = dict(kind._KINDS)
    yield
    changed = {schema for schema, field, annotation in fields if field.annotation is not annotation}
    if changed:
        for _, field, annotation in fields:
            field.annotation = annotation
        for model, before in objectives.items():
            model.objectives = before
        kind._KINDS.clear()
        kind._KINDS.update(known)
        for schema in reversed(list(parts(RunConfig))):
            schema.model_rebuild(force=True)


@pytest.fixture(scope="session")
def corpus_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Sixty lines of a tiny language."""
    path = tmp_path_factory.mktemp("corpus") / "tiny.txt"
    path.write_text("\n".join(SENTENCES * 12) + "\n", encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def standard_input() -> Callable[[bytes], AbstractContextManager[None]]:
    """A block inside which these bytes are the process's standard input."""

    @contextmanager
    def given(content: bytes) -> Iterator[None]:
        with tempfile.TemporaryFile() as file:
            file.write(content)
            file.seek(0)
            kept = os.dup(0)
            os.dup2(file.fileno(), 0)
            try:
                yield
            finally:
                os.dup2(kept, 0)
                os.close(kept)

    return given


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


@pytest.fixture(scope="session")
def without_reports() -> Callable[[], AbstractContextManager[None]]:
    """A block inside which training leaves `report.html` out: drawing it takes longer than most tests' trainings."""

    @contextmanager
    def left_out() -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr("seqloom.runs.engine.write_report", lambda trained: None)
            yield

    return left_out


@pytest.fixture
def no_reports(without_reports: Callable[[], AbstractContextManager[None]]) -> Iterator[None]:
    """A test without reports."""
    with without_reports():
        yield
