"""Linear interpolation: a probability like any other, with the best weights there are, in a folder of its own."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scipy.optimize import minimize_scalar

import seqloom
from seqloom.config import load_config
from seqloom.config.schema.ngram import NgramModelConfig
from seqloom.data.corpus import Corpus
from seqloom.errors import ConfigError, DataError, UserError
from seqloom.kinds import interpolation
from seqloom.models.autoregressive import Autoregressive
from seqloom.models.interpolation import Interpolation, fit_weights, gradient
from seqloom.models.language import build_language_model
from seqloom.models.ngram.counting import count
from seqloom.models.ngram.estimation import estimate
from seqloom.text.special import BOS, EOS, PAD
from seqloom.training import read_metrics

pytestmark = pytest.mark.usefixtures("no_reports")

SIZE = 8  # of the toy vocabulary

# --------------------------------------------------------------------------------------------------------- weights

log_probabilities = st.integers(2, 5).flatmap(
    lambda models: arrays(np.float64, (models, 30), elements=st.floats(-20, 0) | st.just(-math.inf)).map(
        lambda log_probs: np.where(log_probs.max(axis=0) > -math.inf, log_probs, -3.0)  # possible under some model
    )
)


def likelihood(weights: np.ndarray, log_probs: np.ndarray) -> float:
    """Mean log Σ λ_i p_i."""
    with np.errstate(divide="ignore"):
        return float(np.log(weights @ np.exp(log_probs)).mean())


@given(log_probabilities)
@settings(max_examples=60, deadline=None)
def test_the_likelihood_never_falls_from_one_step_to_the_next(log_probs: np.ndarray) -> None:
    weights = np.full(len(log_probs), 1 / len(log_probs))
    before = likelihood(weights, log_probs)
    for _ in range(20):
        weights = weights * gradient(weights, np.exp(log_probs))
        assert weights.sum() == pytest.approx(1)
        now = likelihood(weights, log_probs)
        assert now >= before - 1e-12
        before = now


@given(log_probabilities, st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_no_other_weights_are_better_than_the_fitted_ones(log_probs: np.ndarray, seed: int) -> None:
    weights = fit_weights(log_probs)
    assert weights.sum() == pytest.approx(1)
    assert (weights >= 0).all()
    best = likelihood(weights, log_probs)
    others = np.random.default_rng(seed).dirichlet(np.full(len(weights), 0.5), size=200)
    assert max(likelihood(other, log_probs) for other in [*others, *np.eye(len(weights))]) <= best + 1.01e-6


@pytest.mark.parametrize("seed", range(5))
def test_two_weights_are_those_that_scipy_finds(seed: int) -> None:
    log_probs = -np.random.default_rng(seed).exponential([[2.0], [2.5]], size=(2, 500))
    found = minimize_scalar(
        lambda weight: -likelihood(np.array([weight, 1 - weight]), log_probs),
        bounds=(0, 1),
        method="bounded",
        options={"xatol": 1e-9},
    )
    weights = fit_weights(log_probs)
    assert likelihood(weights, log_probs) == pytest.approx(-found.fun, abs=1e-6)
    assert weights[0] == pytest.approx(found.x, abs=5e-3)


def test_weights_are_the_shares_of_the_tokens_when_each_has_one_model() -> None:
    """Where every token is possible under one model only, that model's share is its weight, in closed form."""
    log_probs = np.full((3, 10), -math.inf)
    log_probs[0, :2], log_probs[1, 2:7], log_probs[2, 7:] = -1.0, -900.0, -3.0
    np.testing.assert_allclose(fit_weights(log_probs), [0.2, 0.5, 0.3], atol=1e-6)


