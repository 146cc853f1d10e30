"""The contract: every model in the package goes through this module. A new model adds itself to `MODELS`, or, if
it has sources, to `PAIRED`.

construct without side effects; fit; log_prob is normalised; stepwise scores equal parallel scores; sample; save, load,
identical scores; interrupted and resumed equals uninterrupted; bad parameters rejected by name.
"""

from __future__ import annotations

import itertools
import shutil
from collections.abc import Callable
from pathlib import Path
from statistics import mean
from typing import Any

import numpy as np
import pytest
import torch

import seqloom
from seqloom.config import load_config
from seqloom.config.schema import ElmoConfig, NgramModelConfig
from seqloom.decoding import Limits, beam_search
from seqloom.errors import ConfigError
from seqloom.models import Autoregressive, Seq2Seq, Source, build_language_model, build_seq2seq
from seqloom.models.elmo import build_elmo
from seqloom.models.ngram import count, estimate
from seqloom.text import Vocabulary
from seqloom.text.special import BOS, EOS, PAD, SPECIALS
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
    "gru/class-softmax": ["model.features.size=12", "model.output.kind=class-softmax"],
    "lstm/tree-softmax": ["model.features.size=12", "model.output.kind=tree-softmax"],
    "lstm/adaptive-softmax": ["model.features.size=12", "model.output.kind=adaptive-softmax"],
    "lstm/sampled-softmax": ["model.features.size=12", "model.output.kind=sampled-softmax", "model.output.samples=64"],
    "gru/noise-contrastive": ["model.output.kind=noise-contrastive", "model.output.normaliser=learned"],
    "rnn/negative-sampling": ["model.features.size=12", "model.output.kind=negative-sampling"],
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
BOTH_WAYS: dict[str, list[str]] = {
    "elmo": ["model.input.filters=[2,2,2,2,4]", "model.output.samples=8"],
    "elmo/cells": ["model.input.filters=[2,2,2,2,4]", "model.cells=14", "model.output.kind=softmax"],
    "elmo-words": ["model.output.kind=softmax"],
}
HIDDEN: dict[str, list[str]] = {  # log p(x) is an integral: probabilities are summed in tests/text_vae, given a code
    "text-vae": ["model.size=4", "model.encoder.size=12", "model.decoder.size=12"],
    "text-vae/transformer": ["model.size=4", "model.decoder={kind: transformer, size: 16, layers: 1, heads: 2}"],
}
MODELS = sorted(TINY | COUNTED | BOTH_WAYS)
NEURAL = sorted(TINY | BOTH_WAYS | HIDDEN)

Settings = Callable[..., list[str]]


