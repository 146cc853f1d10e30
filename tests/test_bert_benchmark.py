"""The benchmark of pre-training: what it trains with, and what it tests on."""

from __future__ import annotations

import sys
from itertools import pairwise
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks import bert as benchmark
from benchmarks.bert import FEATURES, Comparison, table, tasks

import seqloom
from seqloom.data.labelled import read_labelled


@pytest.fixture
def comparison(tmp_path: Path) -> Comparison:
    reviews, chunks = tmp_path / "polarity", tmp_path / "conll"
    for folder in (reviews, chunks):
        folder.mkdir()
    for label, word in {"neg": "bad", "pos": "good"}.items():
        texts = [f"film number {number} is {word}\n" for number in range(60)]
        (reviews / f"rt-polarity.{label}").write_text("".join(texts), encoding="utf-8")
    (reviews / "README.md").write_text("not a review", encoding="utf-8")
    for name in ("train", "test"):
        (chunks / f"{name}.txt").write_text("a DT B-NP\nfilm NN I-NP\n\n" * 9, encoding="utf-8")
    return Comparison("time-machine", tasks(reviews, chunks, tmp_path), tmp_path)


def test_reviews_are_learned_from_validated_or_tested_with(comparison: Comparison, tmp_path: Path) -> None:
    parts = [read_labelled(str(tmp_path / f"{name}.tsv")) for name in ("train", "valid", "test")]
    assert sum(map(len, parts)) == len({each.text for part in parts for each in part}) == 120
    assert all({each.label for each in part} == {"neg", "pos"} for part in parts)
    assert len(parts[0]) > 80


def test_every_kind_of_features_is_a_configuration(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    trained = []

    def train(verb: str, preset: str, *given: str) -> str:
        settings = [value for key, value in pairwise(given) if key == "--set"]
        name = Path(given[given.index("--out") + 1]).name
        trained.append(name)
        config = seqloom.load_config(preset, settings)
        assert verb == "train"
        if name.startswith(("classifier", "tagger")):
            assert config.data.test is not None
        return ""

    monkeypatch.setattr(benchmark, "_seqloom", train)
    for task in comparison.tasks:
        for features in FEATURES:
            settings = [*task.data, *comparison.settings(features)]
            comparison._trained(f"{task.preset}-{features}", task.preset, settings)
    assert {"bert", "untrained", "word2vec", "classifier-fine-tuned", "tagger-frozen"} <= set(trained)


def test_the_table_has_means_over_seeds(comparison: Comparison, monkeypatch: pytest.MonkeyPatch) -> None:
    class Known:
        def figures(self) -> dict[str, object]:
            return dict.fromkeys(("masked_accuracy", "pseudo_perplexity"), type("Scored", (), {"value": 5.0}))

    monkeypatch.setattr(Comparison, "score", lambda _self, _task, features, seed: 10.0 * len(features) + seed)
    monkeypatch.setattr(Comparison, "bert", "runs/bert")
    monkeypatch.setattr(benchmark.seqloom, "load", lambda _: Known())
    shown = table(comparison, 3)
    assert shown.rows[0] == ["learned", "71.00 ± 1.00", "71.00 ± 1.00"]
    assert "masked accuracy 5.00" in shown.note
