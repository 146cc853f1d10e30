"""What training maximises. An objective wraps any model it fits; the trainer knows objectives, not models."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from seqloom.config.schema.objectives import LikelihoodObjective, RandomTruncationObjective
from seqloom.data.batch import Numbers, recent
from seqloom.data.windows import TokenBatch
from seqloom.errors import ConfigError
from seqloom.models.language import LanguageModel
from seqloom.nn import State
from seqloom.nn.gradients import scale_gradient
from seqloom.text.tokenizer import Tokenizer


@dataclass
class Loss:
    """A sum over the `tokens` of a batch (the trainer divides), and sums worth logging."""

    total: Tensor
    tokens: int
    logs: dict[str, Tensor] = field(default_factory=dict)
    """Summed over tokens too; logged per token."""


Reads = Callable[[Any, Tensor, State | None], Tensor]
"""(model, words, state) -> the words that a model in this state reads in training where these are the true ones."""


def true_words(_model: Any, words: Tensor, _state: State | None) -> Tensor:
    """The true words: teacher forcing."""
    return words


class Texts(Protocol):
    """The texts of numbered examples."""

    def references(self, numbers: Numbers) -> list[tuple[str, ...]]:
        """Those that count as right, of each of these examples."""

    def sources(self, numbers: Numbers) -> list[str]:
        """What each of these examples is given."""


Judge = Callable[[Sequence[str]], Iterable[tuple[float, int]]]
"""Texts -> log p and the number of tokens of each."""


def _no_judge(run: str) -> Judge:
    raise ConfigError(f"there is nobody to open {run}")


@dataclass(frozen=True)
class Context:
    """What an objective may ask for besides model and batch: a reward reads texts, and compares with references."""

    tokenizer: Tokenizer | None = None
    """Of what the model writes."""
    texts: Texts | None = None
    """Those of the training examples; running text has none."""
    corpus: Callable[[], Sequence[Sequence[str]]] = tuple
    """All references that are learned from."""
    judge: Callable[[str], Judge] = _no_judge
    """What scores texts by the language model of a run folder."""


class Objective(nn.Module, ABC):
    """`objective(model, batch) -> Loss`, built from its part of the configuration and a context.

    It is a module: parameters of its own (a critic, a learned baseline) are optimised, averaged over processes and kept
    in checkpoints like those of the model.
    """

    trains: ClassVar[tuple[str, ...]] = ("language",)
    """Of an objective that is registered: the kinds of models that it fits. Ours are named by the models' parts."""

    def __init__(self, config: Any, context: Context | None = None) -> None:
        super().__init__()
        self.config = config
        self.context = context or Context()

    @abstractmethod
    def forward(self, model: Any, batch: Any) -> Loss:
        """The loss of one batch."""

    leaves_out: ClassVar[bool] = False
    """Whether a loss may leave parameters without a gradient."""

    def check(self, model: Any) -> None:
        """Refuse a model that cannot be trained this way, before anything is written."""

    def prepare(self, model: Any) -> None:
        """Make what follows from the model that will be trained, as it is before its first step: a copy, a critic."""

    def compile_whole(self, model: Any) -> bool:
        """Have the compiler make one program of the model and its loss, where that can be; whether it was done."""
        return False

    repeats: ClassVar[bool] = False
    """Whether there may be batches that are alike."""

    def alike(self, model: Any, batch: Any) -> Hashable | None:
        """What batches have in common whose losses are computed by the very same operations, so that a GPU can replay
        these; None where operations depend on more than that."""
        return None

    def record(self, model: Any) -> None:
        """Record on a GPU what can be recorded: the model is compiled, and trained by one process."""

    def advance(self, done: float) -> None:
        """Take note, before a step, which part of the training lies behind: 0 in the beginning, 1 at the end."""

    def state(self) -> dict[str, Tensor]:
        """What is carried from batch to batch, batch first, for a checkpoint."""
        return {}

    def restore(self, state: dict[str, Tensor]) -> None:
        """Go on from a checkpoint."""


class OwnLoss(Objective):
    """The loss of models that know their own: `model.loss(batch)`, summed over the batch's `tokens` predictions."""

    def forward(self, model: Any, batch: Any) -> Loss:
        total = model.loss(batch)
        return Loss(total, batch.tokens, {"loss": total.detach()})


