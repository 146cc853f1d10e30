"""Reward-augmented maximum likelihood: the likelihood of texts near the true ones."""

from __future__ import annotations

from copy import copy
from typing import Any

import torch
from torch import Tensor

from seqloom.config.schema.objectives import LikelihoodObjective
from seqloom.config.schema.reinforcement import RewardAugmentedObjective
from seqloom.data.batch import shifted
from seqloom.models.conditional import Conditional
from seqloom.text.special import BOS, EOS, PAD, SPECIALS
from seqloom.training.objectives import Context, Loss, MaximumLikelihood, Objective
from seqloom.training.pair_objectives import TeacherForcing


class RewardAugmented(Objective):
    """-log p of a text drawn from q(y) in proportion to exp(R(y, y*) / τ) (Norouzi et al. 2016,
    https://arxiv.org/abs/1609.00150), where R is minus the number of words that differ from the true text y*.

    As usual (Wang et al. 2018, https://arxiv.org/abs/1808.07512, section 3), first the number n of words to replace is
    drawn, in proportion to exp(-n / τ), then which ones, then by which words, all alike. Where a text ends stays.
    """

    config: RewardAugmentedObjective

    def __init__(self, config: RewardAugmentedObjective, context: Context | None = None) -> None:
        super().__init__(config, context)
        self.of_text = MaximumLikelihood(LikelihoodObjective(), context)
        self.of_pairs = TeacherForcing(config, context)

    def forward(self, model: Any, batch: Any) -> Loss:
        targets = near(batch.targets, model.vocabulary_size, self.config.temperature)
        changed = copy(batch)  # with what was counted of it, which stays the same
        if isinstance(model, Conditional):
            vars(changed).update(targets=targets, target_inputs=shifted(targets))
            return self.of_pairs(model, changed)
        inputs = batch.inputs.clone()
        inputs[:, 1:] = torch.where(inputs[:, 1:] == BOS, BOS, targets[:, :-1])
        vars(changed).update(targets=targets, inputs=inputs)
        return self.of_text(model, changed)

    def state(self) -> dict[str, Tensor]:
        return self.of_text.state()

    def restore(self, state: dict[str, Tensor]) -> None:
        self.of_text.restore(state)


def near(targets: Tensor, vocabulary_size: int, temperature: float) -> Tensor:
    """Texts near those of targets [rows, time], as q draws them; what is no word stays."""
    words = (targets != PAD) & (targets != BOS) & (targets != EOS)
    lengths = words.sum(1)
    numbers = torch.arange(targets.size(1) + 1, device=targets.device)
    chances = (-numbers / temperature).expand(len(targets), -1).masked_fill(numbers > lengths.unsqueeze(1), -torch.inf)
    replaced = torch.multinomial(chances.softmax(1), 1)  # [rows, 1]
    order = torch.rand(targets.shape, device=targets.device).masked_fill(~words, 2.0).argsort(1).argsort(1)
    known = (targets >= len(SPECIALS)) & (targets < vocabulary_size)
    others = vocabulary_size - len(SPECIALS) - known.long()
    drawn = len(SPECIALS) + (torch.rand(targets.shape, device=targets.device, dtype=torch.float64) * others).long()
    drawn = drawn + (known & (drawn >= targets))  # any word but the true one
    return torch.where(words & (order < replaced), drawn, targets)
