"""Training on rewards from the outside: beginning with a run's weights, what is kept, and what is said out loud."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

import seqloom
from seqloom.errors import ConfigError, UserError
from seqloom.runs.learning import warnings
from seqloom.training import load_weights, read_metrics

PAIRS = "".join(f"{a} {b}\t{b} {a}\n" for a in "abcdef" for b in "abcdef")
TINY = [
    "text={kind: whitespace, min_count: 1}",
    "target_text=null",
    "data.batch_tokens=64",
    "model={kind: seq2seq, embedding: {size: 8}, encoder: {kind: gru, size: 8}, decoder: {kind: gru, size: 8}}",
    "training.device=cpu",
    "training.log_every=1",
]
STEPS = ["training.steps=4", "training.validate_every=2"]
REWARDED = ["objective={kind: policy-gradient, samples: 2, longest: 4}"]


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("learning")
    (folder / "pairs.tsv").write_text(PAIRS, encoding="utf-8")
    settings = [f"data.train={folder / 'pairs.tsv'}", *TINY, *STEPS, "data.valid_fraction=0.2"]
    return seqloom.train("seq2seq-attention", settings, folder / "start", report=False).path


def test_a_run_begins_with_the_weights_and_words_of_another(start: Path, tmp_path: Path) -> None:
    still = ["training.optimizer.learning_rate=1e-12", "training.steps=1"]
    run = seqloom.train(start, [*REWARDED, *still], tmp_path / "run", report=False).path
    before, after = (load_weights(folder / "model.safetensors") for folder in (start, run))
    assert all(torch.allclose(before[name], after[name], atol=1e-6) for name in before)
    assert (run / "assets" / "tokenizer.json").read_bytes() == (start / "assets" / "tokenizer.json").read_bytes()


def test_what_it_begins_with_is_measured_once(start: Path, tmp_path: Path, cli: Callable) -> None:
    options = [word for setting in (*REWARDED, *STEPS) for word in ("--set", setting)]
    done = cli("train", start, *options, "--no-report", "--out", tmp_path / "run")
    said = [line for line in done.err.splitlines() if "as it begins" in line]
    assert len(said) == 1
    perplexity = seqloom.load(start, "cpu").figures()["perplexity"].value
    assert f"step 0: valid_loss {math.log(perplexity):.4g}  valid_perplexity {perplexity:.4g}  valid_bleu" in said[0]
    assert f"{tmp_path / 'run'}: validation reward" in done.out
    spoilt = ["--set", "training.steps=1", "--set", "training.optimizer.learning_rate=1", "--set", "training.best=loss"]
    assert "(best so far, but it began better)" in cli("train", start, *spoilt, "--out", tmp_path / "spoilt").err
    again = cli("train", "--resume", "--out", tmp_path / "run", "--set", "training.steps=6", "--no-report")
    assert again.code == 0
    assert "as it begins" not in again.err


def test_what_it_learned_fits_no_other_model(start: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"cannot be gone on from \(model.decoder.size is 8 there, 9 here\)"):
        seqloom.train(start, ["model.decoder.size=9"], tmp_path / "run", report=False)
    assert not (tmp_path / "run").exists()


def test_the_best_reward_is_kept_and_marked(start: Path, tmp_path: Path) -> None:
    run = seqloom.train(start, [*REWARDED, *STEPS], tmp_path / "run", report=False)
    validations = [entry for entry in read_metrics(run.path) if "valid_reward" in entry]
    assert len(validations) == 2
    best = max(entry["valid_reward"] for entry in validations)
    assert [entry["valid_reward"] for entry in validations if entry.get("best")][-1] == best
    assert {"reward", "entropy", "distinct", "divergence"} <= read_metrics(run.path)[0].keys()


def test_bleu_may_say_which_weights_are_best(start: Path, tmp_path: Path) -> None:
    run = seqloom.train(start, [*STEPS, "training.best=bleu"], tmp_path / "run", report=False)
    validations = [entry for entry in read_metrics(run.path) if "valid_bleu" in entry]
    assert [entry["valid_bleu"] for entry in validations if entry.get("best")][-1] == max(
        entry["valid_bleu"] for entry in validations
    )
    with pytest.raises(ConfigError, match=r"training\.best=reward is for objectives that follow a reward"):
        seqloom.train(start, ["training.best=reward"], tmp_path / "other", report=False)
    with pytest.raises(ConfigError, match=r"training\.best=bleu is for models that write texts"):
        seqloom.load_config("vae", ["training.best=bleu"])


def test_a_reward_that_rises_while_bleu_falls_is_said() -> None:
    before = [{"reward": 0.2, "entropy": 2.0}, {"valid_bleu": 30.0}]
    good = [*before, {"reward": 0.4, "entropy": 1.5}, {"valid_bleu": 31.0}]
    assert warnings(good) == []
    (said,) = warnings([*good, {"reward": 0.6, "entropy": 1.0}, {"valid_bleu": 25.0}])
    assert said == (
        "warning: the reward rose from 0.4 to 0.6 while BLEU on validation fell from 31.00 to 25.00: "
        "the model learns to please the reward"
    )
    assert warnings([*good, {"reward": 0.1, "entropy": 1.0}, {"valid_bleu": 25.0}]) == []


def test_an_entropy_that_collapses_is_said() -> None:
    (said,) = warnings([{"reward": 0.2, "entropy": 2.0}, {"reward": 0.3, "entropy": 0.1}])
    assert said.startswith("warning: the entropy fell from 2 to 0.1 nats per word")
