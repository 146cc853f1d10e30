"""Training on what texts are judged by: the model writes, a reward judges, and what was good becomes more probable."""

from __future__ import annotations

from abc import abstractmethod
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.config.schema.objectives import LikelihoodObjective
from seqloom.config.schema.reinforcement import MinimumRiskObjective, PolicyGradientObjective, RewardedObjective
from seqloom.decoding.graphs import GraphSteps
from seqloom.decoding.rollout import Choose, Choosing, Rollout, best, draw
from seqloom.models.conditional import Conditional
from seqloom.text.special import PAD
from seqloom.training.baselines import Baseline, Written, build_baseline
from seqloom.training.episodes import Episodes, Writer, episodes_of, writing
from seqloom.training.objectives import Context, Loss, MaximumLikelihood, Objective
from seqloom.training.pair_objectives import TeacherForcing
from seqloom.training.rewards import Reward, build_reward
from seqloom.training.written import WrittenTexts

LOOKS = 8  # updates between two looks at the divergence, where it is only logged: a look is a pass of another model


class Rewarded(Objective):
    """What all objectives that follow a reward have in common.

    A text is written by the model as it is, without dropout, and so is it judged in the pass that the gradient comes
    from: what was sampled and what is learned are the same distribution p(y | x) = Π_t p(y_t | y_<t, x).

    The reward R of a text may be shaped by how probable it is: R - β log p(y) / p₀(y) - α log p(y), where p₀ is the
    model that the training began with. Their means are β times the divergence from p₀ and α times the entropy.
    """

    config: RewardedObjective
    reward: Reward

    def __init__(self, config: RewardedObjective, context: Context | None = None) -> None:
        super().__init__(config, context)
        self.done = 0.0
        self.of_text = MaximumLikelihood(LikelihoodObjective(), context)
        self.of_pairs = TeacherForcing(config, context)
        self.first: nn.Module | None = None
        """p₀"""
        self.register_buffer("updates", torch.zeros((), dtype=torch.long))
        self.register_buffer("apart", torch.zeros(()))
        """The divergence when it was last looked at."""
        self._steps: dict[Choose, GraphSteps] = {}  # on a GPU, by how tokens are chosen

    def prepare(self, model: Writer) -> None:
        """Read what rewards need, and keep the model as it is now."""
        self.reward = build_reward(self.config.reward, self.context.corpus, self.context.judge)
        self.first = deepcopy(model).requires_grad_(False).eval()

    def advance(self, done: float) -> None:
        self.done = done

    def forward(self, model: Writer, batch: Any) -> Loss:
        updates = self.get_buffer("updates")
        self._looks = int(updates) % LOOKS == 0  # asked for here, where a GPU has little left to do
        updates.add_(1)
        with writing(model):
            episodes = self.episodes(model, batch)
            total, logs = self.follow(model, episodes)
        share = self.config.likelihood
        if share:
            truth = (self.of_pairs if isinstance(model, Conditional) else self.of_text)(model, batch)
            total = (1 - share) * total + share * truth.total
            logs["cross_entropy"] = truth.logs["loss"] / batch.tokens
        counted = {name: value.detach() * batch.tokens for name, value in logs.items()}
        return Loss(total, batch.tokens, {"loss": total.detach(), **counted})

    def state(self) -> dict[str, Tensor]:
        return self.of_text.state()

    def restore(self, state: dict[str, Tensor]) -> None:
        self.of_text.restore(state)

    @abstractmethod
    def follow(self, model: Writer, episodes: Episodes) -> tuple[Tensor, dict[str, Tensor]]:
        """What the rewards of texts come to, a sum over the examples, and means to be logged."""

    # ------------------------------------------------------------------------------------------- writing and judging

    def episodes(self, model: Writer, batch: Any) -> Episodes:
        """What is to be written in a batch."""
        assert self.context.tokenizer is not None
        episodes = episodes_of(model, batch, self.context.tokenizer, self.context.texts, self.config.prompt)
        if model.device.type == "cuda":
            episodes.choosing = partial(self._recorded, model)
        return episodes

    def _recorded(self, model: Writer, choose: Choose) -> GraphSteps:
        if choose not in self._steps:
            self._steps[choose] = GraphSteps(Choosing(model, choose))
        return self._steps[choose]

    def longest(self, episodes: Episodes) -> int:
        """Tokens that a text may have."""
        return self.config.longest or episodes.longest

    def rewards(self, episodes: Episodes, tokens: Tensor) -> Tensor:
        """Of texts [examples · samples, time], on the processor: [examples, samples], where the model is."""
        samples = len(tokens) // len(episodes.truth)
        references = [several for several in episodes.references for _ in range(samples)]
        sources = [source for source in episodes.sources for _ in range(samples)]
        assert self.context.tokenizer is not None
        texts = WrittenTexts(tokens.numpy(), self.context.tokenizer, partial(episodes.spelled, tokens))
        found = self.reward(texts, references, sources)
        return torch.as_tensor(found, dtype=torch.float32).to(episodes.truth.device).view(-1, samples)

    def shaped(self, episodes: Episodes, written: Rollout, texts: Tensor) -> tuple[Tensor, dict[str, Tensor]]:
        """The rewards with what entropy and divergence add to them, and means to be logged.

        texts: the tokens on the processor, which finds the rewards while a GPU is busy with all that was asked of it.
        """
        config, samples = self.config, self.config.samples
        needed = bool(config.divergence or config.divergence_limit)
        apart = self.get_buffer("apart")
        if needed:
            divergence = self.divergence(episodes, written, texts, slice(None))
            apart.copy_(divergence.mean())
        elif self._looks:  # for the log, one text of each example is enough, and not in every update
            apart.copy_(self.divergence(episodes, written, texts, slice(0, None, samples)).mean())
        rewards = self.rewards(episodes, texts)
        log_probs = written.log_probs.sum(1).view_as(rewards)
        words = written.chosen.sum()
        logs = {
            "reward": rewards.mean(),
            "entropy": -log_probs.sum() / words.clamp(min=1),
            "distinct": _first_of_their_kind(written.tokens, samples).float().mean(),
            "divergence": apart,
            "length": words / len(written.tokens),
        }
        worth = rewards - config.entropy * log_probs
        if needed:
            divergence = divergence.view_as(rewards)
            worth = worth - config.divergence * divergence
            if config.divergence_limit is not None:
                worth = torch.where(divergence.mean() > config.divergence_limit, -divergence, worth)
        return worth, logs

    @torch.no_grad()
    def divergence(self, episodes: Episodes, written: Rollout, texts: Tensor, rows: slice) -> Tensor:
        """log p(y) - log p₀(y) of some of the texts: on average the divergence KL(p, p₀)."""
        before = episodes.judge(self.first, written.tokens[rows], texts[rows]).log_probs
        return (written.log_probs[rows] - before * written.chosen[rows]).sum(1)