def test_tokens_that_are_impossible_under_all_models_change_nothing() -> None:
    log_probs = -np.random.default_rng(0).exponential(size=(2, 50))
    more = np.concatenate([np.full((2, 7), -math.inf), log_probs], axis=1)
    np.testing.assert_array_equal(fit_weights(more), fit_weights(log_probs))
    np.testing.assert_array_equal(fit_weights(np.full((4, 3), -math.inf)), [0.25] * 4)
    never = np.stack([log_probs[0], np.full(50, -math.inf)])
    np.testing.assert_allclose(fit_weights(never), [1, 0], atol=1e-6)


# ----------------------------------------------------------------------------------------------------- probabilities


@pytest.fixture(scope="module")
def parts() -> list[Autoregressive]:
    """Two n-gram models (one that calls much impossible) and an LSTM over one vocabulary."""
    generator = np.random.default_rng(1)
    text = np.array([token for _ in range(60) for token in [*generator.integers(4, SIZE, 4), EOS]])
    configs = [NgramModelConfig(order=3), NgramModelConfig(order=2, smoothing="maximum-likelihood")]
    counted = [estimate(count(text, config.order, SIZE), config).model for config in configs]
    torch.manual_seed(0)
    config = load_config("lstm", ["model.embedding.size=6", "model.features.size=6"]).model
    return [*counted, build_language_model(config, SIZE).eval()]


@pytest.fixture(scope="module")
def mixture(parts: list[Autoregressive]) -> Interpolation:
    """A mixture of the LSTM and a mixture."""
    return Interpolation([parts[2], Interpolation(parts[:2], [0.4, 0.6])], [0.3, 0.7])


WEIGHTS = (0.7 * 0.4, 0.7 * 0.6, 0.3)  # of the parts


@given(st.lists(st.integers(4, SIZE - 1), max_size=5))
@settings(max_examples=30, deadline=None)
def test_the_next_word_is_as_probable_as_the_parts_say_together(mixture, parts, history: list[int]) -> None:
    read = torch.tensor([[BOS, *history]])
    with torch.inference_mode():
        found = mixture.read(mixture.start(1), read)[0].exp()
        singly = [part.read(part.start(1), read)[0].exp() for part in parts]
    assert found.sum().item() == pytest.approx(1, abs=1e-5)
    expected = sum(weight * part for weight, part in zip(WEIGHTS, singly, strict=True))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-7)


def test_steps_rows_and_units_give_the_same_scores(mixture: Interpolation) -> None:
    rows = torch.tensor([[4, 5, 6, EOS, PAD, PAD], [7, 7, 4, 5, 6, EOS]])
    with torch.inference_mode():
        scores = mixture.token_log_probs(rows)
        state, tokens, steps = mixture.start(2), torch.full((2,), BOS), []
        for column in rows.T:
            log_probs, state = mixture.step(state, tokens)
            steps.append(log_probs.gather(1, column[:, None])[:, 0])
            tokens = column.masked_fill((column == PAD) | (column == EOS), 4)
    assert (scores[0, 4:] == 0).all()
    inside = rows != PAD
    torch.testing.assert_close(torch.stack(steps, dim=1)[inside], scores[inside])
    units = mixture.unit_log_probs(rows[inside].numpy(), np.array([4, 6]))
    np.testing.assert_allclose(units, scores[inside].numpy(), rtol=1e-5)


def test_a_weight_of_zero_leaves_a_model_out(parts: list[Autoregressive]) -> None:
    rows = torch.tensor([[4, 5, EOS]])
    alone = Interpolation(parts[:2], [1.0, 0.0])
    torch.testing.assert_close(alone.token_log_probs(rows), parts[0].token_log_probs(rows))
    assert alone.unit_log_probs(rows[0].numpy(), np.array([3])) == pytest.approx(parts[0].token_log_probs(rows)[0])


@pytest.mark.parametrize("weights", [[0.5], [0.5, 0.6], [1.5, -0.5], [math.nan, 1.0]])
def test_weights_that_do_not_share_one_among_the_models_are_refused(parts: list[Autoregressive], weights) -> None:
    with pytest.raises(ConfigError, match="weights"):
        Interpolation(parts[:2], weights)


