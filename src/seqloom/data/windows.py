"""Language-model batches: windows of one long row of token ids.

A window's inputs are its targets shifted by one, and where a unit begins the input is `<bos>`:

    targets  the  time  machine  <eos>  by   H.  G.  Wells
    inputs   <bos> the  time  machine  <bos>  by  H.  G.

so `<bos>` always means "a unit begins here", `<eos>` is only ever predicted, and no step is spent on a separator.

Where the whole file is one unit, the text begins but once; there `<bos>` means "nothing is known before". Rows that
are read from an empty state begin with it, or half of them where all are, so that a model can start from either.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config.schema.data import TextData
from seqloom.data.batch import Batch, Numbers
from seqloom.data.samplers import RandomWindows, SequentialWindows
from seqloom.data.store import TokenStore
from seqloom.data.stream import Examples, Place, Stream
from seqloom.text.special import BOS, EOS


@dataclass(frozen=True)
class TokenBatch(Batch):
    """Windows of a text; the number of each is where it begins."""

    inputs: Tensor
    """[rows, time]"""
    targets: Tensor
    """[rows, time]"""
    fresh: NDArray[np.bool_]
    """[rows]: which do not go on from the batch before."""
    begins: Tensor | None = None
    """[rows, time]: where in its row the unit of each place begins; none where units may see each other."""

    @property
    def tokens(self) -> int:
        """How many targets there are to predict."""
        return self.targets.numel()


def window_batch(
    tokens: NDArray[Any], starts: Numbers, length: int, fresh: NDArray[np.bool_] | None = None, apart: bool = False
) -> TokenBatch:
    """The windows tokens[start : start + length] with the inputs that predict them; all fresh when nothing is said.

    A window that runs over the end repeats the last token there; its caller knows where the text ends. apart: whether
    units do not see each other.
    """
    positions = starts[:, None] + np.arange(-1, length)  # [rows, length + 1]
    window = tokens[positions.clip(0, len(tokens) - 1)].astype(np.int64)
    targets = window[:, 1:]
    inputs = window[:, :-1].copy()
    inputs[(inputs == EOS) | (positions[:, :-1] < 0)] = BOS
    fresh = np.ones(len(starts), dtype=bool) if fresh is None else fresh
    read, targets = torch.from_numpy(inputs), np.ascontiguousarray(targets)
    return TokenBatch(read, torch.from_numpy(targets), fresh, unit_begins(read) if apart else None, numbers=starts)


def unit_begins(inputs: Tensor) -> Tensor:
    """Where in its row the unit of each of inputs [rows, time] begins: at the last `<bos>`, else where the row does."""
    places = torch.arange(inputs.size(1), device=inputs.device)
    return torch.where(inputs == BOS, places, 0).cummax(dim=1).values


@dataclass(frozen=True)
class Windows(Examples):
    """The windows of a text by where they begin, each read from an empty state."""

    store: TokenStore
    length: int
    whole_file: bool = False
    """Whether all of the text is one unit."""
    apart: bool = False
    """Whether units do not see each other."""

    def batch(self, numbers: Numbers) -> TokenBatch:
        batch = window_batch(self.store.tokens, numbers, self.length, apart=self.apart)
        if self.whole_file:
            batch.inputs[::2, 0] = BOS
        return batch

    def targets(self, numbers: Numbers) -> int:
        return len(numbers) * self.length


@dataclass(frozen=True)
class RunningWindows(Windows):
    """Windows that go on from those before them in their rows.

    With probability `reset` a row forgets its state before a window, so that a model learns to begin from nothing too.
    """

    reset: float = 0.0

    def batch_at(self, place: Place, numbers: Numbers) -> TokenBatch:
        forgets = place.random().random(len(numbers)) < self.reset
        fresh = forgets | (place.index == 0)
        batch = window_batch(self.store.tokens, numbers, self.length, fresh, self.apart)
        if self.whole_file:
            batch.inputs[batch.fresh, 0] = BOS
        return batch


def random_windows(
    store: TokenStore, batch_size: int, length: int, seed: int = 0, whole_file: bool = False, apart: bool = False
) -> Stream:
    """Windows in any order."""
    return Stream(Windows(store, length, whole_file, apart), RandomWindows(len(store), batch_size, length), seed)


def sequential_windows(
    store: TokenStore,
    batch_size: int,
    length: int,
    seed: int = 0,
    whole_file: bool = False,
    apart: bool = False,
    reset: float = 0.0,
) -> Stream:
    """Windows in the order of the text, in `batch_size` rows side by side."""
    windows = RunningWindows(store, length, whole_file, apart, reset)
    return Stream(windows, SequentialWindows(len(store), batch_size, length), seed)


def spread_windows(store: TokenStore, length: int, count: int) -> Iterator[TokenBatch]:
    """So many windows, evenly spread over a text, in one batch; fewer where they would overlap."""
    last = len(store) - length
    count = max(1, min(count, len(store) // length))
    yield window_batch(store.tokens, np.linspace(0, max(0, last), count).astype(np.int64), min(length, len(store)))


def training_windows(store: TokenStore, config: TextData, seed: int) -> Stream:
    """The batches that a configuration asks for."""
    shape = (config.batch_size, config.length, seed, config.unit == "file", config.apart)
    if config.sampling == "random":
        return random_windows(store, *shape)
    return sequential_windows(store, *shape, reset=config.reset)
