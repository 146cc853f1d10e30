"""Dynamic evaluation: how well a network predicts text when it goes on learning from what it has read.

    θ ← θ - η ∇L ⊘ (√MS + ε) + λ (θ_g - θ) ⊙ RMS_norm,    RMS_norm = √MS / mean(√MS),  λ RMS_norm at most 1

(Krause, Kahembwe, Murray & Renals 2018, https://arxiv.org/abs/1709.07432). A text is read in short segments. The
log-probabilities of a segment are counted with the weights θ as they are; only then is one step made down the gradient
of its loss L, their negative sum. Numbers whose gradients were large in training take smaller steps, and are pulled
back harder to where training left them, θ_g: MS is the mean of ∇L² over segments of the training text, at θ_g.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass
from itertools import product

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.store import TokenStore
from seqloom.data.windows import window_batch
from seqloom.errors import UserError
from seqloom.metrics.likelihood import Likelihood
from seqloom.models.language import LanguageModel
from seqloom.progress import watched
from seqloom.text.special import UNK

SEGMENT = 16  # tokens between two steps: as good as the paper's 5 on the bundled texts, in a third of the time
MEASURED = 1000  # segments of the training text that say how large gradients are
PIECES = 20  # places of the training text that these come from
TRIED = 5000  # tokens of a text that rates are chosen on
STABLE = 1e-2  # ε, beside √MS of 0.01 to 0.06: what few of the measured segments moved shall not take leaps
LEARNING_RATES = (3e-5, 1e-4, 3e-4, 1e-3)
DECAYS = (1e-3, 3e-3, 1e-2)


@dataclass(frozen=True)
class Rates:
    """How fast a network learns from what it reads, and how fast it forgets that again.

    MS is that of single segments here, as they are learned from; the authors' code takes it of batches of a hundred,
    where it is smaller, and has smaller learning rates for that.
    """

    learning: float = 1e-4
    """η"""
    decay: float = 3e-3
    """λ"""

    def __post_init__(self) -> None:
        for name, rate in (("learning rate", self.learning), ("decay", self.decay)):
            if not (rate >= 0 and math.isfinite(rate)):
                raise UserError(f"the {name} of dynamic evaluation must be a finite number, 0 or more, not {rate}")

    @classmethod
    def grid(cls, learning: float | None = None, decay: float | None = None) -> list[Rates]:
        """Those to choose from; where one of the two is given, it stays."""
        learnings = LEARNING_RATES if learning is None else (learning,)
        return [cls(*rates) for rates in product(learnings, DECAYS if decay is None else (decay,))]


@dataclass(frozen=True)
class Reading:
    """How a text is read: in segments of so many tokens, each after as much of what came before as a model can use."""

    length: int
    """Tokens that a model without a state to carry sees at once, those of the segment among them."""
    segment: int = SEGMENT

    def __post_init__(self) -> None:
        if self.segment < 1:
            raise UserError(f"a segment has at least one token, not {self.segment}")

    def segments(self, model: LanguageModel, tokens: NDArray[np.integer]) -> Iterator[Tensor]:
        """log p of the tokens of each segment [tokens], with the graph that leads to them; read as one row, in order.

        The weights may change between two segments: what was read before is remembered as it was read then, and no
        gradient goes back into it; a model that carries no state reads it again.
        """
        carries = model.features.carries
        state = None
        for first in range(0, len(tokens), self.segment):
            size = min(self.segment, len(tokens) - first)
            again = 0 if carries else min(first, max(0, self.length - self.segment))
            batch = window_batch(tokens, np.array([first - again]), again + size).to(model.device)
            features, after = model(batch.inputs, state)
            state = after.detach() if carries else None
            yield model.output.log_prob(features[:, again:], batch.targets[:, again:])[0]

    def count(self, tokens: NDArray[np.integer]) -> int:
        """How many segments some tokens have."""
        return math.ceil(len(tokens) / self.segment)


def mean_squares(model: LanguageModel, store: TokenStore, reading: Reading, most: int = MEASURED) -> list[Tensor]:
    """MS of each of a model's parameters: the mean of ∇L² over `most` segments, from places all over a text."""
    model = deepcopy(model).eval()
    weights = _learned(model)
    squares = [torch.zeros_like(weight) for weight in weights]
    pieces = _pieces(store.tokens, most * reading.segment)
    total = sum(map(reading.count, pieces))
    segments = (log_probs for piece in pieces for log_probs in reading.segments(model, piece))
    for log_probs in watched(segments, "segments of training text", total):
        for square, gradient in zip(squares, _gradients(log_probs, weights), strict=True):
            square.addcmul_(gradient, gradient, value=1 / total)
    return squares