class PolicyGradient(Rewarded):
    """REINFORCE (Williams 1992): the gradient of the expected reward from n texts that the model wrote itself,

        ∇ E[R(y)] ≈ 1/n Σ_i Σ_t (R(y_i) - b_it) ∇ log p(y_it | y_i,<t, x),   y_i ~ p(y | x)

    where b is the baseline. All n are written at once, and one pass over them gives the gradient.

    With `mixer` (Ranzato et al. 2016, https://arxiv.org/abs/1511.06732), a text begins with words of the true one,
    which are learned by likelihood, and only the rest is written.
    """

    config: PolicyGradientObjective
    baseline: Baseline

    def prepare(self, model: Writer) -> None:
        super().prepare(model)
        self.baseline = build_baseline(self.config.baseline, feature_size(model))

    def follow(self, model: Writer, episodes: Episodes) -> tuple[Tensor, dict[str, Tensor]]:
        samples = self.config.samples
        given = self._given(episodes.truth)
        rollout = episodes.write(samples, self.longest(episodes), draw, given)
        greedy = None
        if self.baseline.greedy:
            greedy = episodes.write(1, self.longest(episodes), best, given).tokens.cpu()
        texts = rollout.tokens.cpu()
        judged = episodes.judge(model, rollout.tokens, texts)
        worth, logs = self.shaped(episodes, rollout, texts)
        if greedy is not None:
            greedy = self.rewards(episodes, greedy).squeeze(1)
        written = Written(rollout.tokens, worth, greedy, judged)
        advantages = written.each - self.baseline.expected(written)
        weights = torch.where(rollout.chosen, advantages, 1.0)  # what was given is learned by likelihood
        total = -(weights * judged.log_probs).sum() / samples
        beside = self.baseline.loss(written)
        if beside is not None:
            total = total + beside / samples
            logs["baseline_error"] = beside / (rollout.tokens != PAD).sum()
        logs["advantage"] = advantages.pow(2).mean().sqrt()
        return total, logs

    def _given(self, truth: Tensor) -> Tensor | None:
        """The beginnings of the true texts that are still given: [examples, time], `<pad>` behind them."""
        share = 1.0 - self.done / self.config.mixer if self.config.mixer else 0.0
        if share <= 0.0:
            return None
        lengths = ((truth != PAD).sum(1, keepdim=True) * share).ceil()
        return truth.masked_fill(torch.arange(truth.size(1), device=truth.device) >= lengths, PAD)


class MinimumRisk(Rewarded):
    """Minimum risk training (Shen et al. 2016, https://arxiv.org/abs/1512.02433): the expected reward over the distinct
    texts S that were written for an example, as if there were no others,

        Σ_{y ∈ S} Q(y) R(y),   Q(y) = p(y)^α / Σ_{y' ∈ S} p(y')^α

    It is divided by α, which else would also scale the gradient.
    """

    config: MinimumRiskObjective

    def follow(self, model: Writer, episodes: Episodes) -> tuple[Tensor, dict[str, Tensor]]:
        config, samples = self.config, self.config.samples
        rollout = episodes.write(samples, self.longest(episodes), draw)
        texts = rollout.tokens.cpu()
        log_probs = episodes.judge(model, rollout.tokens, texts).log_probs.sum(1).view(-1, samples)
        worth, logs = self.shaped(episodes, rollout, texts)
        repeated = ~_first_of_their_kind(rollout.tokens, samples)
        shares = (config.sharpness * log_probs).masked_fill(repeated, -torch.inf).softmax(1)
        return -(shares * worth).sum() / config.sharpness, logs


def feature_size(model: Writer) -> int:
    """The size of what a network knows before each word."""
    return model.decoder.output_size if isinstance(model, Conditional) else model.features.output_size


def _first_of_their_kind(tokens: Tensor, samples: int) -> Tensor:
    """Which texts no earlier one of the same example equals: [examples, samples]."""
    texts = tokens.view(-1, samples, tokens.size(1))
    same = (texts.unsqueeze(1) == texts.unsqueeze(2)).all(3)  # [examples, samples, samples]
    return ~same.tril(-1).any(2)
