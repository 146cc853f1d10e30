"""Shallow fusion: other models have a say in every step of a search."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from seqloom.decoding.protocol import StepModel
from seqloom.errors import ConfigError
from seqloom.nn.state import State


class Ensemble:
    """Models over one vocabulary that read the same tokens, their states kept in one.

    All that comes back lies on the first GPU among the models' devices, wherever each model runs (n-gram models on the
    processor, always), so that searches can reorder it.
    """

    def __init__(self, models: Sequence[StepModel]) -> None:
        self.models = list(models)
        sizes = [model.vocabulary_size for model in self.models]
        if len(set(sizes)) > 1:
            raise ConfigError(f"these models have vocabularies of different sizes ({', '.join(map(str, sizes))})")
        self.vocabulary_size = sizes[0]
        processor = torch.device("cpu")
        self._devices = [getattr(model, "device", processor) for model in self.models]
        self.device = next((device for device in self._devices if device != processor), processor)

    @property
    def joins(self) -> bool:
        """Whether rows may stand at places of their own, in every model."""
        return all(getattr(model, "joins", False) for model in self.models)

    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences before anything was read; a model that needs no source ignores it."""
        state = State()
        for number, model in enumerate(self.models):
            state.put(str(number), _moved(model.start(size, source), self.device))
        return state

    def read_each(self, state: State, tokens: Tensor) -> tuple[list[Tensor], State]:
        """Read tokens [batch, time]; return each model's log p(next | all read so far), [batch, vocabulary]."""
        after = State(position=state.position + tokens.shape[1])
        log_probs = []
        for number, (model, device) in enumerate(zip(self.models, self._devices, strict=True)):
            part = _moved(state.part(str(number)), device)
            own_log_probs, part = model.read(part, tokens.to(device))
            log_probs.append(own_log_probs.to(self.device))
            after.put(str(number), _moved(part, self.device))
        return log_probs, after


class Fusion(Ensemble):
    """score(x_t | h) = log p(x_t | h) + Σ_i β_i log p_i(x_t | h),  β_i > 0 (Gulcehre et al. 2015)

    A `StepModel` whose `log_probs` are these scores: not normalised, so what a decoder reports as log-probability is
    the fused score. Scores are never above 0, which is all that beam search needs to know when to stop.
    """

    def __init__(self, model: StepModel, others: Sequence[tuple[StepModel, float]]) -> None:
        self.weights = [check_weight(weight) for _, weight in others]
        super().__init__([model, *(other for other, _ in others)])

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read tokens [batch, time]; return the scores of what may come next [batch, vocabulary] and the new state."""
        (scores, *others), state = self.read_each(state, tokens)
        for weight, log_probs in zip(self.weights, others, strict=True):
            scores = scores + weight * log_probs
        return scores, state

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read one token per row, [batch]; otherwise as `read`."""
        return self.read(state, tokens[:, None])


def check_weight(weight: float) -> float:
    """The weight of another model, which must be a positive number."""
    if not (weight > 0 and math.isfinite(weight)):
        raise ConfigError(f"the weight of another model must be a number above 0, not {weight}")
    return weight


def _moved(state: State, device: torch.device) -> State:
    return state.map(lambda tensor: tensor.to(device))
