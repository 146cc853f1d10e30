"""Units of text, each a sequence of its own: lines or paragraphs, from `<bos>` to `<eos>`."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from torch import Tensor

from seqloom.data.batch import Numbers, PaddedBatch
from seqloom.data.ragged import Ragged, padded
from seqloom.data.store import TokenStore
from seqloom.data.stream import Sequences
from seqloom.text.special import BOS, EOS


@dataclass(frozen=True)
class UnitBatch(PaddedBatch):
    """Rows of text, padded with `<pad>`."""

    targets: Tensor
    """[rows, time], ending in `<eos>`."""
    lengths: Tensor
    """[rows]: padding left out."""

    @cached_property
    def inputs(self) -> Tensor:
        """[rows, time]: the targets shifted by one, beginning with `<bos>`."""
        return torch.cat([torch.full_like(self.targets[:, :1], BOS), self.targets[:, :-1]], dim=1)


@dataclass(frozen=True)
class TextUnits(Sequences):
    """Units of text by number."""

    rows: Ragged

    @classmethod
    def of_store(cls, store: TokenStore) -> TextUnits:
        """The units of a store, blank ones left out."""
        ends = np.flatnonzero(store.tokens == EOS) + 1
        rows = Ragged(store.tokens, np.concatenate([[0], ends]))
        return cls(rows.where(rows.lengths > 1))

    def no_longer_than(self, longest: int) -> TextUnits:
        """Those of at most so many tokens, `<eos>` not counted."""
        return TextUnits(self.rows.where(self.rows.lengths <= longest + 1))

    @property
    def lengths(self) -> Numbers:
        """How long each unit is with its `<eos>`."""
        return self.rows.lengths

    def targets(self, numbers: Numbers) -> int:
        return int(self.rows.lengths_of(numbers).sum())

    def batch(self, numbers: Numbers) -> UnitBatch:
        return UnitBatch(*padded(self.rows, numbers), numbers=numbers)
