"""Dynamic evaluation: the rule itself, what it may have seen, and that the model stays as it was."""

from __future__ import annotations

import copy

import numpy as np
import pytest
import torch

from seqloom.config import load_config
from seqloom.errors import UserError
from seqloom.metrics.dynamic import Rates, Reading, chosen_rates, dynamic_log_probs, mean_squares
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.text.special import BOS

SIZE = 12
LENGTH = 8
STABLE = 1e-2


class Tokens:
    """What is asked of a store here."""

    def __init__(self, tokens: np.ndarray) -> None:
        self.tokens = tokens


def network(kind: str) -> LanguageModel:
    sizes = ["model.features.size=8", "model.features.dropout=0.3", "model.embedding.size=8"]
    torch.manual_seed(0)
    return build_language_model(load_config(kind, sizes).model, SIZE)


def some_text(size: int = 50, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).integers(4, SIZE, size)


def log_probs_of(model: LanguageModel, tokens: np.ndarray) -> np.ndarray:
    """log p of the tokens by weights that stay, all read at once."""
    row = torch.from_numpy(tokens)[None]
    inputs = torch.cat([torch.full((1, 1), BOS), row[:, :-1]], dim=1)
    with torch.no_grad():
        features, _ = model.eval()(inputs)
        return model.output.log_prob(features, row)[0].double().numpy()


@pytest.mark.parametrize("kind", ["lstm", "transformer", "feedforward"])
def test_who_learns_nothing_predicts_as_ever(kind: str) -> None:
    model, tokens = network(kind), some_text()
    reading = Reading(length=len(tokens) + 3, segment=3)  # so that a Transformer sees all that came before
    squares = mean_squares(model, Tokens(some_text(seed=1)), reading)
    found = dynamic_log_probs(model, tokens, squares, Rates(0.0, 0.01), reading)
    np.testing.assert_allclose(found, log_probs_of(model, tokens), rtol=1e-4)


def test_a_step_is_that_of_the_formula() -> None:
    """The first segment is predicted by θ_g, the second by θ_g - η ∇L ⊘ (√MS + ε), the third is pulled back too."""
    model, tokens, reading = network("transformer").double().eval(), some_text(9), Reading(40, segment=3)
    trained_on = some_text(30, seed=1)
    rates = Rates(learning=0.02, decay=0.3)
    weights = {name: weight.detach().clone() for name, weight in model.named_parameters()}

    def learned_from(changed: LanguageModel, text: np.ndarray, first: int) -> dict[str, torch.Tensor]:
        changed.zero_grad()
        whole = torch.from_numpy(text)[None]
        inputs = torch.cat([torch.full((1, 1), BOS), whole[:, :-1]], dim=1)
        features, _ = changed(inputs[:, : first + 3])
        loss = -changed.output.log_prob(features, whole[:, : first + 3])[0, first:].sum()
        loss.backward()
        return {name: weight.grad.clone() for name, weight in changed.named_parameters()}

    squares = {name: torch.zeros_like(weight) for name, weight in weights.items()}
    for first in range(0, 30, 3):
        for name, gradient in learned_from(model, trained_on, first).items():
            squares[name] += gradient**2 / 10
    model.zero_grad(set_to_none=True)
    for ours, theirs in zip(mean_squares(model, Tokens(trained_on), reading), squares.values(), strict=True):
        torch.testing.assert_close(ours, theirs)

    mean = torch.cat([square.sqrt().flatten() for square in squares.values()]).mean()
    changing, expected = copy.deepcopy(model), []
    for first in (0, 3, 6):
        expected.append(log_probs_of(changing, tokens)[first : first + 3])
        gradients = learned_from(changing, tokens, first)
        with torch.no_grad():
            for name, weight in changing.named_parameters():
                root = squares[name].sqrt()
                pull = (rates.decay * root / mean).clamp(max=1.0) * (weights[name] - weight)
                weight += pull - rates.learning * gradients[name] / (root + STABLE)
    found = dynamic_log_probs(model, tokens, list(squares.values()), rates, reading, STABLE)
    np.testing.assert_allclose(found, np.concatenate(expected), rtol=1e-9)


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_a_text_that_repeats_itself_is_predicted_better_and_the_model_stays_as_it_is(kind: str) -> None:
    model = network(kind)
    before = copy.deepcopy(model.state_dict())
    tokens, reading = np.tile(some_text(6), 20), Reading(LENGTH, segment=4)
    squares = mean_squares(model, Tokens(some_text(200, seed=1)), reading)
    stays, learns = (dynamic_log_probs(model, tokens, squares, Rates(rate, 1e-3), reading) for rate in (0.0, 3e-3))
    assert learns.sum() > stays.sum() + 5
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    assert all(weight.grad is None for weight in model.parameters())


@pytest.mark.parametrize("kind", ["lstm", "transformer"])
def test_no_token_is_predicted_by_weights_that_saw_it_or_a_later_one(kind: str) -> None:
    model, tokens, reading = network(kind), some_text(), Reading(LENGTH, segment=4)
    squares = mean_squares(model, Tokens(some_text(seed=1)), reading)
    changed = tokens.copy()
    changed[30:] = 4 + (changed[30:] - 3) % (SIZE - 4)
    one, other = (dynamic_log_probs(model, text, squares, Rates(1e-2, 1e-3), reading) for text in (tokens, changed))
    np.testing.assert_array_equal(one[:30], other[:30])
    assert (one[30:] != other[30:]).any()


def test_decay_brings_weights_back_to_where_training_left_them() -> None:
    """With λ so large that it is 1 for all, what was learned two steps ago is forgotten but for terms of η²."""
    model, reading = network("feedforward").double(), Reading(LENGTH, segment=4)
    squares = [torch.ones_like(weight) for weight in model.parameters()]
    end = some_text(12, 3)  # so long that the network sees nothing else in the end
    texts = [np.concatenate([some_text(4, seed), end]) for seed in (1, 2)]

    def difference(decay: float) -> float:
        one, other = (dynamic_log_probs(model, text, squares, Rates(1e-4, decay), reading) for text in texts)
        return float(abs(one - other)[-1])  # what it sees of earlier segments, it saw with other weights

    assert 0 < difference(decay=1.0) < 0.01 * difference(decay=0.0)


def test_rates_are_those_that_predict_best_and_never_those_that_break_it() -> None:
    model, reading = network("lstm"), Reading(LENGTH, segment=4)
    squares = mean_squares(model, Tokens(some_text(200, seed=1)), reading)
    store = Tokens(np.tile(some_text(6), 20))
    candidates = [Rates(1e6, 0.0), Rates(0.0, 0.0), Rates(3e-3, 1e-3)]
    assert chosen_rates(model, store, squares, candidates, reading) == candidates[2]


@pytest.mark.parametrize("rates", [(-1.0, 0.0), (float("nan"), 0.0), (1e-4, -0.1), (1e-4, float("inf"))])
def test_rates_are_finite_and_not_negative(rates: tuple[float, float]) -> None:
    with pytest.raises(UserError, match="must be a finite number, 0 or more"):
        Rates(*rates)
