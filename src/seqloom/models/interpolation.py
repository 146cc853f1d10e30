"""Linear interpolation: the mixture of several models, weighted by how well each predicts held-out text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from seqloom.decoding.fusion import Ensemble
from seqloom.errors import ConfigError
from seqloom.models.autoregressive import Autoregressive
from seqloom.nn.state import State
from seqloom.text.special import PAD

TOLERANCE = 1e-6
"""Nats per token that fitted weights may fall short of the best: a millionth of the perplexity."""


class Interpolation(Autoregressive):
    """p(w | h) = Σ_i λ_i p_i(w | h),  Σ_i λ_i = 1 (Jelinek & Mercer 1980)"""

    def __init__(self, models: Sequence[Autoregressive], weights: ArrayLike) -> None:
        self.models = list(models)
        self.weights = np.asarray(weights, np.float64)
        if self.weights.shape != (len(self.models),):
            raise ConfigError(f"{len(self.models)} models need as many weights, not {self.weights.size}")
        if not (self.weights >= 0).all() or abs(self.weights.sum() - 1) > 1e-6:
            raise ConfigError(f"weights must be 0 or more and sum to 1: {self.weights.tolist()}")
        self._ensemble = Ensemble(self.models)
        self.vocabulary_size = self._ensemble.vocabulary_size

    @property
    def joins(self) -> bool:
        return self._ensemble.joins

    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences before anything was read."""
        return self._ensemble.start(size, source)

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read tokens [batch, time]; return log p(next | all read so far) [batch, vocabulary] and the new state."""
        log_probs, state = self._ensemble.read_each(state, tokens)
        return self._mixed(log_probs), state

    def token_log_probs(self, tokens: Tensor, source: Any = None) -> Tensor:
        """log p of each token given those before it in its row, [batch, time]: natural log, 0 for `<pad>`."""
        log_probs = [model.token_log_probs(tokens.to(model.device)).to(self.device) for model in self.models]
        return self._mixed(log_probs).masked_fill(tokens == PAD, 0.0)

    def unit_log_probs(self, tokens: NDArray[np.integer], lengths: NDArray[np.integer]) -> NDArray[np.float32]:
        """log p of every token of many units, one after the other in `tokens`, each from its own beginning."""
        return mix([model.unit_log_probs(tokens, lengths) for model in self.models], self.weights)

    def _mixed(self, log_probs: list[Tensor]) -> Tensor:
        weighted = [part + log_weight for part, log_weight in zip(log_probs, _log(self.weights), strict=True)]
        return torch.stack(weighted).logsumexp(dim=0)

    @property
    def parameter_count(self) -> int:
        """The numbers that all the models learned, and the weights."""
        return sum(model.parameter_count for model in self.models) + len(self.weights)

    @property
    def device(self) -> torch.device:
        """Where results lie: a GPU if any of the models runs there."""
        return self._ensemble.device


def mix(log_probs: Sequence[NDArray[np.floating]], weights: NDArray[np.float64]) -> NDArray[np.float32]:
    """log Σ_i λ_i p_i of each token, from log p_i of each token; -inf where no model allows it."""
    mixed = np.full(len(log_probs[0]), -np.inf)
    for part, log_weight in zip(log_probs, _log(weights), strict=True):
        np.logaddexp(mixed, log_weight + part, out=mixed)
    return mixed.astype(np.float32)


def _log(weights: NDArray[np.float64]) -> list[float]:
    with np.errstate(divide="ignore"):  # a weight may be 0
        logarithms: list[float] = np.log(weights).tolist()
    return logarithms


def fit_weights(log_probs: ArrayLike, tolerance: float = TOLERANCE) -> NDArray[np.float64]:
    """The weights λ under which held-out text is most probable; log_probs: [models, tokens], log p_i of each token.

    Expectation-maximisation (Dempster, Laird & Rubin 1977), from equal weights:

        λ_i ← λ_i g_i,    g_i = (1/T) Σ_t p_i(t) / Σ_j λ_j p_j(t)

    where λ_i g_i is the share of the tokens that model i accounts for. The likelihood never falls. It is concave in λ,
    and g is its gradient per token, so the best weights are at most max g - 1 nats per token better than these (Cover
    1984): it stops when that is within `tolerance`.

    Tokens that are impossible under all models are left out: no weights make them possible.
    """
    given = np.asarray(log_probs, np.float64)
    given = given[:, given.max(axis=0) > -np.inf]
    weights = np.full(len(given), 1 / len(given))
    if not given.shape[1]:
        return weights
    # What is common to all models changes no share; without it nothing underflows.
    probabilities = np.exp(given - given.max(axis=0))
    while (gains := gradient(weights, probabilities)).max() > 1 + tolerance:
        weights = weights * gains
    return weights / weights.sum()


def gradient(weights: NDArray[np.float64], probabilities: NDArray[np.float64]) -> NDArray[np.float64]:
    """g_i = (1/T) Σ_t p_i(t) / Σ_j λ_j p_j(t); probabilities: [models, tokens]."""
    return probabilities @ (1 / (weights @ probabilities)) / probabilities.shape[1]