class Carrying(Objective):
    """What learning from running text has in common: a recurrent state is carried from batch to batch."""

    carried: State | None = None

    def before(self, model: LanguageModel, batch: TokenBatch) -> State | None:
        """The state that each row begins with: what it carries, or, where it is fresh, nothing."""
        if not model.features.carries or self.carried is None or batch.fresh.all():
            return None
        if not batch.fresh.any():
            return self.carried
        fresh = torch.as_tensor(batch.fresh, device=batch.inputs.device)
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


class MaximumLikelihood(Carrying):
    """Σ_t -log p(x_t | x_1, ..., x_{t-1}), the recurrent state carried between batches that go on from one another.

    With windows of τ tokens and the carried state cut off from its graph, this is back-propagation through time
    truncated after τ steps. The regularisers of Merity et al. (2017) keep activations small (α) and slow (β):

        α · mean h²  +  β · mean (h_{t+1} - h_t)²
    """

    config: LikelihoodObjective
    repeats = True

    def __init__(self, config: LikelihoodObjective, context: Context | None = None, reads: Reads = true_words) -> None:
        super().__init__(config, context)
        self.reads, self._judged = reads, judged

    def compile_whole(self, model: LanguageModel) -> bool:
        """Of what takes word after word, libraries have programs already."""
        if model.features.sequential or model.output.waits:
            return False
        self._judged = torch.compile(judged)
        return True

    def alike(self, model: LanguageModel, batch: TokenBatch) -> Hashable | None:
        """Windows of one shape, all of which go on from those before, or none."""
        fresh = bool(batch.fresh.all())
        if self.reads is not true_words or model.output.waits or (batch.fresh.any() and not fresh):
            return None
        return batch.inputs.shape, fresh

    def forward(self, model: LanguageModel, batch: TokenBatch) -> Loss:
        before = self.before(model, batch)
        words, recently = self.reads(model, batch.inputs, before), recent(batch.inputs, model.output.history)
        features, state, likelihood = self._judged(model, words, before, batch.begins, batch.targets, recently)
        self.carried = state.detach() if model.features.carries else None
        total = likelihood + batch.tokens * self.penalty(features)
        return Loss(total, batch.tokens, {"loss": likelihood.detach()})

    def penalty(self, features: Tensor) -> Tensor | float:
        """What large and fast features [rows, time, size] cost per token."""
        penalty: Tensor | float = 0.0
        if self.config.activation:
            penalty = penalty + self.config.activation * features.pow(2).mean()
        if self.config.temporal and features.size(1) > 1:
            penalty = penalty + self.config.temporal * (features[:, 1:] - features[:, :-1]).pow(2).mean()
        return penalty


def judged(
    model: LanguageModel,
    words: Tensor,
    state: State | None,
    begins: Tensor | None,
    targets: Tensor,
    recently: Tensor | None,
) -> tuple[Tensor, State, Tensor]:
    """The features [rows, time, size] of words that are read in a state, the state after them, and Σ -log p of the
    targets."""
    features, after = model(words, state, begins)
    return features, after, model.output.loss(features, targets, before=recently)


class RandomTruncation(Carrying):
    """Maximum likelihood with randomly truncated back-propagation through time (Tallec & Ollivier 2017).

    At a boundary every `every` steps the gradient that flows back through the hidden state is multiplied by ξ, which
    is 1/π with probability π and 0 otherwise:

        z_t = ∂f/∂w + ξ_t ∂f/∂h_{t-1} z_{t-1},   E[ξ_t] = 1,   so   E[z_t] = ∂h_t/∂w.

    Long dependencies are followed rarely but then count for more; the estimate of the gradient stays unbiased.
    """

    config: RandomTruncationObjective

    def check(self, model: LanguageModel) -> None:
        """There must be a state to carry."""
        if not model.features.carries:
            raise ConfigError("objective.kind: random-truncation needs recurrent features (rnn, lstm, gru, ...)")

    def forward(self, model: LanguageModel, batch: TokenBatch) -> Loss:
        state = self.before(model, batch)
        keep, every = self.config.keep, self.config.every
        pieces = []
        for first in range(0, batch.inputs.size(1), every):
            inputs = batch.inputs[:, first : first + every]
            if first and state is not None:
                kept = torch.rand(()) < keep
                state = state.map(partial(scale_gradient, factor=1 / keep if kept else 0.0))
            features, state = model(inputs, state)
            pieces.append(features)
        before = recent(batch.inputs, model.output.history)
        likelihood = model.output.loss(torch.cat(pieces, dim=1), batch.targets, before=before)
        self.carried = state.detach() if state is not None else None
        return Loss(likelihood, batch.tokens, {"loss": likelihood.detach()})
