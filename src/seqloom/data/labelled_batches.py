"""Batches of labelled sentences: what is known of each word, and the labels."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.text.special import PAD

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class LabelledBatch:
    """Rows of words, padded."""

    ids: Tensor
    """[rows, time]: words under the tokeniser."""
    layers: Tensor | None
    """[rows, time, layers, width]: contextual vectors of every layer, where there are any."""
    targets: Tensor
    """[rows, time] labels of the words, 0 where padding is; or [rows] labels of the sentences."""
    lengths: Tensor
    """[rows]: words."""

    @cached_property
    def tokens(self) -> int:
        """How many labels there are to predict."""
        return int(self.lengths.sum()) if self.targets.dim() == 2 else len(self.targets)

    @property
    def mask(self) -> Tensor:
        """[rows, time]: True where a word stands."""
        return torch.arange(self.ids.size(1), device=self.ids.device) < self.lengths.unsqueeze(1)

    def to(self, device: torch.device) -> LabelledBatch:
        """The same batch on `device`."""
        layers = None if self.layers is None else self.layers.to(device, non_blocking=True)
        ids, targets, lengths = (tensor.to(device) for tensor in (self.ids, self.targets, self.lengths))
        moved = LabelledBatch(ids, layers, targets, lengths)
        vars(moved)["tokens"] = self.tokens  # counted here: a GPU would be waited for
        return moved


@dataclass(frozen=True)
class LabelledSentences:
    """Sentences by number, their words one after the other; each has one word at least."""

    ids: NDArray[np.int64]
    sizes: Numbers
    """[sentences]: how many words each has."""
    labels: Numbers
    """One for each word, or one for each sentence."""
    by_word: bool
    """Which of the two."""
    layers: NDArray[Any] | None = None
    """[words, layers, width]: contextual vectors."""

    def __len__(self) -> int:
        return len(self.sizes)

    @cached_property
    def starts(self) -> Numbers:
        """[sentences]: where each begins."""
        starts: Numbers = np.cumsum(self.sizes) - self.sizes
        return starts

    @property
    def lengths(self) -> Numbers:
        """How many words each sentence has."""
        return self.sizes

    def targets(self, numbers: Numbers) -> int:
        """How many labels these sentences have."""
        return int(self.sizes[numbers].sum()) if self.by_word else len(numbers)

    def batch(self, numbers: Numbers) -> LabelledBatch:
        """The batch of these sentences."""
        sizes = self.sizes[numbers]
        steps = np.arange(sizes.max())
        inside = steps < sizes[:, None]  # [rows, time]
        places = (self.starts[numbers][:, None] + steps)[inside]
        targets = _filled(inside, self.labels[places], 0) if self.by_word else self.labels[numbers]
        layers = None
        if self.layers is not None:
            layers = torch.zeros(*inside.shape, *self.layers.shape[1:])
            layers[torch.from_numpy(inside)] = torch.from_numpy(self.layers[places].astype(np.float32))
        ids = torch.from_numpy(_filled(inside, self.ids[places], PAD))
        return LabelledBatch(ids, layers, torch.from_numpy(targets), torch.from_numpy(sizes))


def _filled(inside: NDArray[np.bool_], values: NDArray[np.int64], other: int) -> NDArray[np.int64]:
    rows = np.full(inside.shape, other, np.int64)
    rows[inside] = values
    return rows
