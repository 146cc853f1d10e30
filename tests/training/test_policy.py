"""Policy gradients against the exact gradient, by going through all texts that a toy model can write."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.config import load_config
from seqloom.config.schema.reinforcement import (
    ActorCriticObjective,
    MinimumRiskObjective,
    PolicyGradientObjective,
    RewardAugmentedObjective,
)
from seqloom.data.windows import TokenBatch
from seqloom.decoding.rollout import Choose, Choosing, best, draw, rollout
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.text.special import BOS, EOS, PAD, SPECIALS
from seqloom.text.words import WhitespaceTokenizer
from seqloom.training.actor_critic import ActorCritic
from seqloom.training.objectives import Context
from seqloom.training.policy import LOOKS, MinimumRisk, PolicyGradient
from seqloom.training.reward_augmented import RewardAugmented, near

WORDS = 2
A, B = 4, 5
VOCABULARY = len(SPECIALS) + WORDS
LONGEST = 3
EXAMPLES = 8
Texts = list[str]


def tokenizer() -> WhitespaceTokenizer:
    return WhitespaceTokenizer.train(["a a b"])


def worth(texts: Texts, references: Any, sources: Texts) -> np.ndarray:
    """Any table of rewards will do: above 0, and higher for what begins with a, so that a baseline has something to
    take off."""
    rewards = [3.0 + 0.4 * text.count("a") - 0.9 * text.count("b") + (text == "b a") for text in texts]
    return np.array(rewards) + np.array([2.0 * (source == "a") for source in sources])


def toy(seed: int = 0, size: int = 4) -> LanguageModel:
    """A model of two words, which never writes another symbol than these and `<eos>`."""
    torch.manual_seed(seed)
    settings = ["model.embedding.size=3", "model.features.kind=rnn", f"model.features.size={size}"]
    settings.append("model.output.tied=false")
    model = build_language_model(load_config({"training": {"steps": 1}}, settings).model, VOCABULARY)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
        model.output.bias[:EOS] = -40.0
    return model


def batch() -> TokenBatch:
    """Examples of which half begin with a, half with b."""
    inputs = torch.tensor([[A, 4, 5], [B, 4, 5]]).repeat(EXAMPLES // 2, 1)
    targets = torch.tensor([[4, 5, EOS]]).expand(EXAMPLES, -1)
    return TokenBatch(inputs, targets.contiguous(), np.ones(EXAMPLES, bool))


def all_texts() -> Tensor:
    """Every text of at most LONGEST tokens, ended by `<eos>` or cut."""
    rows = set()
    for tokens in product((EOS, *range(len(SPECIALS), VOCABULARY)), repeat=LONGEST):
        end = tokens.index(EOS) + 1 if EOS in tokens else LONGEST
        rows.add((*tokens[:end], *[PAD] * (LONGEST - end)))
    return torch.tensor(sorted(rows))


def log_probs_of(model: LanguageModel, tokens: Tensor, begin: int) -> Tensor:
    """log p of texts after a word."""
    inputs = torch.cat([torch.full((len(tokens), 1), begin), tokens[:, :-1]], dim=1)
    log_probs = model.output.log_prob(model(inputs)[0], tokens)
    return log_probs.masked_fill(tokens == PAD, 0.0).sum(1)


def flat_gradient(model: LanguageModel, total: Tensor) -> Tensor:
    gradients = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
    return torch.cat(
        [
            (torch.zeros_like(parameter) if gradient is None else gradient).flatten()
            for parameter, gradient in zip(model.parameters(), gradients, strict=True)
        ]
    )


def rewards_of(tokens: Tensor, begin: int) -> Tensor:
    texts = [tokenizer().decode(row) for row in tokens.tolist()]
    return torch.tensor(worth(texts, None, [tokenizer().decode([begin])] * len(texts)), dtype=torch.float32)


def exact_gradient(model: LanguageModel, value: Callable[[Tensor, int], Tensor]) -> Tensor:
    """∇ Σ_y p(y | x) value(y, x), the mean over both beginnings x; value may depend on log p(y | x)."""
    tokens, total = all_texts(), torch.zeros(())
    for begin in (A, B):
        log_probs = log_probs_of(model, tokens, begin)
        assert log_probs.exp().sum().item() == pytest.approx(1.0, abs=1e-5)
        total = total + (log_probs.exp() * value(log_probs, begin)).sum() / 2
    return flat_gradient(model, total)


def objective(kind: type[Any], config: Any, model: LanguageModel) -> Any:
    made = kind(config, Context(tokenizer()))
    made.prepare(model)
    made.reward = worth
    return made


def draws(made: Any, model: LanguageModel, count: int) -> Iterator[Tensor]:
    for _ in range(count):
        yield -flat_gradient(model, made(model, batch()).total) / EXAMPLES


def policy(baseline: str, model: LanguageModel, **options: Any) -> PolicyGradient:
    config = PolicyGradientObjective(
        baseline=baseline, samples=4, longest=LONGEST, prompt=1, reward="constant", **options
    )
    return objective(PolicyGradient, config, model)


BASELINES = ["none", "mean", "learned", "leave-one-out", "greedy"]


@pytest.fixture(scope="module")
def estimates() -> dict[str, Tensor]:
    """Gradients of many batches under each baseline; what has something to learn has learned it before."""
    model, found = toy(), {}
    for baseline in BASELINES:
        torch.manual_seed(1)
        made = policy(baseline, model)
        learned = list(made.baseline.parameters())
        if learned:
            optimizer = torch.optim.Adam(learned, lr=0.1)
            for _ in range(100):
                optimizer.zero_grad()
                made(model, batch()).total.backward()
                optimizer.step()
        elif baseline == "mean":
            list(draws(made, model, 50))
        found[baseline] = torch.stack(list(draws(made, model, 250)))
    return found


@pytest.mark.parametrize("baseline", BASELINES)
def test_every_baseline_leaves_the_gradient_as_it_is_on_average(baseline: str, estimates: dict[str, Tensor]) -> None:
    exact = exact_gradient(toy(), lambda _, begin: rewards_of(all_texts(), begin))
    found = estimates[baseline]
    errors = found.std(0) / len(found) ** 0.5
    # Of some ninety numbers, the mean square of the deviations in units of their errors is near 1.
    counted = errors > 1e-7
    deviations = (found.mean(0) - exact)[counted] / errors[counted]
    assert deviations.pow(2).mean() < 2.0
    assert deviations.abs().max() < 5.0


def test_baselines_make_the_gradient_vary_less(estimates: dict[str, Tensor]) -> None:
    variance = {name: found.var(0).sum().item() for name, found in estimates.items()}
    assert variance["none"] > 3 * variance["mean"]
    for knows_the_example in ("leave-one-out", "greedy", "learned"):
        assert variance["mean"] > 1.5 * variance[knows_the_example]


def test_entropy_and_divergence_have_their_exact_gradients() -> None:
    model, before = toy(0), toy(1)
    made = policy("leave-one-out", model, entropy=0.3, divergence=0.7)
    made.first = before
    torch.manual_seed(2)
    found = torch.stack(list(draws(made, model, 300)))

    def value(log_probs: Tensor, begin: int) -> Tensor:
        divergence = log_probs - log_probs_of(before, all_texts(), begin).detach()
        return rewards_of(all_texts(), begin) - 0.3 * log_probs - 0.7 * divergence

    exact = exact_gradient(model, value)
    errors = found.std(0) / len(found) ** 0.5
    counted = errors > 1e-7
    deviations = (found.mean(0) - exact)[counted] / errors[counted]
    assert deviations.pow(2).mean() < 2.0


def test_above_its_limit_the_divergence_is_brought_down() -> None:
    model = toy(0)
    made = policy("leave-one-out", model, divergence_limit=1e-3)
    made.first = toy(1)
    torch.manual_seed(3)
    found = torch.stack(list(draws(made, model, 300)))

    def value(log_probs: Tensor, begin: int) -> Tensor:
        return log_probs_of(toy(1), all_texts(), begin).detach() - log_probs

    exact = exact_gradient(model, value)
    assert torch.cosine_similarity(found.mean(0), exact, dim=0) > 0.98


def test_the_policy_reaches_the_best_text() -> None:
    """The toy's best text under BLEU against one reference is that reference. Without the bonus for entropy, the model
    settles for `a b a b` before it has tried to end after three words."""
    model = toy()
    config = PolicyGradientObjective(samples=8, longest=4, prompt=1, reward="bleu", entropy=0.1)
    made = PolicyGradient(config, Context(tokenizer(), corpus=lambda: [("a b a",)]))
    made.prepare(model)
    texts = TokenBatch(
        torch.full((EXAMPLES, 4), BOS), torch.tensor([[4, 5, 4, EOS]]).repeat(EXAMPLES, 1), np.ones(EXAMPLES, bool)
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    torch.manual_seed(0)
    for _ in range(200):
        optimizer.zero_grad()
        (made(model, texts).total / EXAMPLES).backward()
        optimizer.step()
    written = rollout(Choosing(model, best), model.start(1), torch.tensor([[BOS]]), 4).tokens
    assert tokenizer().decode(written[0].tolist()) == "a b a"


@pytest.mark.parametrize("kind", [draw, best])
def test_a_rollout_says_how_probable_its_words_were(kind: Choose) -> None:
    """Also of rows that were dropped on the way, and nothing of what stands behind an end."""
    model = toy()
    words = torch.tensor([[A], [B]]).repeat(64, 1)
    written = rollout(Choosing(model, kind), model.start(len(words)), words, 40)
    tokens, real = written.tokens, written.tokens != PAD
    ends = (tokens == EOS).long()
    assert torch.equal(real, ends.cumsum(1) - ends == 0)
    assert torch.equal(written.chosen, real)
    inputs = torch.cat([words, tokens[:, :-1]], dim=1)
    expected = model.output.log_prob(model(inputs)[0], tokens).masked_fill(~real, 0.0)
    assert torch.allclose(written.log_probs, expected, atol=1e-4)


def test_the_divergence_is_looked_at_now_and_then() -> None:
    """Where it is only logged: the last look counts until the next."""
    model = toy()
    made = policy("leave-one-out", model)
    logged = []
    for _ in range(LOOKS + 1):
        logged.append((made(model, batch()).logs["divergence"] / batch().tokens).item())
        with torch.no_grad():
            model.output.bias[A] += 0.5
    assert logged[0] == pytest.approx(0.0, abs=1e-5)
    assert logged[:LOOKS] == [logged[0]] * LOOKS
    assert logged[LOOKS] > 0.1


def test_with_all_words_given_mixer_is_likelihood() -> None:
    model = toy()
    made = policy("none", model, mixer=0.5)
    made.advance(0.0)
    loss = made(model, batch())
    expected = -sum(log_probs_of(model, batch().targets[row::2], begin).sum() for row, begin in enumerate((A, B)))
    assert loss.total.item() == pytest.approx(expected.item(), rel=1e-5)
    made.advance(0.5)
    assert made._given(batch().targets) is None
    made.advance(0.25)  # half of three words, rounded up
    given = made._given(batch().targets)
    assert given is not None
    assert given[0].tolist() == [4, 5, PAD]


def test_a_mixture_is_the_sum_of_its_parts() -> None:
    model = toy()
    made = policy("none", model, likelihood=0.25)
    torch.manual_seed(5)
    mixed = made(model, batch()).total
    torch.manual_seed(5)
    alone = policy("none", model)(model, batch()).total
    truth = -model.output.log_prob(model(batch().inputs)[0], batch().targets).sum()
    assert mixed.item() == pytest.approx((0.75 * alone + 0.25 * truth).item(), rel=1e-5)


def test_minimum_risk_is_the_expected_reward_of_the_texts_that_were_written() -> None:
    model = toy()
    config = MinimumRiskObjective(samples=6, longest=LONGEST, prompt=1, sharpness=0.3, reward="constant")
    made = objective(MinimumRisk, config, model)
    torch.manual_seed(4)
    total = made(model, batch()).total
    torch.manual_seed(4)
    words = batch().inputs[:, :1].repeat_interleave(6, 0)
    tokens = rollout(Choosing(model, draw), model.start(len(words)), words, LONGEST).tokens
    expected = 0.0
    for example in range(EXAMPLES):
        rows = torch.tensor(sorted({tuple(row) for row in tokens[6 * example : 6 * example + 6].tolist()}))
        begin = int(words[6 * example])
        shares = (0.3 * log_probs_of(model, rows, begin)).softmax(0)
        expected -= (shares * rewards_of(rows, begin)).sum().item() / 0.3
    assert total.item() == pytest.approx(expected, rel=1e-4)


# ---------------------------------------------------------------------------------------------------- actor and critic


def critic(model: LanguageModel, **options: Any) -> ActorCritic:
    config = ActorCriticObjective(longest=LONGEST, prompt=1, reward="constant", **options)
    return objective(ActorCritic, config, model)


@pytest.mark.parametrize(("decay", "discount"), [(0.0, 1.0), (0.7, 0.9), (1.0, 1.0), (1.0, 0.8)])
def test_advantages_are_sums_of_fading_surprises(decay: float, discount: float) -> None:
    made = critic(toy(), decay=decay, discount=discount)
    tokens = torch.tensor([[4, 5, EOS], [EOS, PAD, PAD], [4, 4, 4]])
    values = torch.tensor([[0.5, -0.2, 0.8], [0.3, 0.0, 0.0], [0.1, 0.2, 0.3]])
    rewards = torch.tensor([1.0, 2.0, -1.0])
    expected = torch.zeros(3, 3)
    for row, length in enumerate([3, 1, 3]):
        following = 0.0
        for step in reversed(range(length)):
            last = step == length - 1
            ahead = rewards[row] if last else discount * values[row, step + 1]
            following = float(ahead - values[row, step]) + discount * decay * following
            expected[row, step] = following
    assert torch.allclose(made.advantages(values, rewards, tokens), expected, atol=1e-6)
    if decay == discount == 1.0:  # the reward itself, less what was expected of the state
        assert torch.allclose(expected[0], rewards[0] - values[0])


def test_only_the_critic_learns_at_first_and_the_target_follows_slowly() -> None:
    model = toy()
    made = critic(model, pretraining=0.5, target_rate=0.25)
    made.advance(0.2)
    made(model, batch()).total.backward()
    assert all(parameter.grad is None for parameter in model.parameters())
    assert made.critic.value.weight.grad is not None
    with torch.no_grad():
        made.critic.value.bias.fill_(1.0)
    made.advance(0.6)
    assert made.target.value.bias.item() == pytest.approx(0.25)
    made(model, batch()).total.backward()
    assert all(parameter.grad is not None for parameter in model.parameters())
    assert all(parameter.grad is None for parameter in made.target.parameters())


def test_the_critic_learns_what_to_expect_after_each_word() -> None:
    """V(s) of every prefix is the mean reward of the texts that go on from it."""
    model = toy(size=16)
    made = critic(model, pretraining=1.0, decay=1.0, samples=16)
    optimizer = torch.optim.Adam(made.critic.parameters(), lr=0.02)
    torch.manual_seed(0)
    for _ in range(250):
        made.advance(0.0)
        optimizer.zero_grad()
        (made(model, batch()).total / EXAMPLES).backward()
        optimizer.step()
    tokens = all_texts()
    chances, rewards = log_probs_of(model, tokens, A).exp(), rewards_of(tokens, A)
    given = TokenBatch(torch.full((len(tokens), 1), A), tokens, np.ones(len(tokens), bool))
    episodes = made.episodes(model, given)
    with torch.no_grad():
        values = made.critic(episodes, tokens)
    for prefix in ((), (4,), (5,)):
        rows = (tokens[:, : len(prefix)] == torch.tensor(prefix)).all(1)
        expected = (chances[rows] * rewards[rows]).sum() / chances[rows].sum()
        found = values[rows, len(prefix)].mean()
        assert abs(found - expected) < 0.3, prefix


# ----------------------------------------------------------------------------------------------- texts near the truth


def test_as_many_words_are_replaced_as_the_distribution_says() -> None:
    torch.manual_seed(0)
    targets = torch.tensor([[4, 5, 6, EOS, PAD]]).repeat(20_000, 1)
    drawn = near(targets, 8, temperature=0.8)
    assert torch.equal(drawn[:, 3:], targets[:, 3:])
    assert drawn[:, :3].min() >= len(SPECIALS)
    assert drawn[:, :3].max() < 8
    counts = torch.bincount((drawn != targets).sum(1), minlength=4) / len(drawn)
    expected = (-torch.arange(4) / 0.8).softmax(0)
    assert torch.allclose(counts, expected, atol=0.012)
    changed = drawn[drawn[:, 0] != 4, 0]
    assert torch.allclose(torch.bincount(changed, minlength=8)[5:] / len(changed), torch.full((3,), 1 / 3), atol=0.03)


def test_reward_augmented_likelihood_reads_what_it_predicts() -> None:
    """A window's inputs are its targets shifted, whatever was replaced."""
    seen: list[TokenBatch] = []
    made = RewardAugmented(RewardAugmentedObjective(temperature=5.0))
    made.of_text.forward = lambda model, batch: seen.append(batch)  # type: ignore[method-assign, assignment, return-value, func-returns-value]
    inputs = torch.tensor([[BOS, 4, 5, BOS]])
    made(toy(), TokenBatch(inputs, torch.tensor([[4, 5, EOS, 5]]), np.ones(1, bool)))
    (read,) = seen
    assert read.targets[0, 2] == EOS
    assert read.inputs[0, 0] == read.inputs[0, 3] == BOS
    assert torch.equal(read.inputs[0, 1:3], read.targets[0, :2])
