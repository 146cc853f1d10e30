"""How well a model predicts text: entropy, cross-entropy, perplexity, bits per character."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from seqloom.data.store import TokenStore
from seqloom.data.windows import window_batch
from seqloom.models.autoregressive import Autoregressive
from seqloom.models.conditional import Conditional
from seqloom.models.language import LanguageModel
from seqloom.progress import watched
from seqloom.text.special import EOS, UNK

RATES = ("cross_entropy", "perplexity", "known_perplexity", "word_perplexity", "bits_per_character")


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
        """Counts and rates, for a table or a JSON line."""
        counts = {name: value for name, value in asdict(self).items() if name != "known_log_prob"}
        return counts | {rate: getattr(self, rate) for rate in RATES}


def _exp(value: float) -> float:
    return math.exp(value) if value < 700 else math.inf


@torch.inference_mode()
def text_likelihood(model: LanguageModel, store: TokenStore, length: int, rows: int = 16) -> Likelihood:
    """The likelihood of a whole store, read as running text, as `read_stream` reads it."""
    totals = torch.zeros(2, dtype=torch.float64, device=model.device)  # of all tokens, and of the known ones
    for read in read_stream(model, store, length, rows):
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


def read_stream(model: LanguageModel, store: TokenStore, length: int, rows: int = 16) -> Iterator[StreamWindow]:
    """Read a whole store as running text.

    The text is cut into up to `rows` long rows that are read side by side in windows of `length` tokens. A model that
    carries its state reads each row without a break. For another, the first half of each window but the first is
    read again and not scored, so that no word is predicted from less context than that.
    """
    overlap = length // 2
    carries = model.features.carries
    stride = length if carries else max(1, length - overlap)
    rows = max(1, min(rows, len(store) // (4 * length)))
    bounds = np.linspace(0, len(store), rows + 1).astype(np.int64)
    row_length = int(np.diff(bounds).max())
    state = None
    offsets = range(0, row_length, stride)
    for offset in watched(offsets, "windows of text", len(offsets)):
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
    for tokens, lengths in watched(unit_pieces(store, piece), "tokens", len(store), lambda each: len(each[0])):
        scores = model.unit_log_probs(tokens, lengths)
        everything += float(scores.sum(dtype=np.float64))
        known += float(scores.sum(dtype=np.float64, where=tokens != UNK))
    return _of_store(store, everything, known)


def unit_pieces(store: TokenStore, piece: int) -> Iterator[tuple[NDArray[Any], NDArray[np.int64]]]:
    """The tokens of whole units, about `piece` of them at a time, and the units' lengths."""
    first = 0
    while first < len(store):
        tokens = np.asarray(store.tokens[first : first + piece])
        ends = np.flatnonzero(tokens == EOS) + 1
        if len(ends):
            yield tokens[: ends[-1]], np.diff(ends, prepend=0)
            first += int(ends[-1])
        else:  # a unit is longer than a piece
            piece *= 2


@torch.inference_mode()
def target_likelihood(model: Conditional, batches: Iterable[Any]) -> Likelihood:
    """The likelihood of the targets in batches of pairs or captions, each given its source; every `<eos>` counts.

    Words and characters are not counted: tokens stand for them.
    """
    totals = torch.zeros(3, dtype=torch.float64, device=model.device)  # all tokens, the known ones, how many are not
    tokens = 0
    for batch in batches:
        batch = batch.to(model.device)
        log_prob, known = model.target_log_probs(batch)
        totals += torch.stack([log_prob.sum(), known.sum(), (batch.targets == UNK).sum()])
        tokens += batch.tokens
    everything, known, unknown_tokens = totals.tolist()
    return Likelihood(everything, tokens, tokens, tokens, int(unknown_tokens), known)


def _of_store(store: TokenStore, log_prob: float, known_log_prob: float) -> Likelihood:
    totals = store.totals
    return Likelihood(log_prob, totals.tokens, totals.words, totals.characters, totals.unknown, known_log_prob)
