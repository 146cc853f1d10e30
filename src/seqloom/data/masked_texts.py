"""Texts for masked language models: sequences, or pairs of segments, some of whose tokens are to be found."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.data.batch import Numbers, PaddedBatch
from seqloom.data.masking import Masking
from seqloom.data.ragged import Ragged, even_pieces, padded
from seqloom.data.store import TokenStore
from seqloom.data.stream import Place, Sequences
from seqloom.errors import DataError
from seqloom.text.special import BOS, EOS, PAD

NEIGHBOURS = 100  # segments of the nearest lengths, among which one from elsewhere is drawn
FEWEST = 3  # segments among which there is one that neither is the first nor follows it
FIXED = Place(0, 0, 0)  # for batches that are the same every time

Row = NDArray[np.int64]


@dataclass(frozen=True)
class MaskedBatch(PaddedBatch):
    """Sequences `<bos> A <eos>`, or pairs `<bos> A <eos> B <eos>`, padded with `<pad>`."""

    inputs: Tensor
    """[rows, time]: what is read."""
    targets: Tensor
    """[rows, time]: what is to be found; `<pad>` where nothing is."""
    lengths: Tensor | None
    """[rows]; None where nothing is padded."""
    segments: Tensor | None = None
    """[rows, time]: 1 in B, else 0; None where there are no pairs."""
    unrelated: Tensor | None = None
    """[rows]: 1 where B does not follow A in the text, else 0."""

    @property
    def unit(self) -> str:
        return "masked tokens"

    @cached_property
    def labels(self) -> Tensor:
        """[tokens]: what is to be found at each of `places`."""
        return self.targets.flatten()[self.places]

    @classmethod
    def of_rows(cls, rows: list[Row], masking: Masking, random: np.random.Generator, numbers: Numbers) -> MaskedBatch:
        """Rows of ids, of which tokens are chosen."""
        ids, lengths = padded_rows(rows)
        inputs, targets = masking.draw(ids, random)
        return cls(torch.from_numpy(inputs), torch.from_numpy(targets), lengths, numbers=numbers)


def padded_rows(rows: list[Row]) -> tuple[NDArray[np.int64], Tensor | None]:
    """[rows, longest] padded with `<pad>`, and the lengths, where they differ."""
    ids, lengths = padded(Ragged.of_rows(rows), np.arange(len(rows)))
    return ids.numpy(), None if (lengths == ids.size(1)).all() else lengths


def framed(*segments: Row) -> Row:
    """`<bos> A <eos>`, or with a second segment `<bos> A <eos> B <eos>`."""
    return np.concatenate([[BOS], *(part for segment in segments for part in (segment, [EOS]))])


@dataclass(frozen=True)
class MaskedTexts(Sequences):
    """Pieces of a text by number. Which of their tokens are to be found is drawn anew for each batch of a stream; the
    batches of `batch` are always the same."""

    ids: NDArray[np.integer]
    starts: Numbers
    """[pieces]: where each begins in `ids`."""
    sizes: Numbers
    """[pieces]: how many tokens it has."""
    masking: Masking

    @classmethod
    def of_store(cls, store: TokenStore, masking: Masking, longest: int) -> MaskedTexts:
        """The units of a store, those of more than `longest` tokens cut into even pieces; what has nothing but special
        symbols is left out."""
        starts, sizes = even_pieces(*store.unit_places(), longest)
        ends = np.stack([starts, starts + sizes], axis=1).ravel()  # of pieces, and of what lies between them
        some = np.logical_or.reduceat(masking.ordinary(store.tokens), ends)[::2]
        if not some.any():
            raise DataError("the text has no known tokens to learn from or to score")
        return cls(store.tokens, starts[some], sizes[some], masking)

    @property
    def lengths(self) -> Numbers:
        """How long each sequence is with `<bos>` and `<eos>`."""
        return self.sizes + 2

    def piece(self, number: int) -> Row:
        """The tokens of a piece."""
        return self.ids[self.starts[number] : self.starts[number] + self.sizes[number]].astype(np.int64)

    def batch(self, numbers: Numbers) -> MaskedBatch:
        return self.batch_at(FIXED, numbers)

    def batch_at(self, place: Place, numbers: Numbers) -> MaskedBatch:
        return self.drawn(numbers, place.random())

    def drawn(self, numbers: Numbers, random: np.random.Generator) -> MaskedBatch:
        """The batch of some pieces, in which tokens are chosen."""
        rows = [framed(self.piece(number)) for number in numbers]
        return MaskedBatch.of_rows(rows, self.masking, random, numbers)

    def targets(self, numbers: Numbers) -> int:
        return self.targets_at(FIXED, numbers)

    def targets_at(self, place: Place, numbers: Numbers) -> int:
        return self.batch_at(place, numbers).tokens


@dataclass(frozen=True)
class MaskedPairs(MaskedTexts):
    """Pairs of pieces: number i is piece i, and in one of two cases, drawn anew for each batch, the one that follows it
    in the text. Otherwise it is one from elsewhere, of about the length of the one that follows, so that the length
    says nothing."""

    def __post_init__(self) -> None:
        if len(self.sizes) < FEWEST:
            raise DataError(
                f"the text has {len(self.sizes)} pieces, too few for pairs of them: use more text, cut it into smaller "
                "units (data.unit=line, data.length), or set model.next_sentence=false"
            )

    @property
    def lengths(self) -> Numbers:
        """How long each pair is with `<bos>` and both `<eos>`, where the second segment follows the first."""
        return self.sizes[:-1] + self.sizes[1:] + 3

    @cached_property
    def by_length(self) -> Numbers:
        """The pieces, shortest first."""
        return np.argsort(self.sizes, kind="stable")

    @cached_property
    def ranks(self) -> Numbers:
        """Where each piece stands among `by_length`."""
        return np.argsort(self.by_length)

    def drawn(self, numbers: Numbers, random: np.random.Generator) -> MaskedBatch:
        unrelated = random.random(len(numbers)) < 0.5
        seconds = np.where(unrelated, self.elsewhere(numbers, random), numbers + 1)
        pairs = list(zip(numbers.tolist(), seconds.tolist(), strict=True))
        batch = MaskedBatch.of_rows(
            [framed(self.piece(first), self.piece(second)) for first, second in pairs], self.masking, random, numbers
        )
        time = np.arange(batch.inputs.size(1))
        begin = self.sizes[numbers][:, None] + 2  # of B, after <bos> A <eos>
        inside = (time >= begin) & (time < begin + self.sizes[seconds][:, None] + 1)
        return MaskedBatch(
            batch.inputs,
            batch.targets,
            batch.lengths,
            torch.from_numpy(inside.astype(np.int64)),
            torch.from_numpy(unrelated.astype(np.int64)),
            numbers=numbers,
        )

    def elsewhere(self, numbers: Numbers, random: np.random.Generator) -> Numbers:
        """For each of these pieces one of about the length of the next, which is neither the next nor itself."""
        near = min(NEIGHBOURS, len(self.sizes) - 2)
        first = np.clip(self.ranks[numbers + 1] - near // 2, 0, len(self.sizes) - near - 2)
        window = self.by_length[first[:, None] + np.arange(near + 2)]  # [rows, near + 2]
        allowed = (window != numbers[:, None]) & (window != numbers[:, None] + 1)
        lots = np.where(allowed, random.random(window.shape), -1.0)
        return np.take_along_axis(window, lots.argmax(1, keepdims=True), axis=1)[:, 0]


@dataclass(frozen=True)
class Blanks(Sequences):
    """Every token of some texts, one after the other: each is an example, its text with [MASK] in its place."""

    texts: Ragged
    mask: int
    """The id of [MASK]."""

    @cached_property
    def text_of(self) -> Numbers:
        """[tokens]: the text that each stands in."""
        return np.repeat(np.arange(len(self.texts)), self.texts.lengths)

    @cached_property
    def lengths(self) -> Numbers:
        """How long the text of each token is with `<bos>` and `<eos>`."""
        return self.texts.lengths[self.text_of] + 2

    def targets(self, numbers: Numbers) -> int:
        return len(numbers)

    def batch(self, numbers: Numbers) -> MaskedBatch:
        texts = self.text_of[numbers]
        ids, lengths = padded_rows([framed(self.texts[text].astype(np.int64)) for text in texts.tolist()])
        rows, blanks = np.arange(len(numbers)), numbers - self.texts.offsets[texts] + 1
        targets = np.full_like(ids, PAD)
        targets[rows, blanks] = ids[rows, blanks]
        ids[rows, blanks] = self.mask
        return MaskedBatch(torch.from_numpy(ids), torch.from_numpy(targets), lengths, numbers=numbers)


@dataclass(frozen=True)
class Gaps(Sequences):
    """Texts that have [MASK] in them already; what it stands for is not known."""

    texts: Ragged
    mask: int
    """The id of [MASK]."""

    @property
    def lengths(self) -> Numbers:
        """How long each text is with `<bos>` and `<eos>`."""
        return self.texts.lengths + 2

    def targets(self, numbers: Numbers) -> int:
        return self.batch(numbers).tokens

    def batch(self, numbers: Numbers) -> MaskedBatch:
        ids, lengths = padded_rows([framed(self.texts[number].astype(np.int64)) for number in numbers.tolist()])
        targets = np.where(ids == self.mask, self.mask, PAD)
        return MaskedBatch(torch.from_numpy(ids), torch.from_numpy(targets), lengths, numbers=numbers)
