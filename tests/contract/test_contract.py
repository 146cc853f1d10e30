"""The contract: every model in the package goes through this module. A new model adds itself to `MODELS`.

construct without side effects; fit; log_prob is normalised; stepwise scores equal parallel scores; sample; save, load,
identical scores; interrupted and resumed equals uninterrupted; bad parameters rejected by name.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import seqloom
from seqloom.config import load_config
from seqloom.config.schema import NgramModelConfig
from seqloom.decoding import Limits, beam_search
from seqloom.errors import ConfigError
from seqloom.models import Autoregressive, build_language_model
from seqloom.models.ngram import count, estimate
from seqloom.text.special import BOS, EOS, PAD
from seqloom.training import read_metrics

pytestmark = pytest.mark.usefixtures("no_reports")

TINY: dict[str, list[str]] = {
    "average": [],
    "attention-average": [],
    "feedforward": ["model.features.context=3", "model.features.size=12", "model.features.layers=2"],
    "convolution": ["model.features.size=12", "model.features.layers=2"],
    "rnn": ["model.features.size=12"],
    "lstm": ["model.features.size=12", "model.features.layers=2", "model.features.weight_drop=0.2"],
    "lstm-peephole": ["model.features.size=12"],
    "lstm-coupled": ["model.features.size=12"],
    "gru": ["model.features.size=12"],
    "transformer": ["model.features.size=16", "model.features.layers=2", "model.features.heads=2"],
    "transformer/sinusoidal": ["model.features.positions=sinusoidal", "model.features.size=16"],
    "transformer/learned": ["model.features.positions=learned", "model.features.size=16", "model.features.norm=post"],
    "transformer/relative": ["model.features.positions=relative", "model.features.size=16"],
}
COUNTED: dict[str, list[str]] = {
    "ngram": ["model.order=3"],
    "ngram/pruned": ["model.order=4", "model.prune=[0,0,1]"],
    "ngram/kneser-ney": ["model.order=2", "model.smoothing=kneser-ney"],
    "ngram/absolute": ["model.order=3", "model.smoothing=absolute"],
    "ngram/laplace": ["model.order=3", "model.smoothing=laplace"],
    "ngram/additive": ["model.order=3", "model.smoothing=additive"],
    "ngram/unigram": ["model.order=1"],
}
MODELS = sorted(TINY | COUNTED)
NEURAL = sorted(TINY)

Settings = Callable[..., list[str]]


@pytest.fixture
def settings(corpus_file: Path) -> Settings:
    """The settings that make a preset tiny and train it on the tiny corpus."""

    def make(name: str, *more: str) -> list[str]:
        text = [f"data.train={corpus_file}", "data.unit=line", "text.min_count=1"]
        if name in COUNTED:
            return [*text, *COUNTED[name], *more]
        return [
            *text,
            "data.batch_size=4",
            "data.length=8",
            "model.embedding.size=10",
            *TINY[name],
            "training.steps=6",
            "training.log_every=1",
            "training.validate_every=3",
            "training.device=cpu",
            *more,
        ]

    return make


def tiny_model(name: str, settings: Settings, vocabulary_size: int) -> Autoregressive:
    config = load_config(name.split("/")[0], settings(name)).model
    torch.manual_seed(0)
    if isinstance(config, NgramModelConfig):
        words = torch.randint(4, vocabulary_size, (40, 6)).tolist()
        text = [token for row in words for token in [*row[: row[0] % 7], EOS]]
        return estimate(count(np.array(text), config.order, vocabulary_size), config).model
    return build_language_model(config, vocabulary_size).eval()


@pytest.mark.parametrize("name", MODELS)
def test_constructing_has_no_side_effects(name: str, settings: Settings, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.chdir(tmp_path)
    state = torch.get_rng_state()
    config = load_config(name.split("/")[0], settings(name))
    again = load_config(config.model_dump())
    assert again == config
    assert torch.equal(torch.get_rng_state(), state)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_of_all_sequences_sum_to_one(name: str, settings: Settings) -> None:
    size, length = 6, 3
    model = tiny_model(name, settings, size)
    words = [token for token in range(size) if token != EOS]
    ended = [(*body, EOS) for n in range(length) for body in itertools.product(words, repeat=n)]
    cut = list(itertools.product(words, repeat=length))
    total = 0.0
    for sequences in (ended, cut):
        for _, group in itertools.groupby(sorted(sequences, key=len), key=len):
            rows = torch.tensor(list(group))
            # <pad> and <bos> are tokens of the toy space like any other; only as filling is <pad> left out
            log_prob = sum_of_steps(model, rows)
            total += log_prob.exp().sum().item()
    assert total == pytest.approx(1.0, abs=1e-5)


@torch.inference_mode()
def sum_of_steps(model: Autoregressive, rows: torch.Tensor) -> torch.Tensor:
    state = model.start(len(rows))
    inputs = torch.full((len(rows),), BOS)
    total = torch.zeros(len(rows))
    for target in rows.T:
        log_probs, state = model.step(state, inputs)
        total += log_probs.gather(1, target[:, None])[:, 0]
        inputs = target
    return total


@pytest.mark.parametrize("name", MODELS)
def test_stepwise_scores_equal_parallel_scores(name: str, settings: Settings) -> None:
    model = tiny_model(name, settings, 11)
    rows = torch.randint(4, 11, (5, 12))
    with torch.inference_mode():
        parallel = model.log_prob(rows)
    torch.testing.assert_close(sum_of_steps(model, rows), parallel, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_padding_does_not_change_a_score(name: str, settings: Settings) -> None:
    model = tiny_model(name, settings, 11)
    row = torch.tensor([[5, 6, 7, EOS]])
    padded = torch.tensor([[5, 6, 7, EOS, PAD, PAD], [8, 9, 10, 4, 5, EOS]])
    with torch.inference_mode():
        torch.testing.assert_close(model.log_prob(padded)[:1], model.log_prob(row), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_a_prompt_read_at_once_equals_one_read_step_by_step(name: str, settings: Settings) -> None:
    model = tiny_model(name, settings, 11)
    prompt = torch.tensor([[BOS, 5, 6, 7, 8]])
    with torch.inference_mode():
        at_once, _ = model.read(model.start(1), prompt)
        state = model.start(1)
        for token in prompt[0]:
            stepwise, state = model.step(state, token[None])
    torch.testing.assert_close(stepwise, at_once, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", MODELS)
def test_sampling_is_reproducible_and_beam_search_agrees_with_log_prob(name: str, settings: Settings) -> None:
    model = tiny_model(name, settings, 11)
    drawn = model.sample(4, max_length=9, seed=3)
    assert drawn == model.sample(4, max_length=9, seed=3)
    assert drawn != model.sample(4, max_length=9, seed=4)
    (best,) = beam_search(model, [[5, 6]], 3, Limits(max_length=6))[0]
    with torch.inference_mode():
        prompt = model.log_prob(torch.tensor([[5, 6]]))
        whole = model.log_prob(torch.tensor([[5, 6, *best.tokens]]))
    assert best.log_prob == pytest.approx((whole - prompt).item(), abs=1e-4)


@pytest.mark.parametrize("name", NEURAL)
def test_fitting_improves_and_save_load_gives_identical_scores(name: str, settings: Settings, tmp_path: Path) -> None:
    more = ["training.steps=40", "training.validate_every=20", "training.optimizer.learning_rate=0.01"]
    model = seqloom.train(name.split("/")[0], settings(name, *more), tmp_path / "run")
    losses = [entry["loss"] for entry in read_metrics(tmp_path / "run") if "loss" in entry]
    assert losses[-1] < losses[0] - 0.2
    loaded = seqloom.load(tmp_path / "run", device="cpu")
    texts = ["the cat sat on the log", "a dog", ""]
    assert loaded.score(texts) == model.score(texts)
    assert loaded.generate(["the cat"], strategy="greedy") == model.generate(["the cat"], strategy="greedy")


@pytest.mark.parametrize("name", NEURAL)
def test_interrupted_and_resumed_equals_uninterrupted(name: str, settings: Settings, tmp_path: Path) -> None:
    seqloom.train(name.split("/")[0], settings(name), tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed")
    first, last = sorted((tmp_path / "resumed" / "checkpoints").iterdir())
    assert (first.name, last.name) == ("step-00000003", "step-00000006")
    shutil.rmtree(last)  # as if the process had died after step 3
    seqloom.train(name.split("/")[0], [], tmp_path / "resumed", resume=True)
    assert _figures(tmp_path / "resumed") == _figures(tmp_path / "whole")
    for file in ("model.safetensors", "checkpoints/step-00000006/training.safetensors"):
        assert (tmp_path / "resumed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


def _figures(folder: Path) -> list[dict[str, Any]]:
    timing = {"seconds", "tokens_per_second"}
    return [{key: value for key, value in entry.items() if key not in timing} for entry in read_metrics(folder)]


@pytest.mark.parametrize("name", NEURAL)
def test_bad_parameters_are_rejected_by_name(name: str, settings: Settings) -> None:
    config = load_config(name.split("/")[0], settings(name))
    for key, value in config.model.features.model_dump().items():
        if key == "kind" or isinstance(value, bool):
            continue
        wrong = "nonsense" if isinstance(value, str) else -1
        with pytest.raises(ConfigError, match=rf"model\.features\.{key}"):
            load_config(name.split("/")[0], settings(name, f"model.features.{key}={wrong}"))
    with pytest.raises(ConfigError, match=r"unknown key 'model\.features\.sizze'"):
        load_config(name.split("/")[0], settings(name, "model.features.sizze=3"))


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_counting_save_load_gives_identical_scores(name: str, settings: Settings, tmp_path: Path) -> None:
    model = seqloom.train("ngram", settings(name, "data.valid_fraction=0.2"), tmp_path / "run")
    (entry,) = read_metrics(tmp_path / "run")
    assert entry["valid_perplexity"] < model.tokenizer.size
    loaded = seqloom.load(tmp_path / "run", device="cpu")
    texts = ["the cat sat on the log", "a dog", ""]
    assert loaded.score(texts) == model.score(texts)
    assert loaded.generate(["the cat"], strategy="greedy") == model.generate(["the cat"], strategy="greedy")


@pytest.mark.parametrize("name", sorted(COUNTED))
def test_a_count_that_was_interrupted_is_done_again(name: str, settings: Settings, tmp_path: Path) -> None:
    seqloom.train("ngram", settings(name), tmp_path / "run")
    file = tmp_path / "run" / "model.safetensors"
    whole, written = file.read_bytes(), file.stat().st_mtime_ns
    seqloom.train("ngram", [], tmp_path / "run", resume=True)
    assert file.stat().st_mtime_ns == written  # it was finished: nothing to do
    file.unlink()
    seqloom.train("ngram", [], tmp_path / "run", resume=True)
    assert file.read_bytes() == whole


@pytest.mark.parametrize(
    ("key", "wrong"),
    [
        ("order", "0"),
        ("order", "1000"),
        ("smoothing", "kneser"),
        ("prune", "[1]"),
        ("prune", "[0, 2, 1]"),
        ("prune", "-1"),
        ("delta", "0"),
        ("epsilon", "-1"),
        ("discounts", "[1.5]"),
        ("discounts", "[]"),
        ("backoff", "1"),
    ],
)
def test_bad_parameters_of_counted_models_are_rejected_by_name(key: str, wrong: str) -> None:
    with pytest.raises(ConfigError, match=key):
        load_config("ngram", [f"model.{key}={wrong}"])
    with pytest.raises(ConfigError, match=r"unknown key 'model\.ordre' \(did you mean 'order'"):
        load_config("ngram", ["model.ordre=3"])
