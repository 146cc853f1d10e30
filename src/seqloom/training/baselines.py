"""Baselines of policy gradients: what reward was to be expected. Each leaves the gradient as it is on average, and
makes it vary less."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from seqloom.text.special import PAD
from seqloom.training.episodes import Judged

MEMORY = 0.95  # of a moving mean


class Written(NamedTuple):
    """Texts that were written for the examples of a batch, with what they are worth."""

    tokens: Tensor
    """[examples · samples, time]"""
    rewards: Tensor
    """[examples, samples]"""
    greedy: Tensor | None
    """[examples]: the reward of the text that is written greedily, where somebody asks for it."""
    judged: Judged
    """What the model makes of them."""

    @property
    def each(self) -> Tensor:
        """The reward of each text, [examples · samples, 1]."""
        return self.rewards.flatten().unsqueeze(1)


class Baseline(nn.Module):
    """The reward that was to be expected of texts: none."""

    greedy = False
    """Whether it asks for the reward of what is written greedily."""

    def expected(self, written: Written) -> Tensor:
        """[examples · samples, time], or 1 for all of the time; without gradients."""
        return torch.zeros_like(written.each)

    def loss(self, written: Written) -> Tensor | None:
        """What the baseline has to learn from these texts, summed over them."""
        return None


class MovingMean(Baseline):
    """The mean of all rewards so far, those of late above all: b ← 0.95 b + 0.05 mean(R)."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("seen", torch.zeros(()))

    def expected(self, written: Written) -> Tensor:
        mean, seen = self.get_buffer("mean"), self.get_buffer("seen")
        before = (mean / (1 - MEMORY**seen).clamp(min=1e-6)).expand_as(written.each).clone()  # as Adam does
        mean.mul_(MEMORY).add_((1 - MEMORY) * written.rewards.mean())
        seen.add_(1)
        return before


class LeaveOneOut(Baseline):
    """The mean reward of the other samples of the same example (Kool et al. 2019)."""

    def expected(self, written: Written) -> Tensor:
        rewards = written.rewards
        others = (rewards.sum(1, keepdim=True) - rewards) / (rewards.size(1) - 1)
        return others.flatten().unsqueeze(1)


class GreedyText(Baseline):
    """The reward of the text that the model would write greedily (self-critical, Rennie et al. 2017)."""

    greedy = True

    def expected(self, written: Written) -> Tensor:
        assert written.greedy is not None
        return written.greedy.repeat_interleave(written.rewards.size(1)).unsqueeze(1)


class LearnedValue(Baseline):
    """b(s_t) = w · h_t + b, of what the network knows before each word; learned by (R - b(s_t))² (Ranzato et al. 2016).

    Nothing flows back into the network.
    """

    def __init__(self, size: int) -> None:
        super().__init__()
        self.layer = nn.Linear(size, 1)
        nn.init.zeros_(self.layer.weight)
        nn.init.zeros_(self.layer.bias)

    def values(self, written: Written) -> Tensor:
        """[examples · samples, time]"""
        return self.layer(written.judged.features.detach().float()).squeeze(2)

    def expected(self, written: Written) -> Tensor:
        return self.values(written).detach()

    def loss(self, written: Written) -> Tensor:
        errors = (written.each - self.values(written)).pow(2)
        return errors.masked_fill(written.tokens == PAD, 0.0).sum()


def build_baseline(kind: str, size: int) -> Baseline:
    """The baseline of a configuration; `size`: of what the network knows before each word."""
    match kind:
        case "mean":
            return MovingMean()
        case "leave-one-out":
            return LeaveOneOut()
        case "greedy":
            return GreedyText()
        case "learned":
            return LearnedValue(size)
    return Baseline()
