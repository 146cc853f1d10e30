"""Language-model batches: windows of one long row of token ids.

A window's inputs are its targets shifted by one, and where a unit begins the input is `<bos>`:

    targets  the  time  machine  <eos>  by   H.  G.  Wells
    inputs   <bos> the  time  machine  <bos>  by  H.  G.

so `<bos>` always means "a unit begins here", `<eos>` is only ever predicted, and no step is spent on a separator.

Where the whole file is one unit, the text begins but once; there `<bos>` means "nothing is known before". Rows that
are read from an empty state begin with it, or half of them where all are, so that a model can start from either.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config.schema import TextData
from seqloom.data.store import TokenStore
from seqloom.errors import DataError
from seqloom.text.special import BOS, EOS


@dataclass(frozen=True)
class TokenBatch:
    """inputs and targets [rows, time]; `fresh` [rows] says which rows do not go on from the batch before."""

    inputs: Tensor
    targets: Tensor
    fresh: Tensor
    """Stays on the processor, where it is asked."""

    @property
    def tokens(self) -> int:
        """How many targets there are to predict."""
        return self.targets.numel()

    def to(self, device: torch.device) -> TokenBatch:
        """The same batch on `device`."""
        move = lambda tensor: tensor.to(device, non_blocking=True)  # noqa: E731
        return TokenBatch(move(self.inputs), move(self.targets), self.fresh)

    def rows(self, first: int, last: int) -> TokenBatch:
        """Some of the rows: one process's part of a global batch."""
        return TokenBatch(self.inputs[first:last], self.targets[first:last], self.fresh[first:last])


def window_batch(
    tokens: NDArray[Any], starts: NDArray[np.int64], length: int, fresh: NDArray[np.bool_] | None = None
) -> TokenBatch:
    """The windows tokens[start : start + length] with the inputs that predict them; all fresh when nothing is said.

    A window that runs over the end repeats the last token there; its caller knows where the text ends.
    """
    positions = starts[:, None] + np.arange(-1, length)  # [rows, length + 1]
    window = tokens[np.clip(positions, 0, len(tokens) - 1)].astype(np.int64)
    targets = window[:, 1:]
    inputs = window[:, :-1].copy()
    inputs[(inputs == EOS) | (positions[:, :-1] < 0)] = BOS
    fresh = np.ones(len(starts), dtype=bool) if fresh is None else fresh
    return TokenBatch(
        torch.from_numpy(inputs), torch.from_numpy(np.ascontiguousarray(targets)), torch.from_numpy(fresh)
    )


class RandomWindows:
    """Random sampling: every epoch cuts the text anew at a random offset and shuffles the windows.

    All randomness follows from (seed, epoch), so the position (epoch, index) is all there is to save.
    """

    def __init__(
        self, store: TokenStore, batch_size: int, length: int, seed: int = 0, whole_file: bool = False
    ) -> None:
        self.store, self.batch_size, self.length, self.seed = store, batch_size, length, seed
        self.whole_file = whole_file
        self.windows = max(0, len(store) - length + 1) // length  # the same number at every offset
        self.batches_per_epoch = self.windows // batch_size
        if not self.batches_per_epoch:
            raise _too_short(store, batch_size, length)
        self.epoch = self.index = 0
        self._shuffle()

    def _shuffle(self) -> None:
        generator = np.random.default_rng([self.seed, self.epoch])
        offset = generator.integers(self.length)
        self._starts = offset + generator.permutation(self.windows) * self.length

    def __iter__(self) -> RandomWindows:
        return self

    def __next__(self) -> TokenBatch:
        if self.index == self.batches_per_epoch:
            self.epoch, self.index = self.epoch + 1, 0
            self._shuffle()
        first = self.index * self.batch_size
        self.index += 1
        starts = self._starts[first : first + self.batch_size]
        batch = window_batch(self.store.tokens, starts, self.length)
        if self.whole_file:
            batch.inputs[::2, 0] = BOS
        return batch

    def position(self) -> dict[str, int]:
        """Where the next batch comes from."""
        return {"epoch": self.epoch, "index": self.index}

    def seek(self, position: dict[str, int]) -> None:
        """Go on from a saved position."""
        self.epoch, self.index = position["epoch"], position["index"]
        self._shuffle()


class SequentialWindows:
    """Sequential partitioning: `batch_size` long rows side by side, read in order, each window going on in its row.

    The text is cut at another random offset every epoch, so that windows do not always break at the same words. With
    probability `reset` a row forgets its state before a window, so that a model learns to begin from nothing too.
    """

    def __init__(
        self,
        store: TokenStore,
        batch_size: int,
        length: int,
        seed: int = 0,
        whole_file: bool = False,
        reset: float = 0.0,
    ) -> None:
        self.store, self.batch_size, self.length, self.seed = store, batch_size, length, seed
        self.whole_file, self.reset = whole_file, reset
        self.batches_per_epoch = max(0, len(store) - length + 1) // batch_size // length
        if not self.batches_per_epoch:
            raise _too_short(store, batch_size, length)
        self.epoch = self.index = 0

    def __iter__(self) -> SequentialWindows:
        return self

    def __next__(self) -> TokenBatch:
        if self.index == self.batches_per_epoch:
            self.epoch, self.index = self.epoch + 1, 0
        offset = int(np.random.default_rng([self.seed, self.epoch]).integers(self.length))
        row_length = (len(self.store) - offset) // self.batch_size
        starts = offset + np.arange(self.batch_size) * row_length + self.index * self.length
        forgets = np.random.default_rng([self.seed, self.epoch, self.index]).random(self.batch_size) < self.reset
        batch = window_batch(self.store.tokens, starts, self.length, fresh=forgets | (self.index == 0))
        if self.whole_file:
            batch.inputs[batch.fresh, 0] = BOS
        self.index += 1
        return batch

    def position(self) -> dict[str, int]:
        """Where the next batch comes from."""
        return {"epoch": self.epoch, "index": self.index}

    def seek(self, position: dict[str, int]) -> None:
        """Go on from a saved position."""
        self.epoch, self.index = position["epoch"], position["index"]


Windows = RandomWindows | SequentialWindows


def training_windows(store: TokenStore, config: TextData, seed: int) -> Windows:
    """The batches that a configuration asks for."""
    shape = (config.batch_size, config.length, seed, config.unit == "file")
    if config.sampling == "random":
        return RandomWindows(store, *shape)
    return SequentialWindows(store, *shape, reset=config.reset)


def _too_short(store: TokenStore, batch_size: int, length: int) -> DataError:
    return DataError(
        f"the training text has {len(store)} tokens, too few for one batch of {batch_size} windows of {length} tokens: "
        f"use more text, or lower data.batch_size or data.length"
    )