def dynamic_likelihood(
    model: LanguageModel, store: TokenStore, squares: Sequence[Tensor], rates: Rates, reading: Reading
) -> Likelihood:
    """The likelihood of a whole store, read while learning from it; `squares` as `mean_squares` gives them."""
    log_probs = dynamic_log_probs(model, store.tokens, squares, rates, reading)
    if not np.isfinite(log_probs).all():
        raise UserError(
            f"with learning rate {rates.learning:g} and decay {rates.decay:g} the weights went out of all bounds: "
            "choose a lower learning rate (--dynamic-rate)"
        )
    known = store.tokens != UNK
    return Likelihood.of_store(store, float(log_probs.sum()), float(log_probs.sum(where=known)))


def chosen_rates(
    model: LanguageModel,
    store: TokenStore,
    squares: Sequence[Tensor],
    candidates: Sequence[Rates],
    reading: Reading,
    most: int = TRIED,
) -> Rates:
    """The rates by which the beginning of a text, `most` tokens, is predicted best."""
    beginning = np.asarray(store.tokens[:most])

    def surprise(rates: Rates) -> float:
        total = -float(dynamic_log_probs(model, beginning, squares, rates, reading).sum())
        return total if math.isfinite(total) else math.inf

    surprises = [surprise(rates) for rates in watched(candidates, "pairs of rates", len(candidates))]
    return candidates[int(np.argmin(surprises))]


def dynamic_log_probs(
    model: LanguageModel,
    tokens: NDArray[np.integer],
    squares: Sequence[Tensor],
    rates: Rates,
    reading: Reading,
    stable: float = STABLE,
) -> NDArray[np.float64]:
    """log p of each token, by weights that have learned from the segments before its own. The model stays as it is: a
    copy of it learns."""
    origins = _learned(model)
    model = deepcopy(model).eval()
    weights = _learned(model)
    roots = [square.sqrt() for square in squares]
    mean = sum(root.sum().item() for root in roots) / sum(root.numel() for root in roots)
    steps = [rates.learning / (root + stable) for root in roots]
    pulls = [(rates.decay * root / mean).clamp(max=1) for root in roots]
    found = []
    for log_probs in watched(reading.segments(model, tokens), "segments of text", reading.count(tokens)):
        found.append(log_probs.detach().double().cpu().numpy())
        gradients = _gradients(log_probs, weights)
        with torch.no_grad():
            for weight, origin, pull, gradient, step in zip(weights, origins, pulls, gradients, steps, strict=True):
                weight.lerp_(origin, pull).addcmul_(gradient, step, value=-1)
    return np.concatenate(found)


def _gradients(log_probs: Tensor, weights: Sequence[Tensor]) -> tuple[Tensor, ...]:
    """Of the loss of a segment, by each parameter; 0 for those that had no part in it."""
    return torch.autograd.grad(-log_probs.sum(), weights, materialize_grads=True, allow_unused=True)


def _learned(model: LanguageModel) -> list[Tensor]:
    """The parameters that training changes."""
    return [weight for weight in model.parameters() if weight.requires_grad]


def _pieces(tokens: NDArray[np.integer], most: int) -> list[NDArray[np.integer]]:
    """Pieces of a text from places all over it, together `most` tokens; the whole text where it has no more."""
    if len(tokens) <= most:
        return [tokens]
    size = most // PIECES
    return [tokens[first : first + size] for first in np.linspace(0, len(tokens) - size, PIECES).astype(np.int64)]
