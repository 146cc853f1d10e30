"""What all tests share: a cache folder of their own, one thread, and a small corpus."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest
import torch

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


@pytest.fixture
def no_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave `report.html` out: drawing it takes longer than the tiny trainings of many tests."""
    monkeypatch.setattr("seqloom.runs.training.report", lambda trained: None)
