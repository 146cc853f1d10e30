"""The benchmark of GPT: every training of its suites can be described, and its tables say what they claim to."""

from __future__ import annotations

import argparse
import math
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))  # the benchmarks are not installed

from benchmarks import gpt  # noqa: E402

from seqloom.config import load_config  # noqa: E402


def bench(folder: Path, **given: object) -> gpt.Bench:
    usual = {
        "data": None,
        "preset": "gpt",
        "rows": None,
        "trials": 2,
        "seeds": 2,
        "steps": None,
        "minutes": None,
        "set": [],
        "book": None,
    }
    return gpt.Bench(argparse.Namespace(**(usual | given)), folder, ThreadPoolExecutor(1))


def trained_by_nobody(monkeypatch: pytest.MonkeyPatch) -> list[gpt.Training]:
    """What a suite asks for; every training ends at once, with a loss by its number."""
    asked: list[gpt.Training] = []

    def trained(self: gpt.Bench, training: gpt.Training) -> gpt.Result:
        self._config(training)  # must be a valid one
        asked.append(training)
        loss = 2.0 + 0.1 * len(asked)
        curve = [(5, 1.0, loss + 1), (10, 2.0, loss)]
        return gpt.Result(
            training.name, training.settings, loss, curve, 0.1, 7, {"perplexity": 9.0, "word_perplexity": 8.0}
        )

    monkeypatch.setattr(gpt.Bench, "_trained", trained)
    return asked


@pytest.mark.parametrize("suite", gpt.SUITES)
def test_every_training_of_a_suite_is_a_valid_configuration(
    suite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = trained_by_nobody(monkeypatch)
    data = tmp_path if suite in ("wikitext", "arrangements") else None
    (table, *_) = gpt.SUITES[suite](bench(tmp_path, data=data))
    assert len(asked) >= 2 * len(table.rows)  # a row for each two seeds, after the trials, if any
    assert str(table)


@pytest.mark.parametrize("recipes", [gpt._on_cpu, gpt._on_gpu])
def test_every_recipe_is_a_valid_configuration(recipes: object) -> None:
    for source in recipes().values():
        assert load_config(source).data.train == "shakespeare"


def test_both_optimisers_have_as_many_trials_and_are_measured_by_other_seeds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = trained_by_nobody(monkeypatch)
    gpt.muon(bench(tmp_path, trials=3, seeds=2))
    for name in gpt.OPTIMISERS:
        own = [training for training in asked if training.name == name]
        assert [training.seed for training in own] == [0, 0, 0, 1, 2]
        chosen = own[0].settings  # whose loss was the lowest
        assert all(training.settings.items() >= chosen.items() for training in own[3:])
        assert own[3].settings.keys() - chosen.keys() == {"training.validate_every"}


def test_the_table_says_how_soon_muon_is_where_adamw_ends() -> None:
    def result(name: str, losses: list[float], pace: float) -> gpt.Result:
        curve = [(10 * place, 2.0 * place, loss) for place, loss in enumerate(losses, start=1)]
        return gpt.Result(name, {}, min(losses), curve, pace)

    settled = [result("AdamW", [3.0, 2.5, 2.0], 0.1), result("Muon", [2.4, 1.9, 1.8], 0.105)]
    table = gpt._speeds(settled, {"AdamW": {}, "Muon": {}})
    assert table.header[3] == "steps to 2.0000"
    assert [row[2:] for row in table.rows] == [
        ["2.0000", "30", "6", "100", "+0.0 %"],
        ["1.8000", "20", "4", "105", "+5.0 %"],
    ]
    assert all(map(math.isnan, settled[0].reached(1.0)))
    assert gpt.known(math.nan) == "–"


def test_the_terms_of_the_command_line_hold_for_every_training(tmp_path: Path) -> None:
    (tmp_path / "train.txt.gz").touch()
    given = bench(tmp_path, data=tmp_path, steps=7, minutes=0.5, set=["model.features.layers=1"])
    config = given._config(gpt.Training("a", "gpt", {"training.optimizer.weight_decay": 0.5}, seed=3))
    assert config["data"]["train"] == str(tmp_path / "train.txt.gz")
    assert config["data"]["test"] == str(tmp_path / "test.txt")
    assert (config["training"]["steps"], config["training"]["minutes"], config["seed"]) == (7, 0.5, 3)
    assert config["training"]["optimizer"]["weight_decay"] == 0.5
    assert config["model"]["features"]["layers"] == 1
