"""Objectives are modules: what they learn is optimised and resumed exactly, and their context reaches them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from sealing import unfinish
from torch import nn

import seqloom
from seqloom.config.schema.objectives import LikelihoodObjective
from seqloom.training import Context, MaximumLikelihood, build
from seqloom.training.checkpoints import CheckpointFolder
from seqloom.training.objectives import Loss


class WithBaseline(MaximumLikelihood):
    """Maximum likelihood, beside which a number learns the mean loss per token."""

    def __init__(self, config: LikelihoodObjective, context: Context | None = None) -> None:
        super().__init__(config, context)
        self.baseline = nn.Parameter(torch.zeros(()))
        assert self.context.tokenizer is not None
        self.words = self.context.tokenizer.size

    def forward(self, model: Any, batch: Any) -> Loss:
        loss = super().forward(model, batch)
        missed = batch.tokens * (self.baseline - loss.total.detach() / batch.tokens).square()
        return Loss(loss.total + missed, loss.tokens, {**loss.logs, "missed": missed.detach()})


@pytest.fixture
def settings(corpus_file: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.setitem(build.OBJECTIVES, "likelihood", WithBaseline)
    return [
        f"data.train={corpus_file}",
        "data.unit=line",
        "data.batch_size=4",
        "data.length=8",
        "model.embedding.size=8",
        "model.features.size=8",
        "training.steps=6",
        "training.validate_every=3",
        "training.checkpoint_every=3",
        "training.log_every=1",
        "training.device=cpu",
        "training.optimizer.learning_rate=0.1",
        "training.schedule.kind=constant",
        "training.schedule.warmup=0",
    ]


def baseline(run: Path) -> float:
    checkpoint = CheckpointFolder(run / "checkpoints").last()
    assert checkpoint is not None
    return float(checkpoint.tensors["objective.baseline"])


@pytest.mark.usefixtures("no_reports")
def test_what_an_objective_learns_is_optimised_kept_and_resumed_exactly(settings: list[str], tmp_path: Path) -> None:
    seqloom.train("lstm", settings, tmp_path / "whole")
    assert 0.1 < baseline(tmp_path / "whole") < 1.0  # on its way to the loss, a step of about 0.1 at a time
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    shutil.rmtree(sorted((tmp_path / "parts" / "checkpoints").iterdir())[-1])
    unfinish(tmp_path / "parts")
    assert baseline(tmp_path / "parts") < baseline(tmp_path / "whole")
    seqloom.train("lstm", out=tmp_path / "parts", resume=True)
    for file in ("model.safetensors", "checkpoints/step-00000006/training.safetensors"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def test_the_weights_of_a_run_are_the_models_alone(settings: list[str], tmp_path: Path) -> None:
    trained = seqloom.train("lstm", settings, tmp_path / "run", report=False)
    assert not any("baseline" in name for name, _ in trained.model.named_parameters())
    assert not (tmp_path / "run" / "report.html").exists()
