"""What training maximises. An objective wraps any model it fits; the trainer knows objectives, not models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from seqloom.data.windows import TokenBatch
from seqloom.errors import ConfigError
from seqloom.models import LanguageModel
from seqloom.nn import State, scale_gradient


@dataclass
class Loss:
    """A sum over the `tokens` of a batch (the trainer divides), and sums worth logging."""

    total: Tensor
    tokens: int
    logs: dict[str, Tensor] = field(default_factory=dict)
    """Summed over tokens too; logged per token."""


class Objective(ABC):
    """`objective(model, batch) -> Loss`."""

    @abstractmethod
    def __call__(self, model: Any, batch: Any) -> Loss:
        """The loss of one batch."""

    def check(self, model: Any) -> None:  # noqa: B027 - most objectives train any model
        """Refuse a model that cannot be trained this way, before anything is written."""

    def record(self, model: Any) -> None:  # noqa: B027 - most objectives do other work from batch to batch
        """Record on a GPU what can be recorded: the model is compiled, and trained by one process."""

    def advance(self, done: float) -> None:  # noqa: B027 - most objectives stay as they are
        """Take note, before a step, which part of the training lies behind: 0 in the beginning, 1 at the end."""

    def state(self) -> dict[str, Tensor]:
        """What is carried from batch to batch, batch first, for a checkpoint."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:  # noqa: B027 - most objectives carry nothing
        """Go on from a checkpoint."""


class MaximumLikelihood(Objective):
    """Σ_t -log p(x_t | x_1, ..., x_{t-1}), the recurrent state carried between batches that go on from one another.

    With windows of τ tokens and the carried state cut off from its graph, this is back-propagation through time
    truncated after τ steps. The regularisers of Merity et al. (2017) keep activations small (α) and slow (β):

        α · mean h²  +  β · mean (h_{t+1} - h_t)²
    """

    def __init__(self, activation: float = 0.0, temporal: float = 0.0) -> None:
        self.activation, self.temporal = activation, temporal
        self.carried: State | None = None

    def __call__(self, model: LanguageModel, batch: TokenBatch) -> Loss:
        features, state = model(batch.inputs, self._before(model, batch))
        likelihood = model.output.loss(features, batch.targets)
        self.carried = state.detach() if model.features.carries else None
        total = likelihood
        if self.activation:
            total = total + self.activation * batch.tokens * features.pow(2).mean()
        if self.temporal and batch.inputs.size(1) > 1:
            total = total + self.temporal * batch.tokens * (features[:, 1:] - features[:, :-1]).pow(2).mean()
        return Loss(total, batch.tokens, {"loss": likelihood.detach()})

    def _before(self, model: LanguageModel, batch: TokenBatch) -> State | None:
        """The state that each row begins with: what it carries, or, where it is fresh, nothing."""
        if not model.features.carries or self.carried is None or batch.fresh.all():
            return None
        if not batch.fresh.any():
            return self.carried
        fresh = batch.fresh.to(batch.inputs.device)
        start = model.start(len(fresh))
        mixed = {
            name: torch.where(fresh.view(-1, *[1] * (tensor.dim() - 1)), start[name].to(tensor.dtype), tensor)
            for name, tensor in self.carried.items()
        }
        return State(mixed, self.carried.position)

    def state(self) -> dict[str, Tensor]:
        """The carried state."""
        return dict(self.carried or {})

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""
        self.carried = State(state) if state else None


class RandomTruncation(MaximumLikelihood):
    """Maximum likelihood with randomly truncated back-propagation through time (Tallec & Ollivier 2017).

    At a boundary every `every` steps the gradient that flows back through the hidden state is multiplied by ξ, which
    is 1/π with probability π and 0 otherwise:

        z_t = ∂f/∂w + ξ_t ∂f/∂h_{t-1} z_{t-1},   E[ξ_t] = 1,   so   E[z_t] = ∂h_t/∂w.

    Long dependencies are followed rarely but then count for more; the estimate of the gradient stays unbiased.
    """

    def __init__(self, keep: float = 0.9, every: int = 8) -> None:
        super().__init__()
        self.keep, self.every = keep, every

    def check(self, model: LanguageModel) -> None:
        """There must be a state to carry."""
        if not model.features.carries:
            raise ConfigError("objective.kind: random-truncation needs recurrent features (rnn, lstm, gru, ...)")

    def __call__(self, model: LanguageModel, batch: TokenBatch) -> Loss:
        state = self._before(model, batch)
        pieces = []
        for first in range(0, batch.inputs.size(1), self.every):
            inputs = batch.inputs[:, first : first + self.every]
            if first and state is not None:
                kept = torch.rand(()) < self.keep
                factor = 1 / self.keep if kept else 0.0
                state = state.map(lambda tensor, factor=factor: scale_gradient(tensor, factor))  # type: ignore[misc]
            features, state = model(inputs, state)
            pieces.append(features)
        likelihood = model.output.loss(torch.cat(pieces, dim=1), batch.targets)
        self.carried = state.detach() if state is not None else None
        return Loss(likelihood, batch.tokens, {"loss": likelihood.detach()})
