"""Optimisers and learning-rate schedules."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from seqloom.config.schema.training import OptimizerConfig, ScheduleConfig
from seqloom.errors import ConfigError
from seqloom.training.muon import MOMENTUM, Muon, hidden_matrices


def build_optimizer(model: nn.Module, config: OptimizerConfig) -> Optimizer:
    """The optimiser of a configuration; biases, norms and other vectors are not decayed.

    A module that has a `rate_factor` learns by so many times the learning rate of all else.
    """
    rate, momentum = config.learning_rate, config.momentum
    if config.kind == "muon":
        hidden = hidden_matrices(model)
        if not hidden:
            raise ConfigError("training.optimizer.kind: muon is for matrices between layers; this model has none")
        others = [parameter for parameter in model.parameters() if parameter not in hidden]
        matrices = [group | {"hidden": True} for group in _groups(model, hidden, config, rate)]
        rest = [group | {"hidden": False} for group in _groups(model, others, config, config.other_rate or rate)]
        return Muon(
            hidden, matrices + rest, rate, momentum=MOMENTUM if momentum is None else momentum, betas=config.betas
        )
    groups = _groups(model, model.parameters(), config, rate)
    match config.kind:
        case "adamw":
            return torch.optim.AdamW(groups, betas=config.betas, fused=True)
        case "adam":
            return torch.optim.Adam(groups, betas=config.betas, fused=True)
        case "sgd":
            return torch.optim.SGD(groups, momentum=momentum or 0.0, fused=True)
        case "rmsprop":
            return torch.optim.RMSprop(groups, momentum=momentum or 0.0)
        case "adagrad":
            return torch.optim.Adagrad(groups)


def _groups(
    model: nn.Module, parameters: Iterable[Tensor], config: OptimizerConfig, rate: float
) -> list[dict[str, Any]]:
    """Parameters of a model in groups, by their learning rate and by whether they are decayed."""
    factors: dict[Tensor, Any] = {
        parameter: module.rate_factor
        for module in model.modules()
        if hasattr(module, "rate_factor")
        for parameter in module.parameters()
    }
    alike: dict[tuple[float, bool], list[Tensor]] = {}
    for parameter in parameters:
        alike.setdefault((factors.get(parameter, 1.0), parameter.dim() >= 2), []).append(parameter)
    return [
        {"params": alike[key], "lr": rate * key[0], "weight_decay": config.weight_decay if key[1] else 0.0}
        for key in sorted(alike, reverse=True)
    ]


class Schedule:
    """The learning rate as a multiple of its peak, over a training that is planned to have `total` steps.

    It rises linearly over the warm-up, then with p = the part of the training that is done
    linear: 1 - p (1 - final);  cosine: final + (1 - final) (1 + cos πp) / 2;  inverse-sqrt: √(warm-up / step)
    (Vaswani et al. 2017);  plateau: times `factor` whenever validation stops improving.
    """

    def __init__(self, config: ScheduleConfig, total: int) -> None:
        self.config, self.total = config, total
        warmup = config.warmup
        self.by_steps = isinstance(warmup, int)
        """Whether the warm-up is a number of steps, whatever the clock says, and not a share of the training."""
        self.warmup = warmup if isinstance(warmup, int) else max(1, round(warmup * total))
        self.scale = 1.0  # what plateau has come down to
        self.waited = 0

    def rate(self, step: int, clock: float = 0.0) -> float:
        """The multiple at `step` (counted from 0), when the part `clock` of the time that there is has been used."""
        config = self.config
        reached: float = max(step, clock * self.total)  # in steps of the plan: the clock may be ahead
        done = min(1.0, reached / self.total)
        if self.by_steps:
            reached = step
        if reached < self.warmup:
            return min(1.0, (reached + 1) / self.warmup)
        match config.kind:
            case "linear":
                return 1 - done * (1 - config.final)
            case "cosine":
                return config.final + (1 - config.final) * (1 + math.cos(math.pi * done)) / 2
            case "inverse-sqrt":
                return math.sqrt(max(1, self.warmup) / (reached + 1))
            case "plateau":
                return self.scale
            case "constant":
                return 1.0

    def validated(self, improved: bool) -> None:
        """Take note of a validation."""
        if self.config.kind != "plateau":
            return
        self.waited = 0 if improved else self.waited + 1
        if self.waited > self.config.patience:
            self.scale *= self.config.factor
            self.waited = 0

    def state(self) -> dict[str, float]:
        """What a checkpoint must hold."""
        return {"scale": self.scale, "waited": self.waited}

    def restore(self, state: dict[str, float]) -> None:
        """Go on from a checkpoint."""
        self.scale, self.waited = state["scale"], int(state["waited"])
