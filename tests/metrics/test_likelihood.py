"""Entropy, cross-entropy, perplexity and bits per character, against closed forms and brute force."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from scipy.stats import entropy as scipy_entropy

from seqloom.config import load_config
from seqloom.data.store import TokenStore, Totals
from seqloom.metrics.likelihood import Likelihood, entropy, unit_likelihood
from seqloom.metrics.network_likelihood import text_likelihood
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.text.special import BOS, EOS, UNK


def model_of(kind: str, size: int = 20) -> LanguageModel:
    torch.manual_seed(1)
    settings = [f"model.features.kind={kind}", "model.embedding.size=8"]
    if kind == "transformer":
        settings += ["model.features.size=8", "model.features.heads=2", "model.features.layers=1"]
    elif kind == "lstm":
        settings += ["model.features.size=8"]
    return build_language_model(load_config({"training": {"steps": 1}}, settings).model, size).eval()


def random_store(length: int) -> TokenStore:
    tokens = np.random.default_rng(0).integers(3, 20, length).astype(np.uint16)  # <eos> among them
    return TokenStore(tokens, Totals(1, length, length, 4 * length, 0))


@torch.inference_mode()
def brute_force(model: LanguageModel, tokens: list[int]) -> float:
    """One token after the other, from the very beginning."""
    state, total, read = model.start(1), 0.0, BOS
    for token in tokens:
        log_probs, state = model.step(state, torch.tensor([read]))
        total += log_probs[0, token].item()
        read = BOS if token == EOS else token
    return total


def test_entropy_equals_scipy() -> None:
    distribution = np.random.default_rng(0).dirichlet(np.ones(9))
    assert entropy(distribution) == pytest.approx(scipy_entropy(distribution))
    assert entropy([1.0, 0.0]) == 0.0
    assert entropy([0.25] * 4) == pytest.approx(math.log(4))


def test_a_uniform_model_has_the_vocabulary_size_as_perplexity() -> None:
    found = Likelihood(log_prob=10 * math.log(1 / 7), tokens=10, words=5, characters=20, unknown=0, known_log_prob=0)
    assert found.perplexity == pytest.approx(7)
    assert found.word_perplexity == pytest.approx(49)
    assert found.bits_per_character == pytest.approx(math.log2(7) / 2)
    assert found.cross_entropy == pytest.approx(math.log(7))


def test_an_impossible_text_has_infinite_perplexity() -> None:
    assert Likelihood(-1e9, 10, 10, 10, 0, -1e9).perplexity == math.inf


@pytest.mark.parametrize("kind", ["lstm", "feedforward", "convolution"])
@pytest.mark.parametrize("length", [37, 64, 101])
def test_a_carried_state_reads_a_row_without_a_break(kind: str, length: int) -> None:
    model, store = model_of(kind), random_store(length)
    found = text_likelihood(model, store, length=8, rows=1)
    assert found.log_prob == pytest.approx(brute_force(model, store.tokens.tolist()), rel=1e-5)


@pytest.mark.parametrize("length", [8, 37, 50])
def test_overlapping_windows_score_every_token_once_from_enough_context(length: int) -> None:
    model, store = model_of("transformer"), random_store(length)
    window, overlap = 8, 4
    expected = 0.0
    for first in range(0, length, window - overlap):
        begin = max(0, first - overlap)
        piece = store.tokens[begin : min(length, first + window - overlap)].tolist()
        before = BOS if begin == 0 or store.tokens[begin - 1] == EOS else int(store.tokens[begin - 1])
        inputs = torch.tensor([[before] + [BOS if token == EOS else token for token in piece[:-1]]])
        with torch.inference_mode():
            features, _ = model(inputs)
            log_probs = model.output.log_prob(features, torch.tensor([piece]))[0]
        expected += log_probs[first - begin :].sum().item()
    found = text_likelihood(model, store, window, rows=1)
    assert found.log_prob == pytest.approx(expected, rel=1e-5)


def test_reading_in_several_rows_scores_every_token() -> None:
    """A model of one word of context loses nothing at the rows' beginnings, so the sums must agree exactly."""
    torch.manual_seed(0)
    settings = ["model.features.kind=feedforward", "model.features.context=1", "model.embedding.size=8"]
    model = build_language_model(load_config({"training": {"steps": 1}}, settings).model, 20).eval()
    store = random_store(1003)
    one = text_likelihood(model, store, length=10, rows=1)
    many = text_likelihood(model, store, length=10, rows=7)
    assert many.log_prob == pytest.approx(one.log_prob, rel=1e-6)


def test_units_are_scored_each_by_itself_whatever_the_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.models.autoregressive.SCORED_TOGETHER", 16)
    model = model_of("lstm")
    units = [[5, 6, 7, EOS], [EOS], [8] * 30 + [EOS], [9, EOS], [], [5, 6, 7, EOS]]
    tokens = np.array([token for unit in units for token in unit])
    lengths = np.array([len(unit) for unit in units])
    scores = model.unit_log_probs(tokens, lengths)
    found = [part.sum() for part in np.split(scores, np.cumsum(lengths)[:-1])]
    assert found == pytest.approx([brute_force(model, unit) for unit in units], abs=1e-4)


def test_a_store_is_scored_unit_by_unit_and_unknown_tokens_apart() -> None:
    model = model_of("lstm")
    tokens = np.array([5, UNK, 7, EOS, EOS, UNK, UNK, EOS, 8, 9, EOS], np.uint16)
    store = TokenStore(tokens, Totals(4, len(tokens), 9, 30, 3))
    scores = model.unit_log_probs(tokens, np.array([4, 1, 3, 3]))
    for piece in (1 << 22, 3):  # a unit longer than a piece too
        found = unit_likelihood(model, store, piece)
        assert found.log_prob == pytest.approx(scores.sum(), rel=1e-6)
        assert found.known_log_prob == pytest.approx(scores[tokens != UNK].sum(), rel=1e-6)
        assert found.known_perplexity == pytest.approx(math.exp(-scores[tokens != UNK].mean()))
    assert math.isnan(Likelihood(-1.0, 2, 2, 2, 2, 0.0).known_perplexity)
