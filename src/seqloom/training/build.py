"""From a configuration to the objective it describes."""

from __future__ import annotations

from collections.abc import Callable

from seqloom.config.schema import ObjectiveConfig
from seqloom.training.objectives import MaximumLikelihood, Objective, RandomTruncation
from seqloom.training.pair_objectives import ScheduledSampling, TeacherForcing

OBJECTIVES: dict[str, Callable[..., Objective]] = {
    "likelihood": MaximumLikelihood,
    "random-truncation": RandomTruncation,
    "teacher-forcing": TeacherForcing,
    "scheduled-sampling": ScheduledSampling,
}


def build_objective(config: ObjectiveConfig) -> Objective:
    """The objective that a configuration describes."""
    return OBJECTIVES[config.kind](**config.model_dump(exclude={"kind"}))
