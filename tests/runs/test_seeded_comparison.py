"""Comparisons with several seeds: which runs there are, and what is trained again."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sealing import unfinish

import seqloom
from seqloom.config import copy_preset
from seqloom.errors import UserError
from seqloom.kinds import compare
from seqloom.runs.engine import train_into
from seqloom.training import Silent

SMALL = ["data.batch_size=4", "data.length=8", "training.steps=2", "training.device=cpu"]


@pytest.fixture(autouse=True)
def _no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    """Drawing pages takes longer than these trainings."""
    monkeypatch.setattr("seqloom.reports.ladder_page.write_ladder_page", lambda ladder, path: None)
    monkeypatch.setattr("seqloom.runs.engine.write_report", lambda trained: None)


@pytest.fixture
def trained(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the folders that are trained into, as it happens."""
    names: list[str] = []

    def watched(folder: Any, *arguments: Any, **options: Any) -> Any:
        names.append(folder.path.name)
        return train_into(folder, *arguments, **options)

    monkeypatch.setattr("seqloom.runs.comparison.train_into", watched)
    return names


@pytest.fixture
def text(corpus_file: Path) -> list[str]:
    return [f"data.train={corpus_file}", *SMALL, "seed=5"]


@pytest.fixture(scope="module")
def seeded(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a comparison of one model with two seeds."""
    out = tmp_path_factory.mktemp("seeded")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqloom.reports.ladder_page.write_ladder_page", lambda ladder, path: None)
        patch.setattr("seqloom.runs.engine.write_report", lambda trained: None)
        compare(["average"], [f"data.train={corpus_file}", *SMALL, "seed=5"], out, seeds=2)
    return out


def test_every_seed_is_a_run_of_its_own_and_measured_like_the_first(seeded: Path, text: list[str]) -> None:
    runs = [seqloom.load(seeded / name) for name in ("average", "average-seed-6")]
    assert [run.config.seed for run in runs] == [5, 6]
    assert runs[0].config.model_copy(update={"seed": 6}) == runs[1].config
    (rung,) = compare(["average"], text, seeded, seeds=2).rungs
    perplexities = [run.evaluate().perplexity for run in runs]
    assert perplexities[0] != perplexities[1]
    assert [run.values["perplexity"] for run in rung.runs] == perplexities
    assert rung.values["perplexity"] == pytest.approx(np.mean(perplexities))
    assert rung.deviation("perplexity") == pytest.approx(np.std(perplexities, ddof=1))
    assert rung.folder == str(seeded / "average")
    assert list(rung.samples) == list(compare(["average"], text, seeded).rungs[0].samples)


def test_seeds_are_added_to_what_is_there_already(text: list[str], tmp_path: Path, trained: list[str]) -> None:
    alone = compare(["ngram", "average"], text, tmp_path)
    assert trained == ["average", "ngram"]  # all are measured on the data of a network
    assert not alone.chances
    trained.clear()
    ladder = compare(["ngram", "average"], text, tmp_path, seeds=3)
    assert trained == ["average-seed-6", "average-seed-7"]  # and nothing of a model without chance in it
    assert [len(rung.runs) for rung in ladder.rungs] == [0, 3]
    assert ladder.rungs[0].deterministic
    assert set(ladder.chances) == {rung.name for rung in ladder.rungs} - {ladder.best().name}
    assert ladder.rungs[1].runs[0].values["perplexity"] == alone.rungs[1].values["perplexity"]


def test_an_interrupted_comparison_goes_on(seeded: Path, text: list[str], tmp_path: Path, trained: list[str]) -> None:
    out = shutil.copytree(seeded, tmp_path / "out")
    before = (out / "average" / "model.safetensors").stat().st_mtime_ns
    unfinish(out / "average-seed-6")
    compare(["average"], text, out, seeds=2)
    assert trained == ["average-seed-6"]
    assert (out / "average" / "model.safetensors").stat().st_mtime_ns == before


def test_a_finished_run_counts_once(seeded: Path, text: list[str], tmp_path: Path) -> None:
    ladder = compare([seeded / "average", "average"], text, tmp_path / "out", seeds=2)
    assert [len(rung.runs) for rung in ladder.rungs] == [0, 2]
    assert ladder.rungs[0].deviation("perplexity") is None
    assert not ladder.chances


def test_which_seed_is_trained_is_said(seeded: Path, text: list[str]) -> None:
    class Heard(Silent):
        lines: list[str] = []

        def say(self, message: str) -> None:
            self.lines.append(message)

    compare(["average"], text, seeded, reporter=Heard(), seeds=2)
    assert [line.rpartition(", ")[2] for line in Heard.lines] == ["seed 5", "seed 6"]
    assert all(line.startswith("model 1 of 1: average: ") for line in Heard.lines)


def test_what_makes_no_sense_is_refused(seeded: Path, text: list[str], tmp_path: Path) -> None:
    with pytest.raises(UserError, match="settings and seeds are for models that are to be trained"):
        compare([seeded / "average"], out=tmp_path / "out", seeds=2)
    with pytest.raises(UserError, match="seeds=0: a model is trained with one seed at least"):
        compare(["average"], text, tmp_path / "out", seeds=0)
    assert not (tmp_path / "out").exists()
    with pytest.raises(UserError, match=r"average-seed-6 holds a run of another configuration \(training.steps is"):
        compare(["average"], [*text, "training.steps=3"], _without(seeded, tmp_path, "average"), seeds=2)
    copy_preset("average", tmp_path / "average-seed-6.yaml")
    with pytest.raises(UserError, match="average-seed-6 would hold two runs of this comparison"):
        compare(["average", tmp_path / "average-seed-6.yaml"], text, tmp_path / "twice", seeds=2)


def _without(folder: Path, tmp_path: Path, name: str) -> Path:
    copy = shutil.copytree(folder, tmp_path / "copy")
    shutil.rmtree(copy / name)
    return copy
