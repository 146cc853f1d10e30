"""From models to fitted models: one trainer, and the objectives it maximises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import importing

if TYPE_CHECKING:
    from seqloom.progress import Reporter, Silent, reporter
    from seqloom.training.build import build_objective
    from seqloom.training.checkpoints import load_weights
    from seqloom.training.interrupts import Interrupted, Interrupts
    from seqloom.training.journal import Journal, read_metrics
    from seqloom.training.objectives import Context, MaximumLikelihood, Objective
    from seqloom.training.processes import Processes, choose_device
    from seqloom.training.trainer import Trainer
    from seqloom.training.weights import load_model_weights, model_weights

__all__ = [
    "Context",
    "Interrupted",
    "Interrupts",
    "Journal",
    "MaximumLikelihood",
    "Objective",
    "Processes",
    "Reporter",
    "Silent",
    "Trainer",
    "build_objective",
    "choose_device",
    "load_model_weights",
    "load_weights",
    "model_weights",
    "read_metrics",
    "reporter",
]

__getattr__ = importing(  # each on first use: reading a log or a run's folder needs no torch
    __name__,
    {
        "build_objective": "seqloom.training.build",
        "load_weights": "seqloom.training.checkpoints",
        **dict.fromkeys(("Interrupted", "Interrupts"), "seqloom.training.interrupts"),
        **dict.fromkeys(("Journal", "read_metrics"), "seqloom.training.journal"),
        **dict.fromkeys(("Context", "MaximumLikelihood", "Objective"), "seqloom.training.objectives"),
        **dict.fromkeys(("Processes", "choose_device"), "seqloom.training.processes"),
        **dict.fromkeys(("Reporter", "Silent", "reporter"), "seqloom.progress"),
        "Trainer": "seqloom.training.trainer",
        **dict.fromkeys(("load_model_weights", "model_weights"), "seqloom.training.weights"),
    },
)
