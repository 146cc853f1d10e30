"""How well a model predicts text: entropy, cross-entropy, perplexity, bits per character."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from seqloom.data.store import TokenStore
from seqloom.data.windows import window_batch
from seqloom.models import Autoregressive, LanguageModel
from seqloom.text.special import PAD


def entropy(distribution: ArrayLike) -> float:
    """H(p) = -Σ p log p in nats; zero probabilities add nothing."""
    probabilities = np.asarray(distribution, dtype=float)
    positive = probabilities[probabilities > 0]
    return float(-(positive * np.log(positive)).sum())


@dataclass(frozen=True)
class Likelihood:
    """log p(text) with the counts that turn it into rates comparable across tokenisers."""

    log_prob: float
    """Natural log."""
    tokens: int
    words: int
    characters: int
    unknown: int
    """Tokens outside the vocabulary; each was scored as `<unk>`, which flatters the perplexity."""

    @property
    def cross_entropy(self) -> float:
        """-log p / tokens, in nats."""
        return -self.log_prob / self.tokens

    @property
    def perplexity(self) -> float:
        """exp(-log p / tokens): comparable only under the same tokeniser."""
        return _exp(self.cross_entropy)

    @property
    def word_perplexity(self) -> float:
        """exp(-log p / words): comparable across tokenisers, as long as nothing is unknown."""
        return _exp(-self.log_prob / self.words)

    @property
    def bits_per_character(self) -> float:
        """-log₂ p / characters: comparable across tokenisers, as long as nothing is unknown."""
        return -self.log_prob / math.log(2) / self.characters

    def as_dict(self) -> dict[str, float]:
        """All of it, for a table or a JSON line."""
        return {
            "log_prob": self.log_prob,
            "tokens": self.tokens,
            "words": self.words,
            "characters": self.characters,
            "unknown": self.unknown,
            "cross_entropy": self.cross_entropy,
            "perplexity": self.perplexity,
            "word_perplexity": self.word_perplexity,
            "bits_per_character": self.bits_per_character,
        }


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


@torch.inference_mode()
def stream_likelihood(
    model: LanguageModel, store: TokenStore, length: int, rows: int = 16, overlap: int = 0
) -> Likelihood:
    """The likelihood of a whole store, read as running text.

    The text is cut into up to `rows` long rows that are read side by side in windows of `length` tokens. A model that
    carries its state reads each row without a break. For another, each window after the first begins with `overlap`
    tokens that are read again and not scored, so that no word is predicted from less context than that.
    """
    carries = model.features.carries
    stride = length if carries else max(1, length - overlap)
    rows = max(1, min(rows, len(store) // (4 * length)))
    bounds = np.linspace(0, len(store), rows + 1).astype(np.int64)
    row_length = int(np.diff(bounds).max())
    device = next(model.parameters()).device
    total = torch.zeros((), dtype=torch.float64, device=device)
    state = None
    for offset in range(0, row_length, stride):
        again = 0 if carries or offset == 0 else min(overlap, offset)
        first = bounds[:-1] + offset - again
        width = min(stride, row_length - offset) + again
        batch = window_batch(store.tokens, first, width).to(device)
        features, state = model(batch.inputs, state if carries else None)
        log_probs = model.output.log_prob(features, batch.targets)
        inside = (first[:, None] + np.arange(width) < bounds[1:, None]) & (np.arange(width) >= again)
        total += (log_probs.double() * torch.from_numpy(inside).to(device)).sum()
    totals = store.totals
    return Likelihood(total.item(), totals.tokens, totals.words, totals.characters, totals.unknown)


@torch.inference_mode()
def unit_log_probs(model: Autoregressive, units: Sequence[Sequence[int]], batch_tokens: int = 16384) -> list[float]:
    """log p of each unit of token ids by itself; batched by length so that little is padding."""
    device = next(model.parameters()).device if isinstance(model, torch.nn.Module) else torch.device("cpu")
    order = sorted(range(len(units)), key=lambda index: len(units[index]))
    results = [0.0] * len(units)
    first = 0
    while first < len(order):
        last = first + 1
        while last < len(order) and (last + 1 - first) * len(units[order[last]]) <= batch_tokens:
            last += 1
        indices = order[first:last]
        rows = _padded([units[index] for index in indices]).to(device)
        for index, value in zip(indices, model.log_prob(rows).tolist(), strict=True):
            results[index] = value
        first = last
    return results


def _padded(units: Sequence[Sequence[int]]) -> Tensor:
    rows = torch.full((len(units), max(1, max(len(unit) for unit in units))), PAD)
    for row, unit in zip(rows, units, strict=True):
        row[: len(unit)] = torch.as_tensor(unit)
    return rows
