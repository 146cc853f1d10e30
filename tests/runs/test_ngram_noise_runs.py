"""Runs whose output layer draws words from an n-gram run: they stand on their own, and refuse runs that do not fit."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
import torch

import seqloom
from seqloom.errors import ConfigError, UserError

LINES = ["the cat sat on the mat", "the dog sat on a cat", "a mat and a dog met the cat"] * 8
TRAINING = {"steps": 4, "validate_every": 2, "log_every": 1, "device": "cpu"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my.txt").write_text("\n".join(LINES), encoding="utf-8")
    pairs = [f"{line}\t{' '.join(reversed(line.split()))}" for line in LINES]
    (tmp_path / "my.tsv").write_text("\n".join(pairs), encoding="utf-8")
    (tmp_path / "targets.txt").write_text("\n".join(pair.split("\t")[1] for pair in pairs), encoding="utf-8")
    return tmp_path


def ngram(out: str, *settings: str) -> None:
    seqloom.train("ngram", ["model.order=2", "data.train=my.txt", "data.unit=line", *settings], out)


def drawing(run: str, out: str, *settings: str) -> seqloom.Trained:
    output = {"kind": "noise-contrastive", "noise": "ngram", "run": run, "samples": 4}
    tree = {
        "data": {"train": "my.txt", "unit": "line", "batch_size": 2, "length": 6},
        "text": {"kind": "run", "path": run},
        "model": {"embedding": {"size": 6}, "features": {"kind": "gru", "size": 6}, "output": output},
        "training": TRAINING,
    }
    return seqloom.train(tree, settings, out)


def test_a_run_stands_on_its_own_and_goes_on_without_the_ngram_run(folder: Path) -> None:
    ngram("runs/bigram", "text.min_count=1")
    schedule = "training.schedule.kind=constant"
    drawing("runs/bigram", "runs/one", schedule)
    whole = drawing("runs/bigram", "runs/two", schedule, "training.steps=8")
    shutil.rmtree("runs/bigram")
    again = seqloom.train("runs/one/config.yaml", ["training.steps=8"], "runs/one", resume=True)
    assert again.score("the cat")[0].log_prob == whole.score("the cat")[0].log_prob
    assert torch.equal(again.model.output.noise.keys, seqloom.load("runs/two").model.output.noise.keys)


def test_runs_that_do_not_fit_are_refused(folder: Path) -> None:
    ngram("runs/bigram", "text.min_count=1")
    ngram("runs/unigram", "text.min_count=1", "model.order=1")
    ngram("runs/scores", "text.min_count=1", "model.smoothing=stupid-backoff")
    drawing("runs/bigram", "runs/neural")
    for run, sentence in {
        "runs/unigram": "there are only single words.*model.order=2",
        "runs/scores": "no interpolation of distributions.*modified-kneser-ney",
        "runs/neural": "a model of kind 'language'; model.output.run needs an n-gram run",
    }.items():
        with pytest.raises(UserError, match=sentence):
            drawing(run, "runs/no")
        assert not Path("runs/no").exists()
    with pytest.raises(UserError, match="this run has another tokeniser than runs/bigram"):
        drawing("runs/bigram", "runs/no", "text={kind: characters}")


def test_a_model_of_pairs_draws_from_a_model_of_its_targets(folder: Path) -> None:
    tree = {
        "data": {"kind": "pairs", "train": "my.tsv", "valid_fraction": 0.2, "batch_tokens": 80},
        "text": {"kind": "whitespace", "min_count": 1},
        "model": {"kind": "seq2seq", "embedding": {"size": 6}, "encoder": {"size": 6}, "decoder": {"size": 6}},
        "training": TRAINING,
    }
    seqloom.train(tree, out="runs/plain")
    ngram("runs/trigram", "model.order=3", "data.train=targets.txt", "text={kind: run, path: runs/plain}")
    output = "model.output={kind: sampled-softmax, noise: ngram, run: runs/trigram, samples: 4}"
    trained = seqloom.train(tree, [output], "runs/drawing")
    assert trained.model.output.history == 2
    assert trained.score("the cat", "cat the")[0].log_prob < 0


@pytest.mark.parametrize("keys", ["noise: ngram", "run: runs/bigram"])
def test_noise_by_ngrams_and_a_run_need_each_other(keys: str) -> None:
    with pytest.raises(ConfigError, match="need each other"):
        seqloom.load_config("lstm", [f"model.output={{kind: sampled-softmax, {keys}}}"])


def test_what_cannot_know_the_words_before_refuses_it() -> None:
    with pytest.raises(ConfigError, match="should be 'unigram' or 'log-uniform'"):
        seqloom.load_config("lstm", ["model.output={kind: negative-sampling, noise: ngram, run: runs/bigram}"])
    with pytest.raises(ConfigError, match="ELMo reads backwards too"):
        seqloom.load_config(
            "elmo", ["model.output={kind: sampled-softmax, noise: ngram, run: runs/bigram, tied: false}"]
        )
