"""How well a network predicts text: running text window by window, and targets given their sources."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from seqloom.data.samplers import Buckets
from seqloom.data.store import TokenStore
from seqloom.data.windows import window_batch
from seqloom.metrics.likelihood import Likelihood
from seqloom.models.conditional import Conditional
from seqloom.models.language import LanguageModel
from seqloom.progress import watched
from seqloom.text.special import EOS, UNK

READ_TOGETHER = 16384  # tokens of a batch of units


@torch.inference_mode()
def text_likelihood(
    model: LanguageModel, store: TokenStore, length: int, rows: int = 16, apart: bool = False
) -> Likelihood:
    """The likelihood of a whole store: of running text, or where units are `apart`, of each by itself."""
    totals = torch.zeros(2, dtype=torch.float64, device=model.device)  # of all tokens, and of the known ones
    for read in read_text(model, store, length, rows, apart):
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


def read_text(
    model: LanguageModel, store: TokenStore, length: int, rows: int = 16, apart: bool = False
) -> Iterator[StreamWindow]:
    """Read a whole store as a model reads text: as one, or where units are `apart`, each by itself."""
    return read_units(model, store, length) if apart else read_stream(model, store, length, rows)


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


def read_units(model: LanguageModel, store: TokenStore, length: int) -> Iterator[StreamWindow]:
    """Read every unit of a store by itself, those of similar length side by side.

    A unit that is longer than `length` is read in windows, the first half of each but the first read again and not
    scored, as `read_stream` does with a text.
    """
    overlap = length // 2
    stride = length - overlap
    ends = np.flatnonzero(store.tokens == EOS) + 1
    lengths = np.diff(ends, prepend=0)
    windows = 1 + np.maximum(0, lengths - length + stride - 1) // stride
    unit = np.repeat(np.arange(len(ends)), windows)  # of each window
    number = np.arange(len(unit)) - (np.cumsum(windows) - windows)[unit]  # of each window within its unit
    first = (ends - lengths)[unit] + number * stride
    widths = np.minimum(length, ends[unit] - first)
    batches = Buckets(widths, READ_TOGETHER).in_order()
    for chosen in watched(batches, "windows of text", len(unit), len):
        places = np.arange(widths[chosen].max())
        batch = window_batch(store.tokens, first[chosen], len(places)).to(model.device)
        features, _ = model(batch.inputs)
        inside = (places < widths[chosen, None]) & (places >= overlap * (number[chosen, None] > 0))
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
