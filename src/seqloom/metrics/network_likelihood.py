"""How well a network predicts text: running text window by window, and targets given their sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqloom.data.store import TokenStore
from seqloom.data.windows import window_batch
from seqloom.metrics.likelihood import Likelihood
from seqloom.models.conditional import Conditional
from seqloom.models.language import LanguageModel
from seqloom.progress import watched
from seqloom.text.special import UNK


@torch.inference_mode()
def text_likelihood(model: LanguageModel, store: TokenStore, length: int, rows: int = 16) -> Likelihood:
    """The likelihood of a whole store, read as running text, as `read_stream` reads it."""
    totals = torch.zeros(2, dtype=torch.float64, device=model.device)  # of all tokens, and of the known ones
    for read in read_stream(model, store, length, rows):
        log_probs = model.output.log_prob(read.features, read.targets).double() * read.counts
        totals += torch.stack([log_probs.sum(), (log_probs * (read.targets != UNK)).sum()])
    everything, known = totals.tolist()
    return Likelihood.of_store(store, everything, known)


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
