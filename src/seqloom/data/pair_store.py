"""Token ids of pairs on disk: written once in a stream, then memory-mapped, so that pairs may exceed memory."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from itertools import compress
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.batch import Numbers
from seqloom.data.cache import About, Entry, cached
from seqloom.data.pair_batches import EncodedPairs
from seqloom.data.pair_encoders import Dtype, PairEncoder
from seqloom.data.pairs import Pair, PairCorpus
from seqloom.data.ragged import Ragged
from seqloom.errors import DataError
from seqloom.text.chunks import in_chunks

CHUNK = 1 << 20  # characters encoded at a time
BETWEEN = b"\xff"  # two references: a byte that no text has in UTF-8


@dataclass(frozen=True)
class PairLimits:
    """Which pairs are too long, or too unequal to be translations of each other; None: no limit."""

    max_length: int | None = None
    """Tokens on either side, `<eos>` counted."""
    max_ratio: float | None = None
    """Tokens of the longer side by those of the shorter one, `<eos>` counted."""


@dataclass(frozen=True)
class PairTotals:
    """What a store counts: what it holds, and what was dropped on the way."""

    pairs: int
    target_tokens: int
    """`<eos>` of each target included."""
    blank: int
    """Dropped: a side without text."""
    too_long: int
    """Dropped: over `max_length`."""
    unequal: int
    """Dropped: within `max_length`, but over `max_ratio`."""

    @property
    def dropped(self) -> int:
        """Pairs that were read and are not in the store."""
        return self.blank + self.too_long + self.unequal

    def __str__(self) -> str:
        said = f"{self.pairs:,} pairs"
        if self.dropped:
            said += f"; dropped {self.blank:,} blank, {self.too_long:,} too long, {self.unequal:,} of unequal lengths"
        return said


@dataclass(frozen=True)
class PairStore(EncodedPairs):
    """The pairs of a corpus as ids, source and first target, and the texts of their sources and all references."""

    source_bytes: Ragged
    """Of each pair: UTF-8."""
    reference_bytes: Ragged
    """Of each pair: UTF-8, with `BETWEEN` between two references."""
    totals: PairTotals

    @classmethod
    def open(cls, entry: Entry) -> PairStore:
        """A store built before."""
        totals = PairTotals(**entry.about["totals"])

        def mapped(file: str, dtype: str, size: int) -> NDArray[Any]:
            return np.memmap(entry.folder / f"{file}.bin", dtype, "r", shape=(size,)).view(np.ndarray)

        def side(name: str) -> Ragged:
            offsets = mapped(f"{name}-offsets", "int64", totals.pairs + 1)
            return Ragged(mapped(name, entry.about["dtypes"][name], int(offsets[-1])), offsets)

        return cls(side("source"), side("target"), side("source-texts"), side("references"), totals)

    @classmethod
    def build(
        cls, pairs: Iterable[Pair], encoder: PairEncoder, folder: Path, limits: PairLimits | None = None
    ) -> PairStore:
        """Encode `pairs` in a stream into `folder`; blank ones, and those over the limits, are dropped and counted."""
        return cls.open(Entry.write(folder, lambda temporary: _encode(pairs, encoder, temporary, limits)))

    @classmethod
    def of(cls, corpus: PairCorpus, encoder: PairEncoder, limits: PairLimits | None = None) -> PairStore:
        """The store of a corpus as an encoder reads it: from the cache when nothing changed, else built."""
        recipe = json.dumps([corpus.fingerprint, encoder.recipe, asdict(limits or PairLimits())])
        try:
            return cls.open(cached("pairs", recipe, lambda folder: _encode(corpus.records(), encoder, folder, limits)))
        except _NothingLeft as error:
            raise error.located(corpus) from error

    def sources(self, numbers: Numbers) -> list[str]:
        """The texts of the sources of these pairs."""
        return [self.source_bytes[number].tobytes().decode() for number in numbers.tolist()]

    def references(self, numbers: Numbers) -> list[tuple[str, ...]]:
        """The texts of all references of each of these pairs; the first is the target that training uses."""
        written = (self.reference_bytes[number].tobytes() for number in numbers.tolist())
        return [tuple(text.decode() for text in texts.split(BETWEEN)) for texts in written]


def _encode(pairs: Iterable[Pair], encoder: PairEncoder, folder: Path, limits: PairLimits | None) -> About:
    limits = limits or PairLimits()
    kept, dropped = 0, Counter(blank=0, too_long=0, unequal=0)
    source_dtype, target_dtype = encoder.dtypes
    source = _Side(folder, "source", source_dtype)
    target = _Side(folder, "target", target_dtype)
    source_texts = _Side(folder, "source-texts", np.dtype(np.uint8))
    references = _Side(folder, "references", np.dtype(np.uint8))
    for chunk in in_chunks(pairs, _length, CHUNK):
        whole = [pair for pair in chunk if not pair.blank]
        encoded = encoder.encode(whole)
        sources, targets = encoded.source, encoded.target
        longer = np.maximum(sources.lengths, targets.lengths)
        shorter = np.minimum(sources.lengths, targets.lengths)
        long = longer > (limits.max_length or np.inf)
        skewed = (longer > shorter * (limits.max_ratio or np.inf)) & ~long
        keep = ~(long | skewed)
        source.append(sources.where(keep))
        target.append(targets.where(keep))
        source_texts.append(_bytes(pair.source for pair in compress(whole, keep)))
        references.append(_bytes(map(_joined, compress(whole, keep))))
        kept += int(keep.sum())
        dropped.update(blank=len(chunk) - len(whole), too_long=int(long.sum()), unequal=int(skewed.sum()))
    totals = PairTotals(kept, target.tokens, **dropped)
    if not totals.pairs:
        raise _NothingLeft(totals, limits)
    texts = dict.fromkeys(("source-texts", "references"), "uint8")
    dtypes = {"source": source_dtype.name, "target": target_dtype.name, **texts}
    return {"dtypes": dtypes, "totals": asdict(totals)}


class _Side:
    """Writes one side of the pairs, some at a time."""

    def __init__(self, folder: Path, name: str, dtype: Dtype) -> None:
        self.dtype, self.tokens = dtype, 0
        self._ids_file, self._offsets_file = folder / f"{name}.bin", folder / f"{name}-offsets.bin"
        _append(self._offsets_file, np.zeros(1, np.int64))

    def append(self, some: Ragged) -> None:
        _append(self._ids_file, some.tokens.astype(self.dtype))
        _append(self._offsets_file, self.tokens + some.offsets[1:])
        self.tokens += len(some.tokens)


def _joined(pair: Pair) -> bytes:
    """All references of a pair."""
    return BETWEEN.join(target.encode() for target in pair.targets)


def _bytes(texts: Iterable[str | bytes]) -> Ragged:
    """The bytes of texts."""
    encoded = [text.encode() if isinstance(text, str) else text for text in texts]
    return Ragged.of_lengths(
        np.frombuffer(b"".join(encoded), np.uint8), np.array([len(text) for text in encoded], np.int64)
    )


def _append(path: Path, array: NDArray[Any]) -> None:
    with open(path, "ab") as file:
        array.tofile(file)


class _NothingLeft(DataError):
    def __init__(self, totals: PairTotals, limits: PairLimits) -> None:
        if totals.dropped:
            reasons = f"{totals.blank:,} are blank, {totals.too_long:,} are longer than data.max_length "
            reasons += f"({limits.max_length}), the lengths of {totals.unequal:,} differ more than data.max_ratio "
            reasons += f"({limits.max_ratio}) allows"
            super().__init__(f"none of the {totals.dropped:,} pairs can be used: {reasons}")
        else:
            super().__init__("the corpus is empty: there are no pairs to learn from or to score")


def _length(pair: Pair) -> int:
    return len(pair.source) + sum(map(len, pair.targets))
