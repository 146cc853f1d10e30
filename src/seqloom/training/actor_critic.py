"""Actor and critic: one network writes, a second one learns what to expect after each word."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import torch
from torch import Tensor, nn

from seqloom.config.schema.reinforcement import ActorCriticObjective
from seqloom.decoding.rollout import draw
from seqloom.text.special import PAD
from seqloom.training.episodes import Episodes, Writer
from seqloom.training.policy import Rewarded, feature_size


class Critic(nn.Module):
    """V(s_t): the reward to expect of a text of which y_1, ..., y_{t-1} are written. A network like the one that
    writes, begun with its weights, with one number for its output."""

    def __init__(self, model: Writer) -> None:
        super().__init__()
        self.network: Any = deepcopy(model)
        self.value = nn.Linear(feature_size(model), 1)
        nn.init.zeros_(self.value.weight)
        nn.init.zeros_(self.value.bias)

    def forward(self, episodes: Episodes, tokens: Tensor) -> Tensor:
        """tokens [rows, time] -> the value before each of them, [rows, time]; 0 behind the end."""
        values = self.value(episodes.features(self.network, tokens)).squeeze(2).float()
        return values.masked_fill(tokens == PAD, 0.0)


class ActorCritic(Rewarded):
    """The critic says which words made the reward to be expected rise (Bahdanau et al. 2017,
    https://arxiv.org/abs/1607.07086). The reward comes after the last word, and with δ_t = r_t + γ V(s_{t+1}) - V(s_t)

        A_t = Σ_{l ≥ 0} (γλ)^l δ_{t+l}   (Schulman et al. 2016, https://arxiv.org/abs/1506.02438),

    the actor follows Σ_t A_t ∇ log p(y_t | y_<t, x). The critic learns by (V(s_t) - G_t)², where G_t = A'_t + V'(s_t),
    the TD(λ) return, comes from a target critic V' that follows it slowly: V' ← (1 - τ) V' + τ V.
    """

    config: ActorCriticObjective
    critic: Critic
    target: Critic
    leaves_out = True

    def prepare(self, model: Writer) -> None:
        super().prepare(model)
        self.critic = Critic(model)
        self.target = deepcopy(self.critic).requires_grad_(False)

    @torch.no_grad()
    def advance(self, done: float) -> None:
        """Before every step, the target critic moves towards the critic."""
        super().advance(done)
        for slow, fast in zip(self.target.parameters(), self.critic.parameters(), strict=True):
            slow.lerp_(fast, self.config.target_rate)

    def follow(self, model: Writer, episodes: Episodes) -> tuple[Tensor, dict[str, Tensor]]:
        config, samples = self.config, self.config.samples
        self.critic.eval()
        self.target.eval()
        rollout = episodes.write(samples, self.longest(episodes), draw)
        tokens, texts = rollout.tokens, rollout.tokens.cpu()
        values = self.critic(episodes, tokens)
        worth, logs = self.shaped(episodes, rollout, texts)
        rewards = worth.flatten()
        with torch.no_grad():
            expected = self.target(episodes, tokens)
            returns = expected + self.advantages(expected, rewards, tokens)
            advantages = self.advantages(values.detach(), rewards, tokens)
        errors = (values - returns).pow(2).masked_fill(tokens == PAD, 0.0).sum()
        total = config.critic_weight * errors
        if self.done >= config.pretraining:
            total = total - (advantages * episodes.judge(model, tokens, texts).log_probs).sum()
        words = (tokens != PAD).sum()
        logs |= {"critic_error": errors / words, "advantage": (advantages.pow(2).sum() / words).sqrt()}
        return total / samples, logs

    def advantages(self, values: Tensor, rewards: Tensor, tokens: Tensor) -> Tensor:
        """A_t from the values before each word [rows, time] and the reward of each text [rows]; 0 behind the end."""
        config, real = self.config, tokens != PAD
        following = torch.cat([values[:, 1:], values.new_zeros(len(values), 1)], dim=1)
        last = real & ~torch.cat([real[:, 1:], real.new_zeros(len(real), 1)], dim=1)
        changes = torch.where(last, rewards.unsqueeze(1), config.discount * following) - values
        changes = changes.masked_fill(~real, 0.0)
        steps = torch.arange(values.size(1), device=values.device)
        ahead = (steps.unsqueeze(1) - steps).clamp(min=0)  # [later, now]
        fading = torch.full((), config.discount * config.decay, device=values.device).pow(ahead)
        return (changes @ fading.tril()).masked_fill(~real, 0.0)
