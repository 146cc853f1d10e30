"""`seqloom inspect normaliser`"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import seqloom
from seqloom.metrics.normaliser import log_normalisers
from seqloom.text.special import BOS

Cli = Callable[..., Any]
pytestmark = pytest.mark.usefixtures("no_reports")


def train(corpus_file: Path, out: Path, kind: str) -> Path:
    settings = ["text.min_count=1", "data.batch_size=4", "data.length=8", "training.steps=2", "training.device=cpu"]
    sizes = ["model.embedding.size=8", "model.features.size=8", f"model.output.kind={kind}", "data.unit=line"]
    seqloom.train("gru", [f"data.train={corpus_file}", *settings, *sizes], out)
    return out


def test_it_is_the_mean_of_log_z_over_the_text(cli: Cli, corpus_file: Path, tmp_path: Path) -> None:
    run = train(corpus_file, tmp_path / "run", "noise-contrastive")
    text = tmp_path / "text.txt"
    text.write_text("the cat sat\n", encoding="utf-8")
    (found,) = cli("inspect", "normaliser", run, "--source", text, "--out", tmp_path / "z.svg", "--json").records
    trained = seqloom.load(run, device="cpu")
    tokens = torch.tensor([[BOS, *trained.tokenizer.encode("the cat sat")]])
    with torch.inference_mode():
        features, _ = trained.model(tokens)
        expected = trained.model.output.scores(features).double().exp().sum(-1).log()[0]
    assert found["places"] == 4
    assert found["mean"] == pytest.approx(expected.mean().item(), abs=1e-5)
    assert found["deviation"] == pytest.approx(expected.std(correction=0).item(), abs=1e-5)
    assert (tmp_path / "z.svg").read_text(encoding="utf-8").lstrip().startswith("<?xml")


def test_every_place_counts_once(corpus_file: Path, tmp_path: Path) -> None:
    trained = seqloom.load(train(corpus_file, tmp_path / "run", "softmax"), device="cpu")
    from seqloom.data.store import TokenStore

    store = TokenStore.of(trained.text(str(corpus_file)), trained.tokenizer)
    found = log_normalisers(trained.model, store, 8)
    assert len(found) == len(store)
    assert np.isfinite(found).all()


def test_a_layer_that_is_normalised_as_it_is_is_refused(cli: Cli, corpus_file: Path, tmp_path: Path) -> None:
    run = train(corpus_file, tmp_path / "run", "tree-softmax")
    refused = cli("inspect", "normaliser", run, "--out", tmp_path / "z.svg")
    assert refused.code == 2
    assert not (tmp_path / "z.svg").exists()
