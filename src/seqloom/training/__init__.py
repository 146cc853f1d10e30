"""From models to fitted models: one trainer, and the objectives it maximises."""

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
