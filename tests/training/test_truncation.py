"""Back-propagation through time: truncated, and randomly truncated without bias."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from seqloom.config import load_config
from seqloom.config.schema.objectives import LikelihoodObjective, RandomTruncationObjective
from seqloom.data.windows import TokenBatch
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.training.objectives import MaximumLikelihood, RandomTruncation

FRESH = np.ones(3, dtype=bool)


def tiny_rnn(kind: str = "rnn") -> LanguageModel:
    torch.manual_seed(3)
    settings = [f"model.features.kind={kind}", "model.features.size=5", "model.embedding.size=4"]
    return build_language_model(load_config({"training": {"steps": 1}}, settings).model, 9).double()


def window(length: int) -> TokenBatch:
    tokens = torch.randint(4, 9, (3, length + 1), generator=torch.Generator().manual_seed(0))
    return TokenBatch(tokens[:, :-1], tokens[:, 1:], FRESH)


def gradients(model: LanguageModel, objective: MaximumLikelihood, batch: TokenBatch) -> list[torch.Tensor]:
    model.zero_grad()
    objective(model, batch).total.backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


@pytest.mark.parametrize("kind", ["rnn", "lstm", "gru"])
def test_randomly_truncated_gradients_are_unbiased(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """E[z] = ∂h/∂w: the mean over all outcomes of ξ, weighted by their probabilities, is the full gradient."""
    model, batch, keep = tiny_rnn(kind), window(5), 0.3
    exact = gradients(model, MaximumLikelihood(LikelihoodObjective()), batch)
    mean = [torch.zeros_like(gradient) for gradient in exact]
    boundaries = 4  # one before each step but the first
    for outcome in itertools.product([True, False], repeat=boundaries):
        draws = iter(outcome)
        monkeypatch.setattr(torch, "rand", lambda *_: torch.tensor(0.0 if next(draws) else 0.99))  # noqa: B023
        probability = keep ** sum(outcome) * (1 - keep) ** (boundaries - sum(outcome))
        for total, gradient in zip(
            mean, gradients(model, RandomTruncation(RandomTruncationObjective(keep=keep, every=1)), batch), strict=True
        ):
            total += probability * gradient
    for expected, found in zip(exact, mean, strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-12)


def test_always_keeping_is_full_back_propagation() -> None:
    model, batch = tiny_rnn(), window(7)
    exact = gradients(model, MaximumLikelihood(LikelihoodObjective()), batch)
    for expected, found in zip(
        exact, gradients(model, RandomTruncation(RandomTruncationObjective(keep=1.0, every=2)), batch), strict=True
    ):
        torch.testing.assert_close(found, expected)


def test_truncation_keeps_values_and_cuts_gradients_at_the_window() -> None:
    model, batch = tiny_rnn(), window(8)
    whole = MaximumLikelihood(LikelihoodObjective())
    loss = whole(model, batch).total
    halves = MaximumLikelihood(LikelihoodObjective())
    first = halves(model, TokenBatch(batch.inputs[:, :4], batch.targets[:, :4], FRESH)).total
    second = halves(model, TokenBatch(batch.inputs[:, 4:], batch.targets[:, 4:], ~FRESH)).total
    torch.testing.assert_close(first + second, loss)
    full = torch.autograd.grad(loss, list(model.parameters()))
    truncated = torch.autograd.grad(first + second, list(model.parameters()))
    assert any(not torch.allclose(a, b) for a, b in zip(full, truncated, strict=True))


@pytest.mark.parametrize("length", [8, 4], ids=["whole", "truncated"])
def test_gradients_are_those_written_out_by_hand(length: int) -> None:
    """∂L/∂h_t = ∂l_t/∂h_t + Uᵀ D_{t+1} ∂L/∂h_{t+1}, ∂L/∂U = Σ D_t ∂L/∂h_t h_{t-1}ᵀ, ∂L/∂W = Σ D_t ∂L/∂h_t x_tᵀ with
    D = diag(1 - h²); nothing comes back over the border of a window, though the state goes on."""
    model, batch = tiny_rnn(), window(8)
    weights = dict(model.features.named_parameters())
    recurrent, reading = (weights[f"layers.0.network.{name}_l0"] for name in ("weight_hh", "weight_ih"))
    objective, total = MaximumLikelihood(LikelihoodObjective()), torch.zeros(()).double()
    for first in range(0, 8, length):
        columns = slice(first, first + length)
        part = TokenBatch(batch.inputs[:, columns], batch.targets[:, columns], np.full(3, first == 0))
        total = total + objective(model, part).total
    found = torch.autograd.grad(total, [recurrent, reading])

    with torch.no_grad():
        words = model.embedding(batch.inputs)
        features, _ = model(batch.inputs)
    leaf = features.clone().requires_grad_()
    (own,) = torch.autograd.grad(model.output.loss(leaf, batch.targets), leaf)  # ∂l_t/∂h_t
    by_recurrent, by_reading = torch.zeros_like(recurrent), torch.zeros_like(reading)
    behind = torch.zeros_like(own[:, 0])  # what comes back from the step after
    for step in reversed(range(8)):
        slope = (own[:, step] + behind) * (1 - features[:, step] ** 2)
        before = features[:, step - 1] if step else torch.zeros_like(slope)
        by_recurrent += slope.t() @ before
        by_reading += slope.t() @ words[:, step]
        behind = slope @ recurrent if step % length else torch.zeros_like(behind)
    torch.testing.assert_close(found[0], by_recurrent)
    torch.testing.assert_close(found[1], by_reading)


def test_a_fresh_batch_forgets_what_was_carried() -> None:
    model, batch = tiny_rnn(), window(4)
    objective = MaximumLikelihood(LikelihoodObjective())
    once = objective(model, batch).total
    torch.testing.assert_close(objective(model, batch).total, once)
    assert not torch.allclose(objective(model, TokenBatch(batch.inputs, batch.targets, ~FRESH)).total, once)


@pytest.mark.parametrize("kind", ["lstm", "feedforward", "convolution"])
def test_only_fresh_rows_forget(kind: str) -> None:
    torch.manual_seed(3)
    settings = [f"model.features.kind={kind}", "model.embedding.size=4"]
    model = build_language_model(load_config({"training": {"steps": 1}}, settings).model, 9).double()
    batch = window(4)
    objective = MaximumLikelihood(LikelihoodObjective())
    objective(model, batch)
    carried = objective.carried
    assert carried is not None
    mixed = objective.before(model, TokenBatch(batch.inputs, batch.targets, np.array([False, True, False])))
    assert mixed is not None
    for name, tensor in model.start(3).items():
        assert mixed[name][1].equal(tensor[1].double())
        assert mixed[name][[0, 2]].equal(carried[name][[0, 2]])


def test_regularisers_add_what_their_formulas_say() -> None:
    model, batch = tiny_rnn(), window(6)
    features, _ = model(batch.inputs)
    plain = MaximumLikelihood(LikelihoodObjective())(model, batch).total
    regularised = MaximumLikelihood(LikelihoodObjective(activation=2.0, temporal=0.5))(model, batch).total
    slow = (features[:, 1:] - features[:, :-1]).pow(2).mean()
    torch.testing.assert_close(regularised - plain, batch.tokens * (2.0 * features.pow(2).mean() + 0.5 * slow))