@pytest.fixture
def settings(corpus_file: Path) -> Settings:
    """The settings that make a preset tiny and train it on the tiny corpus."""

    def make(name: str, *more: str) -> list[str]:
        text = [f"data.train={corpus_file}", "data.valid=null", "data.unit=line", "text.min_count=1"]
        if name in COUNTED:
            return [*text, *COUNTED[name], *more]
        return [
            *text,
            "data.batch_size=4",
            "data.length=8",
            *(["model.size=10"] if name in BOTH_WAYS else ["model.embedding.size=10"]),
            *(TINY | BOTH_WAYS | HIDDEN)[name],
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
    if isinstance(config, ElmoConfig):
        spelled = [f"word{number}" for number in range(len(SPECIALS), vocabulary_size)]
        return build_elmo(config, Vocabulary(spelled)).eval()
    return build_language_model(config, vocabulary_size).eval()


@pytest.mark.parametrize("name", [*MODELS, *HIDDEN])
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
def sum_of_steps(model: Autoregressive, rows: torch.Tensor, source: Source | None = None) -> torch.Tensor:
    state = model.start(len(rows), source)
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
    learning = ["training.optimizer.learning_rate=0.03", "training.schedule.warmup=5"]
    more = ["training.steps=60", "training.validate_every=20", *learning]
    model = seqloom.train(name.split("/")[0], settings(name, *more), tmp_path / "run")
    losses = [entry["loss"] for entry in read_metrics(tmp_path / "run") if "loss" in entry]
    assert mean(losses[-8:]) < mean(losses[:8]) - 0.2  # it begins as the distribution of the words
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


@pytest.mark.parametrize("name", sorted(BOTH_WAYS))
def test_bad_parameters_of_both_directions_are_rejected_by_name(name: str, settings: Settings) -> None:
    for key in ("size", "layers", "cells", "dropout", "input.highways", "input.widths"):
        if name == "elmo-words" and key.startswith("input"):
            continue
        with pytest.raises(ConfigError, match=rf"model\.{key}"):
            load_config(name.split("/")[0], settings(name, f"model.{key}=-1"))
    with pytest.raises(ConfigError, match=r"unknown key 'model\.sizze'"):
        load_config(name.split("/")[0], settings(name, "model.sizze=3"))


@pytest.mark.parametrize("name", sorted(TINY))
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


# ------------------------------------------------------------------------------------------------- models of pairs

LSTM = {"kind": "lstm", "size": 12, "dropout": 0.1}
GRU = {"kind": "gru", "size": 12, "dropout": 0.1}
TRANSFORMER = {"kind": "transformer", "size": 16, "layers": 2, "heads": 2, "dropout": 0.1}
CONVOLUTION = {"kind": "convolution", "size": 12, "layers": 2, "dropout": 0.1}
NOTHING = {"kind": "none"}
COVERAGE = {"kind": "coverage", "size": 8}
LOCATION = {"kind": "location", "size": 8, "filters": 2, "width": 3}
POINTER = {"copying": {"kind": "pointer"}}
SELECTIVE = {"copying": {"kind": "selective"}}
PAIRED: dict[str, dict[str, Any]] = {
    "rnn": {"encoder": {"kind": "rnn", "size": 12}, "decoder": {"kind": "rnn", "size": 12, "attention": NOTHING}},
    "fed": {"encoder": GRU, "decoder": {**GRU, "attention": NOTHING, "feed": True, "summary": "sum"}},
    "lstm": {"encoder": {**LSTM, "layers": 2}, "decoder": {**LSTM, "layers": 2}},
    "coverage": {"encoder": {**GRU, "bidirectional": False}, "decoder": {**GRU, "attention": COVERAGE}},
    "convolution": {"encoder": CONVOLUTION, "decoder": CONVOLUTION},
    "transformer": {"encoder": TRANSFORMER, "decoder": TRANSFORMER},
    "classes": {"encoder": GRU, "decoder": GRU, "output": {"kind": "class-softmax"}},
    "noise": {"encoder": GRU, "decoder": TRANSFORMER, "output": {"kind": "noise-contrastive", "samples": 8}},
    "copying tree": {"encoder": GRU, "decoder": GRU, "output": {"kind": "tree-softmax"}, **POINTER},
    "second look": {"encoder": TRANSFORMER, "decoder": {**TRANSFORMER, "attention": LOCATION}},
    "copying": {"encoder": LSTM, "decoder": {**LSTM, "attention": COVERAGE}, **POINTER},
    "copying convolution": {"encoder": CONVOLUTION, "decoder": CONVOLUTION, **POINTER},
    "copying transformer": {"encoder": TRANSFORMER, "decoder": {**TRANSFORMER, "attention": LOCATION}, **POINTER},
    "selective": {"encoder": GRU, "decoder": TRANSFORMER, **SELECTIVE},
}
OBJECTIVES: dict[str, dict[str, Any]] = {
    "fed": {"kind": "scheduled-sampling", "decay": "linear", "begin": 0.9, "choice": "sample"},
    "convolution": {"kind": "scheduled-sampling", "decay": "exponential", "begin": 0.8, "end": 0.2},
    "coverage": {"kind": "teacher-forcing", "coverage": 0.5, "label_smoothing": 0.1},
    "copying": {"kind": "scheduled-sampling", "decay": "constant", "begin": 0.5},
}
paired = pytest.mark.parametrize("name", sorted(PAIRED))


def pair_model(name: str, vocabulary_size: int) -> Seq2Seq:
    torch.manual_seed(0)
    tree = {"kind": "seq2seq", "embedding": {"size": 10}, **PAIRED[name]}
    config = load_config({"model": tree, "data": {"kind": "pairs"}, "objective": {"kind": "teacher-forcing"}}).model
    return build_seq2seq(config, vocabulary_size).eval()


def sources(*rows: list[int]) -> Source:
    width = max(map(len, rows))
    tokens = torch.tensor([[*row, *[PAD] * (width - len(row))] for row in rows])
    return Source(tokens, torch.tensor([len(row) for row in rows]))


def repeated(source: Source, times: int) -> Source:
    return Source(source.tokens.repeat(times, 1), source.lengths.repeat(times))


@pytest.fixture
def pairs(corpus_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., dict[str, Any]]:
    """The configuration that trains a model of pairs to say sentences backwards, each of which has its own name."""
    monkeypatch.setattr("seqloom.runs.training.report", lambda trained: None)
    lines = corpus_file.read_text(encoding="utf-8").splitlines()
    rows = [[f"name{number}", *line.split()] for number, line in enumerate(lines)]
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(f"{' '.join(row)}\t{' '.join(reversed(row))}\n" for row in rows), encoding="utf-8")

    def make(name: str, **training: Any) -> dict[str, Any]:
        return {
            "text": {"kind": "whitespace", "min_count": 2},
            "data": {"kind": "pairs", "train": str(path), "batch_tokens": 160},
            "model": {"kind": "seq2seq", "embedding": {"size": 10, "dropout": 0.1}, **PAIRED[name]},
            "objective": OBJECTIVES.get(name, {"kind": "teacher-forcing"}),
            "training": {"steps": 6, "log_every": 1, "validate_every": 3, "device": "cpu", **training},
        }

    return make


