"""One comparison of one model with a key varied."""

from __future__ import annotations

from pathlib import Path

import pytest

import seqloom
from seqloom.errors import UserError
from seqloom.reports.ladder import Ladder

pytestmark = pytest.mark.usefixtures("no_reports")


@pytest.fixture(autouse=True)
def _no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.reports.ladder_page.write_ladder_page", lambda ladder, path: None)


def tiny(corpus_file: Path) -> list[str]:
    return [
        f"data.train={corpus_file}",
        "text.min_count=1",
        "data.batch_size=4",
        "data.length=8",
        "model.embedding.size=8",
        "model.features.size=8",
        "training.steps=2",
        "training.device=cpu",
    ]


def names(ladder: Ladder) -> list[str]:
    return [rung.name for rung in ladder.rungs]


def test_each_value_is_a_rung(corpus_file: Path, tmp_path: Path) -> None:
    vary = ["model.output.kind=softmax,tree-softmax,noise-contrastive"]
    ladder = seqloom.compare(["lstm"], tiny(corpus_file), tmp_path / "out", vary=vary)
    assert names(ladder) == ["softmax", "tree-softmax", "noise-contrastive"]
    assert seqloom.load(tmp_path / "out" / "tree-softmax").config.model.output.kind == "tree-softmax"
    assert "model.output.kind=tree-softmax" in ladder.rungs[1].description


def test_all_combinations_of_models_and_values(corpus_file: Path, tmp_path: Path) -> None:
    vary = ["model.features.size=4,6", "training.clip=1"]
    ladder = seqloom.compare(["gru", "rnn"], tiny(corpus_file), tmp_path / "out", vary=vary)
    assert names(ladder) == ["gru-4-1", "gru-6-1", "rnn-4-1", "rnn-6-1"]


@pytest.mark.parametrize("wrong", ["model.features.size", "=1,2", "seed=", "seed=1,,2", "seed=1,2"])
def test_a_variation_without_key_or_values_is_refused(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--vary"):
        seqloom.compare(["lstm"], out=tmp_path / "out", vary=[wrong])
