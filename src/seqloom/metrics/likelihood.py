"""How well a model predicts text: entropy, cross-entropy, perplexity, bits per character."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from seqloom.data.buckets import sorted_batches
from seqloom.data.pair_store import PairStore
from seqloom.data.store import TokenStore
from seqloom.data.windows import window_batch
from seqloom.models import Autoregressive, LanguageModel, Seq2Seq, Source
from seqloom.text.special import EOS, UNK


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
    known_log_prob: float
    """log p of the other tokens alone."""

    @property
    def cross_entropy(self) -> float:
        """-log p / tokens, in nats."""
        return -self.log_prob / self.tokens

    @property
    def perplexity(self) -> float:
        """exp(-log p / tokens): comparable only under the same tokeniser."""
        return _exp(self.cross_entropy)

    @property
    def known_perplexity(self) -> float:
        """The perplexity per token with the unknown ones left out of the sum and of the count."""
        known = self.tokens - self.unknown
        return _exp(-self.known_log_prob / known) if known else math.nan

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
            "known_perplexity": self.known_perplexity,
            "word_perplexity": self.word_perplexity,
            "bits_per_character": self.bits_per_character,
        }


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


def store_likelihood(model: Autoregressive, store: TokenStore, length: int) -> Likelihood:
    """The likelihood of a whole store: neural models read it as running text, others unit by unit."""
    if isinstance(model, LanguageModel):
        return stream_likelihood(model, store, length, overlap=length // 2)
    return unit_likelihood(model, store)


@torch.inference_mode()
def stream_likelihood(
    model: LanguageModel, store: TokenStore, length: int, rows: int = 16, overlap: int = 0
) -> Likelihood:
    """The likelihood of a whole store, read as running text, as `read_stream` reads it."""
    totals = torch.zeros(2, dtype=torch.float64, device=model.device)  # of all tokens, and of the known ones
    for read in read_stream(model, store, length, rows, overlap):
        log_probs = model.output.log_prob(read.features, read.targets).double() * read.counts
        totals += torch.stack([log_probs.sum(), (log_probs * (read.targets != UNK)).sum()])
    everything, known = totals.tolist()
    return _of_store(store, everything, known)


class StreamWindow(NamedTuple):
    """A window of running text as a model read it."""

    features: Tensor
    """[rows, time, size], each before its target."""
    targets: Tensor
    """[rows, time]"""
    counts: Tensor
    """[rows, time]: whether a target belongs to the text and was not in a window before."""


def read_stream(
    model: LanguageModel, store: TokenStore, length: int, rows: int = 16, overlap: int = 0
) -> Iterator[StreamWindow]:
    """Read a whole store as running text.

    The text is cut into up to `rows` long rows that are read side by side in windows of `length` tokens. A model that
    carries its state reads each row without a break. For another, each window after the first begins with `overlap`
    tokens that are read again and not scored, so that no word is predicted from less context than that.
    """
    carries = model.features.carries
    stride = length if carries else max(1, length - overlap)
    rows = max(1, min(rows, len(store) // (4 * length)))
    bounds = np.linspace(0, len(store), rows + 1).astype(np.int64)
    row_length = int(np.diff(bounds).max())
    state = None
    for offset in range(0, row_length, stride):
        again = 0 if carries or offset == 0 else min(overlap, offset)
        first = bounds[:-1] + offset - again
        width = min(stride, row_length - offset) + again
        batch = window_batch(store.tokens, first, width).to(model.device)
        features, state = model(batch.inputs, state if carries else None)
        inside = (first[:, None] + np.arange(width) < bounds[1:, None]) & (np.arange(width) >= again)
        yield StreamWindow(features, batch.targets, torch.from_numpy(inside).to(model.device))


def unit_likelihood(model: Autoregressive, store: TokenStore, piece: int = 1 << 22) -> Likelihood:
    """The likelihood of a whole store, every unit by itself from `<bos>` to `<eos>`; about `piece` tokens at a time."""
    everything = known = 0.0
    first = 0
    while first < len(store):
        tokens = np.asarray(store.tokens[first : first + piece])
        ends = np.flatnonzero(tokens == EOS) + 1
        while not len(ends):  # a unit longer than a piece
            piece *= 2
            tokens = np.asarray(store.tokens[first : first + piece])
            ends = np.flatnonzero(tokens == EOS) + 1
        tokens = tokens[: ends[-1]]
        scores = model.unit_log_probs(tokens, np.diff(ends, prepend=0))
        everything += float(scores.sum(dtype=np.float64))
        known += float(scores.sum(dtype=np.float64, where=tokens != UNK))
        first += len(tokens)
    return _of_store(store, everything, known)


@torch.inference_mode()
def pair_cross_entropy(model: Seq2Seq, pairs: PairStore, batch_tokens: int = 8192) -> float:
    """-Σ log p(target | source) / tokens, in nats, `<eos>` counted, over all pairs of a store."""
    total = torch.zeros((), dtype=torch.float64, device=model.device)
    for _, batch in sorted_batches(pairs, batch_tokens):
        total += model.log_prob(batch.targets.to(model.device), Source.of(batch)).double().sum()
    return -total.item() / pairs.totals.target_tokens


def _of_store(store: TokenStore, log_prob: float, known_log_prob: float) -> Likelihood:
    totals = store.totals
    return Likelihood(log_prob, totals.tokens, totals.words, totals.characters, totals.unknown, known_log_prob)