@paired
def test_constructing_a_model_of_pairs_has_no_side_effects(
    name: str, pairs: Callable[..., dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    state = torch.get_rng_state()
    config = load_config(pairs(name))
    assert load_config(config.model_dump()) == config
    assert torch.equal(torch.get_rng_state(), state)
    assert not list((tmp_path / "here").iterdir())


@paired
def test_probabilities_of_all_targets_of_a_source_sum_to_one(name: str) -> None:
    size, length = 6, 3
    model = pair_model(name, size)
    copies = "copying" in PAIRED[name]
    source = sources([4, size, 5, size + 1, EOS] if copies else [4, 5, 5, 4, EOS])
    words = [token for token in range(size + 2 * copies) if token != EOS]
    total = 0.0
    for ended, lengths in ((True, range(length)), (False, [length])):
        for bodies in (list(itertools.product(words, repeat=n)) for n in lengths):
            rows = torch.tensor([[*body, EOS] if ended else list(body) for body in bodies])
            total += sum_of_steps(model, rows, repeated(source, len(rows))).exp().sum().item()
    assert total == pytest.approx(1.0, abs=1e-5)


@paired
def test_stepwise_scores_of_targets_equal_parallel_scores(name: str) -> None:
    model = pair_model(name, 11)
    rows = torch.randint(4, 11, (5, 12))
    source = sources([4, 5, EOS], [6, EOS], [4, 4, 7, 8, EOS], [10, 9, EOS], [5, EOS])
    with torch.inference_mode():
        parallel = model.log_prob(rows, source)
    torch.testing.assert_close(sum_of_steps(model, rows, source), parallel, rtol=1e-5, atol=1e-5)


@paired
def test_padding_of_neither_side_changes_the_score_of_a_pair(name: str) -> None:
    model = pair_model(name, 11)
    with torch.inference_mode():
        alone = model.log_prob(torch.tensor([[5, 6, 7, EOS]]), sources([8, 4, EOS]))
        padded = torch.tensor([[5, 6, 7, EOS, PAD, PAD], [8, 9, 10, 4, 5, EOS]])
        together = model.log_prob(padded, sources([8, 4, EOS], [9, 9, 4, 7, 6, 5, EOS]))
    torch.testing.assert_close(together[:1], alone, rtol=1e-5, atol=1e-5)


@paired
def test_a_prefix_read_at_once_equals_one_read_step_by_step(name: str) -> None:
    model, source = pair_model(name, 11), sources([7, 4, 9, EOS])
    prefix = torch.tensor([[BOS, 5, 6, 7, 8]])
    with torch.inference_mode():
        at_once, _ = model.read(model.start(1, source), prefix)
        state = model.start(1, source)
        for token in prefix[0]:
            stepwise, state = model.step(state, token[None])
    torch.testing.assert_close(stepwise, at_once, rtol=1e-5, atol=1e-5)


@paired
def test_sampling_targets_is_reproducible_and_beam_search_agrees_with_log_prob(name: str) -> None:
    model, source = pair_model(name, 11), sources([7, 4, 9, EOS], [5, EOS])
    drawn = model.sample(2, max_length=9, seed=3, source=source)
    assert drawn == model.sample(2, max_length=9, seed=3, source=source)
    assert drawn != model.sample(2, max_length=9, seed=4, source=source)
    found = beam_search(model, [[5, 6], [8]], 3, Limits(max_length=6), n_best=3, source=source)
    for row, (prefix, several) in enumerate(zip([[5, 6], [8]], found, strict=True)):
        own = Source(source.tokens[row : row + 1], source.lengths[row : row + 1])
        for hypothesis in several:
            with torch.inference_mode():
                begin = model.log_prob(torch.tensor([prefix]), own)
                whole = model.log_prob(torch.tensor([[*prefix, *hypothesis.tokens]]), own)
            assert hypothesis.log_prob == pytest.approx((whole - begin).item(), abs=1e-4)


@paired
def test_fitting_pairs_improves_and_save_load_gives_identical_scores(
    name: str, pairs: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    config = pairs(name, steps=24, validate_every=12, optimizer={"learning_rate": 0.02})
    model = seqloom.train(config, out=tmp_path / "run")
    losses = [entry["loss"] for entry in read_metrics(tmp_path / "run") if "loss" in entry]
    assert mean(losses[-8:]) < mean(losses[:8]) - 0.2  # it begins as the distribution of the words
    loaded = seqloom.load(tmp_path / "run", device="cpu")
    texts = ["the cat sat on the log", "name7 a dog", "x"]
    assert loaded.score(texts, texts) == model.score(texts, texts)
    assert loaded.generate(texts, n_best=2) == model.generate(texts, n_best=2)


@paired
def test_interrupted_and_resumed_training_on_pairs_equals_uninterrupted(
    name: str, pairs: Callable[..., dict[str, Any]], tmp_path: Path
) -> None:
    seqloom.train(pairs(name), out=tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "resumed")
    first, last = sorted((tmp_path / "resumed" / "checkpoints").iterdir())
    assert (first.name, last.name) == ("step-00000003", "step-00000006")
    shutil.rmtree(last)  # as if the process had died after step 3
    seqloom.train(pairs(name), out=tmp_path / "resumed", resume=True)
    assert _figures(tmp_path / "resumed") == _figures(tmp_path / "whole")
    for file in ("model.safetensors", "checkpoints/step-00000006/training.safetensors"):
        assert (tmp_path / "resumed" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


@paired
def test_bad_parameters_of_models_of_pairs_are_rejected_by_name(
    name: str, pairs: Callable[..., dict[str, Any]]
) -> None:
    model = load_config(pairs(name)).model.model_dump()
    parts = {"encoder": model["encoder"], "decoder": model["decoder"], "copying": model["copying"]}
    parts["decoder.attention"] = model["decoder"]["attention"]
    for part, options in parts.items():
        for key, value in options.items():
            if key == "kind" or isinstance(value, bool | dict):
                continue
            wrong = "nonsense" if isinstance(value, str) else -1
            with pytest.raises(ConfigError, match=rf"model\.{part}\.{key}"):
                load_config(pairs(name), [f"model.{part}.{key}={wrong}"])
        with pytest.raises(ConfigError, match=rf"unknown key 'model\.{part}\.sizze'"):
            load_config(pairs(name), [f"model.{part}.sizze=3"])
