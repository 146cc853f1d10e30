"""A small run for the verbs, and the settings that make it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch

import seqloom


@pytest.fixture(autouse=True, scope="session")
def _one_thread() -> None:
    """Models this small only lose by sharing the work; processes that tests start keep to it too."""
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"


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
    seqloom.train("lstm", [*tiny[1::2], "model.embedding.dropout=0.1", "model.features.dropout=0.1"], path)
    return path
