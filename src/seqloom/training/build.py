"""From a configuration to the objective it describes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from seqloom.lazy import named

if TYPE_CHECKING:
    from seqloom.training.objectives import Context, Objective

OBJECTIVES: dict[str, type[Objective] | str] = {
    "likelihood": "seqloom.training.objectives:MaximumLikelihood",
    "random-truncation": "seqloom.training.objectives:RandomTruncation",
    "teacher-forcing": "seqloom.training.pair_objectives:TeacherForcing",
    "scheduled-sampling": "seqloom.training.scheduled_sampling:ScheduledSampling",
    "policy-gradient": "seqloom.training.policy:PolicyGradient",
    "minimum-risk": "seqloom.training.policy:MinimumRisk",
    "actor-critic": "seqloom.training.actor_critic:ActorCritic",
    "reward-augmented": "seqloom.training.reward_augmented:RewardAugmented",
    "masked": "seqloom.training.masked:MaskedLikelihood",
    "own-loss": "seqloom.training.objectives:OwnLoss",
    "elbo": "seqloom.training.bounds:Elbo",
    "iwae": "seqloom.training.bounds:ImportanceWeighted",
    "text-elbo": "seqloom.training.bounds:TextElbo",
    "contrastive-divergence": "seqloom.training.energy:ContrastiveDivergence",
    "clamped-and-free": "seqloom.training.energy:ClampedAndFree",
    "conditional": "seqloom.training.energy:Conditional",
    "adversarial": "seqloom.training.adversarial:Adversarial",
}
"""Those of this package by their modules: each is imported when something is trained by it."""


def build_objective(config: Any, context: Context | None = None) -> Objective:
    """The objective that a configuration's part `objective` describes."""
    objective = OBJECTIVES[config.kind]
    made: type[Objective] = named(objective) if isinstance(objective, str) else objective
    return made(config, context)
