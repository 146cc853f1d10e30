"""Units of text, each a sequence of its own: lines or paragraphs, from `<bos>` to `<eos>`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.ragged import Ragged
from seqloom.data.store import TokenStore
from seqloom.text.special import BOS, EOS, PAD

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class UnitBatch:
    """Rows of text, padded with `<pad>`."""

    targets: Tensor
    """[rows, time], ending in `<eos>`."""
    lengths: Tensor
    """[rows]: padding left out."""

    @cached_property
    def inputs(self) -> Tensor:
        """[rows, time]: the targets shifted by one, beginning with `<bos>`."""
        return torch.cat([torch.full_like(self.targets[:, :1], BOS), self.targets[:, :-1]], dim=1)

    @cached_property
    def tokens(self) -> int:
        """How many targets there are to predict, padding left out."""
        return int(self.lengths.sum())

    @cached_property
    def places(self) -> Tensor:
        """[tokens]: where the targets that are not padding stand, row after row."""
        return (self.targets.flatten() != PAD).nonzero().squeeze(1)

    def to(self, device: torch.device) -> UnitBatch:
        """The same batch on `device`."""
        moved = UnitBatch(self.targets.to(device, non_blocking=True), self.lengths.to(device, non_blocking=True))
        vars(moved)["tokens"] = self.tokens  # counted and found here: a GPU would be waited for
        vars(moved)["places"] = self.places.to(device, non_blocking=True)
        return moved


@dataclass(frozen=True)
class Units:
    """Units by number, of which batches can be made."""

    rows: Ragged

    @classmethod
    def of_store(cls, store: TokenStore) -> Units:
        """The units of a store, blank ones left out."""
        ends = np.flatnonzero(store.tokens == EOS) + 1
        rows = Ragged(store.tokens, np.concatenate([[0], ends]))
        return cls(rows.where(rows.lengths > 1))

    def __len__(self) -> int:
        return len(self.rows)

    def no_longer_than(self, longest: int) -> Units:
        """Those of at most so many tokens, `<eos>` not counted."""
        return Units(self.rows.where(self.rows.lengths <= longest + 1))

    @property
    def lengths(self) -> Numbers:
        """How long each unit is with its `<eos>`."""
        return self.rows.lengths

    def targets(self, numbers: Numbers) -> int:
        """How many words these units ask for."""
        return int(self.lengths[numbers].sum())

    def batch(self, numbers: Numbers) -> UnitBatch:
        """The batch of these units."""
        lengths = self.lengths[numbers]
        inside = np.arange(lengths.max()) < lengths[:, None]
        targets = np.full(inside.shape, PAD, np.int64)
        targets[inside] = np.concatenate([self.rows[number] for number in numbers])
        return UnitBatch(torch.from_numpy(targets), torch.from_numpy(lengths))
