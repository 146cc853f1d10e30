"""How gradients travel back through time in a model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from seqloom.data.batch import recent
from seqloom.data.store import TokenStore
from seqloom.data.windows import TokenBatch, window_batch
from seqloom.errors import DataError
from seqloom.models.language import LanguageModel
from seqloom.nn import Recurrent

WINDOWS = 32


def gradient_norms(model: LanguageModel, store: TokenStore, length: int) -> list[float]:
    """‖∂loss_T/∂h_t‖ for the distances T - t = 0, ..., length - 1, averaged over windows of a text.

    h_t is everything a recurrent model remembers after word t (for the LSTM hidden state and cell together); for a
    model that remembers all words it is the word's vector e_t.
    """
    if len(store) <= length:
        raise DataError(f"the text has {len(store)} tokens; choose a length below that")
    count = min(WINDOWS, len(store) // length)
    starts = np.linspace(0, len(store) - length, count).astype(np.int64)
    return backward_norms(model, window_batch(store.tokens, starts, length))


def backward_norms(model: LanguageModel, batch: TokenBatch) -> list[float]:
    """The norms for one batch, nearest first: mean over rows of the norm of the gradient of the last target's loss."""
    vectors = model.embedding(batch.inputs).detach().requires_grad_()
    state = model.features.start(len(vectors), vectors)
    before = recent(batch.inputs, model.output.history)[:, -1]
    if not isinstance(model.features, Recurrent):
        features, _ = model.features(vectors, state)
        loss = model.output.loss(features[:, -1], batch.targets[:, -1], before=before)
        (gradient,) = torch.autograd.grad(loss, vectors)
        return gradient.norm(dim=-1).mean(0).flip(0).tolist()

    remembered: list[list[Tensor]] = []
    for step in range(vectors.size(1)):
        if step:
            remembered.append(list(state.values()))
        features, state = model.features(vectors[:, step : step + 1], state)
    loss = model.output.loss(features[:, -1], batch.targets[:, -1], before=before)
    return [_norm(torch.autograd.grad(loss, parts, retain_graph=True)) for parts in [[features], *remembered[::-1]]]


def _norm(gradients: Sequence[Tensor]) -> float:
    """The norm over all parts of the memory together, averaged over rows."""
    squares = [gradient.flatten(1).pow(2).sum(1) for gradient in gradients]
    return torch.stack(squares).sum(0).sqrt().mean().item()