# --------------------------------------------------------------------------------------------------------------- runs


@pytest.fixture(scope="module")
def novel(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The Time Machine in four parts: for two models, for their weights, and for validation."""
    lines = list(Corpus.open("time-machine"))
    folder = tmp_path_factory.mktemp("novel")
    cuts = [0, len(lines) * 2 // 5, len(lines) * 4 // 5, len(lines) * 9 // 10, len(lines)]
    files = {}
    for name, begin, end in zip(("first", "second", "held", "valid"), cuts, cuts[1:], strict=False):
        files[name] = folder / f"{name}.txt"
        files[name].write_text("\n".join(lines[begin:end]) + "\n", encoding="utf-8")
    return files


@pytest.fixture(scope="module")
def runs(
    novel: dict[str, Path], without_reports: Callable[[], Any], tmp_path_factory: pytest.TempPathFactory
) -> list[Path]:
    """Two n-gram runs over one vocabulary, of different orders and texts."""
    folder = tmp_path_factory.mktemp("runs")
    one, other = folder / "one", folder / "other"
    with without_reports():
        seqloom.train("ngram", [f"data.train={novel['first']}", "model.order=3"], one)
        more = [f"data.train={novel['second']}", "model.order=4", "text.kind=run", f"text.path={one}"]
        seqloom.train("ngram", more, other)
    return [one, other]


Settings = Callable[..., list[str]]


@pytest.fixture
def mixing(runs: list[Path], novel: dict[str, Path]) -> Settings:
    """The settings that mix runs."""

    def make(*more: str, of: list[Path] = runs) -> list[str]:
        return [f"model.runs=[{','.join(map(str, of))}]", f"data.train={novel['held']}", *more]

    return make


def test_a_mixture_predicts_held_out_text_better_than_its_parts(
    runs: list[Path], mixing: Settings, novel: dict[str, Path], tmp_path: Path
) -> None:
    mix = seqloom.train("interpolation", mixing(f"data.valid={novel['valid']}"), tmp_path / "mix")
    (entry,) = read_metrics(tmp_path / "mix")
    singly = [seqloom.load(run).evaluate(str(novel["held"])).perplexity for run in runs]
    assert entry["perplexities"] == pytest.approx(singly)
    assert entry["perplexity"] < min(singly) * 0.95
    assert mix.evaluate(str(novel["held"])).perplexity == pytest.approx(entry["perplexity"], rel=1e-6)
    assert mix.evaluate().perplexity == pytest.approx(entry["valid_perplexity"])
    assert entry["valid_loss"] == pytest.approx(math.log(entry["valid_perplexity"]))
    assert entry["tokens"] == mix.evaluate(str(novel["held"])).tokens
    assert sum(entry["weights"]) == pytest.approx(1)
    assert all(0.05 < weight < 0.95 for weight in entry["weights"])


def test_a_mixture_stands_on_its_own_and_is_loaded_as_it_was(
    runs: list[Path], mixing: Settings, tmp_path: Path
) -> None:
    copies = [Path(shutil.copytree(run, tmp_path / run.name)) for run in runs]
    made = seqloom.train("interpolation", mixing(of=copies), tmp_path / "mix")
    texts = ["the time traveller smiled", "", "an unheard-of word"]
    scores, said = made.score(texts), made.generate(["the"], strategy="beam", beam=3, n_best=3)
    for copy in copies:
        shutil.rmtree(copy)
    loaded = seqloom.load(tmp_path / "mix")
    assert loaded.score(texts) == scores
    assert loaded.generate(["the"], strategy="beam", beam=3, n_best=3) == said
    assert loaded.parameters == made.parameters == sum(seqloom.load(run).parameters for run in runs) + 2
    assert seqloom.load(tmp_path / "mix" / "assets" / "runs" / "1").score(texts) == seqloom.load(runs[1]).score(texts)
    assert loaded.signature.startswith("tokenizer words; ")


def test_a_mixture_that_was_interrupted_is_made_again(
    mixing: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = seqloom.train("interpolation", mixing(), tmp_path / "made")
    file = tmp_path / "made" / "model.safetensors"
    written = file.stat().st_mtime_ns
    seqloom.train("interpolation", [], tmp_path / "made", resume=True)
    assert file.stat().st_mtime_ns == written  # it was finished: nothing to do

    def stopped(log_probs: list[np.ndarray]) -> np.ndarray:
        raise KeyboardInterrupt

    monkeypatch.setattr(interpolation, "fit_weights", stopped)
    with pytest.raises(KeyboardInterrupt):
        seqloom.train("interpolation", mixing(), tmp_path / "stopped")
    monkeypatch.setattr(interpolation, "fit_weights", fit_weights)
    again = seqloom.train("interpolation", [], tmp_path / "stopped", resume=True)
    assert (tmp_path / "stopped" / "model.safetensors").read_bytes() == file.read_bytes()
    assert again.score(["the time"]) == made.score(["the time"])


def test_given_weights_are_used_as_they_are_and_mixtures_can_be_mixed(
    runs: list[Path], mixing: Settings, tmp_path: Path
) -> None:
    seqloom.train("interpolation", mixing("model.weights=[0.25,0.75]"), tmp_path / "inner")
    outer = seqloom.train(
        "interpolation", mixing("model.weights=[0.5,0.5]", of=[tmp_path / "inner", runs[0]]), tmp_path / "outer"
    )
    shutil.rmtree(tmp_path / "inner")
    text = ["nothing but the truth"]
    outer = seqloom.load(tmp_path / "outer")
    tokens, lengths = outer.tokenizer.encode_flat(text)
    first, second = (np.exp(seqloom.load(run).model.unit_log_probs(tokens, lengths)) for run in runs)
    expected = np.log((0.5 * 0.25 + 0.5) * first + 0.5 * 0.75 * second).sum()
    assert outer.log_prob(text) == pytest.approx([expected], rel=1e-5)


def test_a_neural_run_can_be_part_of_a_mixture(corpus_file: Path, tmp_path: Path) -> None:
    text = [f"data.train={corpus_file}", "data.unit=line"]
    small = ["data.batch_size=4", "data.length=8", "model.embedding.size=8", "model.features.size=8"]
    short = ["training.steps=4", "training.device=cpu"]
    lstm = seqloom.train("lstm", [*text, "text.min_count=1", *small, *short], tmp_path / "lstm")
    shared = ["text.kind=run", f"text.path={tmp_path / 'lstm' / 'assets' / 'tokenizer.json'}"]
    seqloom.train("ngram", [*text, "model.order=2", *shared], tmp_path / "ngram")
    mixed = [f"model.runs=[{tmp_path / 'ngram'},{tmp_path / 'lstm'}]", "training.device=cpu"]
    mix = seqloom.train("interpolation", [*text, *mixed, "data.valid_fraction=0.2"], tmp_path / "mix")
    (entry,) = read_metrics(tmp_path / "mix")
    assert entry["perplexity"] <= min(entry["perplexities"]) * (1 + 1e-6)
    assert entry["weights"][0] > 0.9  # of a model that has hardly begun to learn, there is little to take
    assert mix.tokenizer.to_json() == lstm.tokenizer.to_json()
    assert mix.sample(3, max_length=5, seed=1) == seqloom.load(tmp_path / "mix", "cpu").sample(3, max_length=5, seed=1)


# ----------------------------------------------------------------------------------------------------------- mistakes


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("model.runs=[runs/a]", r"model\.runs: .*at least 2"),
        ("model.weights=[0.5]", "2 runs need as many weights, not 1"),
        ("model.weights=[0.5,0.6]", "weights must sum to 1, not 1.1"),
        ("model.weights=[1.5,-0.5]", r"model\.weights\.1: .*greater than or equal to 0"),
        ("model.wieghts=[0.5,0.5]", r"unknown key 'model\.wieghts' \(did you mean 'model.weights'"),
    ],
)
def test_a_mixture_that_cannot_be_is_refused_by_name(setting: str, said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        load_config("interpolation", [setting])


def test_runs_that_do_not_mix_are_refused_and_nothing_is_written(
    runs: list[Path], mixing: Settings, novel: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    characters, scores, missing = (tmp_path / name for name in ("characters", "scores", "missing"))
    text = f"data.train={novel['first']}"
    seqloom.train("ngram", [text, "text.kind=characters", "model.order=2"], characters)
    seqloom.train("ngram", [text, "model.smoothing=stupid-backoff", "model.order=2"], scores)
    for other, said in (
        (characters, f"text.path={runs[0]}"),
        (scores, "stupid back-off gives scores"),
        (missing, "missing is not a run folder"),
    ):
        with pytest.raises(UserError, match=said):
            seqloom.train("interpolation", mixing(of=[runs[0], other]), tmp_path / "mix")
        assert not (tmp_path / "mix").exists()
    monkeypatch.setattr(interpolation, "LONGEST", 3)
    seqloom.train("interpolation", mixing(), tmp_path / "long")  # n-grams read units of any length
    monkeypatch.setattr(interpolation, "NgramModel", type(None))
    with pytest.raises(DataError, match=r"a unit of \d+ tokens, too many .* data\.unit=line"):
        seqloom.train("interpolation", mixing(), tmp_path / "mix")


# ------------------------------------------------------------------------------------------- the tokeniser of a run


@pytest.mark.parametrize("kind", ["words", "whitespace", "characters", "bpe", "unigram"])
def test_a_run_can_take_the_tokeniser_of_another(kind: str, corpus_file: Path, tmp_path: Path) -> None:
    size = ["text.max_size=270"] if kind == "bpe" else ["text.max_size=30"] if kind == "unigram" else []
    text = [f"data.train={corpus_file}", "model.order=2"]
    one = seqloom.train("ngram", [*text, f"text.kind={kind}", *size], tmp_path / "one")
    (tmp_path / "other.txt").write_text("entirely other words\n" * 9)
    shared = [f"data.train={tmp_path / 'other.txt'}", "model.order=2", "text.kind=run", f"text.path={one.path}"]
    seqloom.train("ngram", shared, tmp_path / "other")
    shutil.rmtree(tmp_path / "one")
    other = seqloom.load(tmp_path / "other")  # its own copy
    assert other.tokenizer.to_json() == one.tokenizer.to_json()
    assert (other.config.text.kind, other.config.text.path) == ("run", str(one.path))


def test_the_tokeniser_is_that_of_the_run_as_it_is_now(corpus_file: Path, tmp_path: Path) -> None:
    text = [f"data.train={corpus_file}", "model.order=2"]
    shared = [*text, "text.kind=run", f"text.path={tmp_path / 'one'}"]
    for number, kind in enumerate(("words", "characters")):
        shutil.rmtree(tmp_path / "one", ignore_errors=True)
        seqloom.train("ngram", [*text, f"text.kind={kind}"], tmp_path / "one")
        assert seqloom.train("ngram", shared, tmp_path / str(number)).tokenizer.kind == kind


def test_a_tokeniser_that_is_not_there_is_named(corpus_file: Path, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere/assets/tokenizer\.json"):
        seqloom.train("ngram", [f"data.train={corpus_file}", "text.kind=run", "text.path=nowhere"], tmp_path / "run")
    with pytest.raises(ConfigError, match=r"text\.path"):
        load_config("ngram", ["text.kind=run"])
    assert not (tmp_path / "run").exists()
