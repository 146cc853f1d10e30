"""From a configuration to the objective it describes."""

from __future__ import annotations

from typing import Any

from seqloom.training.adversarial import Adversarial
from seqloom.training.bounds import Elbo, ImportanceWeighted, TextElbo
from seqloom.training.energy import ClampedAndFree, Conditional, ContrastiveDivergence
from seqloom.training.objectives import Context, MaximumLikelihood, Objective, OwnLoss, RandomTruncation
from seqloom.training.pair_objectives import TeacherForcing
from seqloom.training.scheduled_sampling import ScheduledSampling

OBJECTIVES: dict[str, type[Objective]] = {
    "likelihood": MaximumLikelihood,
    "random-truncation": RandomTruncation,
    "teacher-forcing": TeacherForcing,
    "scheduled-sampling": ScheduledSampling,
    "own-loss": OwnLoss,
    "elbo": Elbo,
    "iwae": ImportanceWeighted,
    "text-elbo": TextElbo,
    "contrastive-divergence": ContrastiveDivergence,
    "clamped-and-free": ClampedAndFree,
    "conditional": Conditional,
    "adversarial": Adversarial,
}


def build_objective(config: Any, context: Context | None = None) -> Objective:
    """The objective that a configuration's part `objective` describes."""
    return OBJECTIVES[config.kind](config, context)
