"""Averages of the weights over training, which often predict better than the last weights."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from torch import Tensor, nn

from seqloom.config.schema.training import AveragingConfig
from seqloom.training.weights import own_tensors, sharded_like


class WeightAverage:
    """θ̄ ← θ̄ + w (θ - θ̄) after every step.

    exponential: w = 1 - decay, smaller decay during the first steps so that the start is forgotten.
    triggered (NT-ASGD, Merity et al. 2018): nothing until a validation fails to beat the best of those more than
    `patience` validations ago; from then on w = 1/n, the plain mean of the n weights since.

    θ is all that a model keeps as numbers: the running means and variances of batch normalisation belong to the weights
    that they were seen with, so they are averaged along. To measure them anew (Izmailov et al. 2018) would take a pass
    over the training data before every validation.
    """

    def __init__(self, config: AveragingConfig, model: nn.Module) -> None:
        self.config, self.model = config, model
        self.count = 0  # steps averaged so far
        self.running = config.kind == "exponential"
        self.weights: dict[str, Tensor] = {}
        self.history: list[float] = []

    @torch.no_grad()
    def update(self) -> None:
        """Take in the weights after a step."""
        if not self.running:
            return
        self.count += 1
        own = self._own()
        if self.count == 1:
            self.weights = _copies(own)
            return
        if self.config.kind == "exponential":
            weight = 1 - min(self.config.decay, self.count / (self.count + 10))
        else:
            weight = 1 / self.count
        torch._foreach_lerp_([self.weights[name] for name in own], list(own.values()), weight)

    def validated(self, loss: float) -> None:
        """Take note of a validation; the trigger of `triggered`."""
        if self.config.kind != "triggered" or self.running:
            return
        patience = self.config.patience
        if len(self.history) > patience and loss > min(self.history[:-patience]):
            self.running = True
        self.history.append(loss)

    @contextmanager
    def applied(self) -> Iterator[None]:
        """The model carries the average inside this block, once there is one."""
        if not self.count:
            yield
            return
        own = _copies(self._own())
        self._load(self.weights)
        try:
            yield
        finally:
            self._load(own)

    @torch.no_grad()
    def _load(self, weights: dict[str, Tensor]) -> None:
        for name, tensor in self._own().items():
            tensor.copy_(weights[name])

    def _own(self) -> dict[str, Tensor]:
        """What the model has now of all that is averaged."""
        return {name: each.detach() for name, each in own_tensors(self.model).items() if each.is_floating_point()}

    def state(self) -> dict[str, Any]:
        """What a checkpoint must hold beside `weights`."""
        return {"count": self.count, "running": self.running, "history": self.history}

    def restore(self, state: dict[str, Any], weights: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        self.count, self.running, self.history = state["count"], state["running"], state["history"]
        own = self._own() if self.count else {}
        self.weights = {name: sharded_like(weights[name], tensor).to(tensor.device) for name, tensor in own.items()}


def _copies(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in tensors.items()}


def mean_weights(files: Sequence[Path]) -> dict[str, Tensor]:
    """The mean of several weight files of one model (checkpoint averaging), one tensor in memory at a time."""
    readers = [safe_open(file, framework="pt") for file in files]

    def mean(name: str) -> Tensor:
        tensors = [reader.get_tensor(name) for reader in readers]
        return torch.stack([tensor.double() for tensor in tensors]).mean(0).to(tensors[0])

    return {name: mean(name) for name in readers[0].keys()}  # noqa: SIM118 - a reader is no dictionary
