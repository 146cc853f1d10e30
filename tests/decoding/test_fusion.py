"""Shallow fusion against enumeration: the searches know nothing of it, so they must find the best of the sums."""

from __future__ import annotations

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.decoding import Greedy, Limits, Sampler, beam_search, exhaustive_search, generate
from seqloom.decoding.fusion import Fusion
from seqloom.errors import ConfigError
from seqloom.text.special import BOS, EOS, PAD

three_models = st.tuples(
    st.integers(0, 10**6),  # seed of the tables
    st.floats(0.01, 3.0),
    st.floats(0.01, 3.0),
    st.lists(st.sampled_from([0, 4, 5]), max_size=3),  # prompt
)


@pytest.fixture(scope="session")
def fused(random_model, rescore):
    """A function that makes a fusion of three models of different memories, and one that sums a sequence's scores."""

    def make(seed: int, first: float, second: float):
        model, one, other = (random_model(seed + order, order=order, sharpness=2.0) for order in (2, 1, 3))

        def score(prompt, tokens) -> float:
            weighted = ((model, 1.0), (one, first), (other, second))
            return sum(weight * rescore(part, prompt, tokens) for part, weight in weighted)

        return Fusion(model, [(one, first), (other, second)]), score

    return make


@given(three_models)
@settings(max_examples=30, deadline=None)
def test_scores_are_the_weighted_sums_of_log_probabilities(fused, chosen) -> None:
    seed, first, second, prompt = chosen
    fusion, score = fused(seed, first, second)
    scores, state = fusion.read(fusion.start(1), torch.tensor([[BOS, *prompt]]))
    for token in (0, EOS, 4, 5):
        assert scores[0, token].item() == pytest.approx(score(prompt, [token]), abs=1e-5)
    scores, _ = fusion.step(state, torch.tensor([5]))
    for token in (0, EOS, 4, 5):
        assert scores[0, token].item() == pytest.approx(score([*prompt, 5], [token]), abs=1e-5)


@given(three_models, st.sampled_from([0.0, 0.6]), st.integers(1, 5))
@settings(max_examples=30, deadline=None)
def test_a_wide_beam_finds_the_best_of_all_sequences(fused, chosen, alpha, n_best) -> None:
    seed, first, second, prompt = chosen
    fusion, score = fused(seed, first, second)
    limits = Limits(3)
    (found,) = beam_search(fusion, [prompt], 4**3, limits, alpha, n_best)
    assert found == exhaustive_search(fusion, limits, prompt, n_best, alpha)
    words = [token for token in range(6) if token not in (PAD, BOS, EOS)]
    space = [(*body, EOS) for length in range(3) for body in itertools.product(words, repeat=length)]
    space += itertools.product(words, repeat=3)
    ranked = sorted(-score(prompt, tokens) / ((5 + len(tokens)) / 6) ** alpha for tokens in space)
    assert [-hypothesis.score for hypothesis in found] == pytest.approx(ranked[:n_best], abs=1e-5)


@given(st.integers(0, 10**6), st.lists(st.lists(st.sampled_from([0, 4, 5]), max_size=4), min_size=1, max_size=4))
@settings(max_examples=20, deadline=None)
def test_every_model_keeps_up_with_the_beam(fused, seed, prompts) -> None:
    """Narrow beams drop and repeat rows: each model's state must follow."""
    fusion, score = fused(seed, 0.7, 0.4)
    for prompt, hypotheses in zip(prompts, beam_search(fusion, prompts, 3, Limits(7, 2), n_best=3), strict=True):
        for hypothesis in hypotheses:
            assert hypothesis.log_prob == pytest.approx(score(prompt, hypothesis.tokens), abs=1e-4)


def test_another_model_changes_what_greedy_search_says(table_model) -> None:
    model = table_model(torch.tensor([0.0, 0.0, 0.0, 0.1, 0.5, 0.4]).log().expand(6, 6))
    other = table_model(torch.tensor([0.0, 0.0, 0.0, 0.1, 0.3, 0.6]).log().expand(6, 6))
    limits = Limits(1)
    (alone,) = generate(model, [[]], Greedy(), limits)
    (a_little,) = generate(Fusion(model, [(other, 0.1)]), [[]], Greedy(), limits)
    (much,) = generate(Fusion(model, [(other, 1.0)]), [[]], Greedy(), limits)
    assert (alone.tokens, a_little.tokens, much.tokens) == ((4,), (4,), (5,))
    assert a_little.log_prob == pytest.approx(math.log(0.5) + 0.1 * math.log(0.3))
    assert much.log_prob == pytest.approx(math.log(0.4) + math.log(0.6))


def test_samples_follow_the_normalised_product(table_model) -> None:
    one, other = torch.tensor([0.0, 0.0, 0.0, 0.2, 0.5, 0.3]), torch.tensor([0.0, 0.0, 0.0, 0.6, 0.1, 0.3])
    fusion = Fusion(table_model(one.log().expand(6, 6)), [(table_model(other.log().expand(6, 6)), 0.5)])
    drawn = generate(fusion, [[]], Sampler(), Limits(1), samples=20_000)
    found = torch.bincount(torch.tensor([hypothesis.tokens[0] for hypothesis in drawn]), minlength=6) / len(drawn)
    expected = one * other**0.5
    torch.testing.assert_close(found, expected / expected.sum(), rtol=0, atol=0.015)


def test_what_one_model_calls_impossible_stays_impossible(table_model) -> None:
    model = table_model(torch.tensor([0.0, 0.0, 0.0, 0.1, 0.9, 0.0]).log().expand(6, 6))
    other = table_model(torch.tensor([0.0, 0.0, 0.0, 0.5, 0.0, 0.5]).log().expand(6, 6))
    found = exhaustive_search(Fusion(model, [(other, 0.01)]), Limits(3), n_best=9)
    assert [hypothesis.tokens for hypothesis in found] == [(EOS,)]


@pytest.mark.parametrize("weight", [0.0, -0.5, math.inf, math.nan])
def test_a_weight_that_is_not_positive_is_refused(random_model, weight: float) -> None:
    with pytest.raises(ConfigError, match="a number above 0"):
        Fusion(random_model(0), [(random_model(1), weight)])


def test_models_of_other_vocabularies_are_refused(random_model) -> None:
    with pytest.raises(ConfigError, match=r"different sizes \(6, 7\)"):
        Fusion(random_model(0, words=2), [(random_model(1, words=3), 0.5)])
