"""What all tests share: a cache folder of their own, one thread, and a small corpus."""

from __future__ import annotations

from collections.abc import Iterator
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


@pytest.fixture
def no_reports(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave `report.html` out: drawing it takes longer than the tiny trainings of many tests."""
    monkeypatch.setattr("seqloom.runs.training._report", lambda trained: None)
