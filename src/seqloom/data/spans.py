"""Span corruption: windows of a text with gaps, and what stood in the gaps (Raffel et al. 2020, section 3.1.4)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.data.batch import Numbers, shifted
from seqloom.data.pair_batches import PairBatch
from seqloom.data.samplers import OrderedSampler, RandomWindows
from seqloom.data.stream import Place, Sequences
from seqloom.text.special import EOS

SENTINELS = 100  # as T5 has them; more where windows have more gaps
SENTINEL = re.compile(r"<extra_id_\d+>")

Ids = NDArray[np.int64]


def sentinels(number: int = SENTINELS) -> list[str]:
    """The names of so many gaps."""
    return [f"<extra_id_{gap}>" for gap in range(number)]


@dataclass(frozen=True)
class Corruption:
    """How windows of `length` tokens lose some of them, in spans of `mean` tokens on average.

    Of L tokens, n = round(rate L) are taken out, in k = round(n / mean) spans; at least one token goes, and one stays.
    A window is k times some tokens that stay and some that go: both are cut into k parts, all cuts equally likely, as
    by `random_spans_noise_mask` of T5's own code. So a window begins with what stays and ends with a gap:

        source  x x <extra_id_0> x x x <extra_id_1> <eos>
        target  <extra_id_0> y y <extra_id_1> y y y <eos>

    As there, the target has no sentinel after the last span: `<eos>` closes it.
    """

    length: int
    rate: float = 0.15
    mean: float = 3.0

    @cached_property
    def taken(self) -> int:
        """Tokens that are taken out of each window."""
        return min(max(round(self.length * self.rate), 1), self.length - 1)

    @cached_property
    def gaps(self) -> int:
        """Spans that they make: no more than there are tokens to stand between them."""
        return min(max(round(self.taken / self.mean), 1), self.length - self.taken)

    @property
    def source_length(self) -> int:
        """Of every window, `<eos>` counted."""
        return self.length - self.taken + self.gaps + 1

    @property
    def target_length(self) -> int:
        """Of every window, `<eos>` counted."""
        return self.taken + self.gaps + 1

    def masks(self, rows: int, random: np.random.Generator) -> NDArray[np.bool_]:
        """What is taken out of so many windows: [rows, length]."""
        stays = partitions(self.length - self.taken, self.gaps, rows, random)
        goes = partitions(self.taken, self.gaps, rows, random)
        turns = np.stack([stays, goes], axis=2)  # [rows, gaps, 2]
        return np.repeat(np.tile([False, True], rows * self.gaps), turns.ravel()).reshape(rows, self.length)

    def apply(self, windows: Ids, masks: NDArray[np.bool_], names: Ids) -> tuple[Ids, Ids]:
        """Sources and targets of windows [rows, length], each ending in `<eos>`; `names`: the ids of the sentinels.

        All rows are equally long: so many tokens go from each, in so many spans.
        """
        before = np.pad(masks[:, :-1], ((0, 0), (1, 0)))
        source = _named(windows, masks & ~before, names)[~(masks & before)]
        begins = ~masks & before  # where what stays begins, but for the first
        begins[:, 0] = True
        target = _named(windows, begins, names)[masks | begins]
        return _ended(source.reshape(len(windows), -1)), _ended(target.reshape(len(windows), -1))


def partitions(items: int, parts: int, rows: int, random: np.random.Generator) -> Ids:
    """Whole numbers above 0 that add up to `items`, [rows, parts]; all of a row's possibilities are equally likely."""
    cuts = random.permuted(np.tile(np.arange(1, items) < parts, (rows, 1)), axis=1)  # parts - 1 of items - 1 places
    places = np.nonzero(cuts)[1].reshape(rows, parts - 1) + 1
    bounds: Ids = np.pad(places, ((0, 0), (1, 1)), constant_values=((0, 0), (0, items)))
    return bounds[:, 1:] - bounds[:, :-1]


def _named(windows: Ids, begins: NDArray[np.bool_], names: Ids) -> Ids:
    """The windows with a sentinel in place of the first token of each span: the next one from span to span."""
    return np.where(begins, names[np.cumsum(begins, axis=1) - 1], windows)


def _ended(rows: Ids) -> Ids:
    return np.pad(rows, ((0, 0), (0, 1)), constant_values=EOS)


@dataclass(frozen=True)
class SpanWindows(Sequences):
    """The windows of a running text by where they begin, each with gaps that are drawn anew whenever it is learned
    from. Where it is read without a place in a stream, as held-out text is, it has the same gaps every time."""

    tokens: NDArray[np.integer]
    """Of the whole text, without any special symbols."""
    corruption: Corruption
    sentinels: Ids
    """The ids of the names of the gaps, one for each at least."""
    prefix: Sequence[int] = ()
    """What stands before each source."""

    @property
    def lengths(self) -> NDArray[np.int64]:
        """How long the longer side of each window is that an epoch may have."""
        length = self.corruption.length
        return np.full(max(0, len(self.tokens) - length + 1) // length, self._longer)

    def buckets(self, batch_tokens: int, processes: int = 1) -> SpanSampler:
        """So many windows together as fit into `batch_tokens`; one at least, and no more than the text has."""
        rows = max(1, min(batch_tokens // self._longer, len(self)))
        return SpanSampler(len(self.tokens), rows, self.corruption.length)

    def targets(self, numbers: Numbers) -> int:
        return len(numbers) * self.corruption.target_length

    def batch(self, numbers: Numbers) -> PairBatch:
        return self._corrupted(numbers, np.random.default_rng(int(numbers[0])))

    def batch_at(self, place: Place, numbers: Numbers) -> PairBatch:
        return self._corrupted(numbers, place.random())

    @property
    def _longer(self) -> int:
        return max(len(self.prefix) + self.corruption.source_length, self.corruption.target_length)

    def _corrupted(self, numbers: Numbers, random: np.random.Generator) -> PairBatch:
        rows, corruption = len(numbers), self.corruption
        windows = self.tokens[numbers[:, None] + np.arange(corruption.length)].astype(np.int64)
        source, target = corruption.apply(windows, corruption.masks(rows, random), self.sentinels)
        source = np.concatenate([np.tile(np.array(self.prefix, np.int64), (rows, 1)), source], axis=1)
        targets = torch.from_numpy(target)
        lengths = (torch.full((rows,), side.shape[1]) for side in (source, target))
        return PairBatch(torch.from_numpy(source), shifted(targets), targets, *lengths, numbers=numbers)


class SpanSampler(RandomWindows, OrderedSampler):
    """Windows side by side, in any order in training; in the order of the text for evaluation."""

    def __init__(self, tokens: int, batch_size: int, length: int) -> None:
        super().__init__(tokens, batch_size, length)
        self.examples = self.batches_per_epoch * batch_size

    def in_order(self) -> list[Numbers]:
        """All whole windows from the beginning of the text on."""
        starts = np.arange(self.tokens // self.length) * self.length
        return [starts[first : first + self.batch_size] for first in range(0, len(starts), self.batch_size)]


def filled(source: str, target: str) -> str:
    """The text of a source with what a target says of each of its gaps in place of its sentinel."""
    said = dict(zip(SENTINEL.findall(target), map(str.strip, SENTINEL.split(target)[1:]), strict=True))
    return SENTINEL.sub(lambda gap: said.get(gap[0], gap[0]), source)
