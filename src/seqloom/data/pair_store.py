"""Token ids of pairs on disk: written once in a stream, then memory-mapped, so that pairs may exceed memory."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.data.pair_encoders import Dtype, PairEncoder
from seqloom.data.pairs import Pair, PairCorpus
from seqloom.data.ragged import Ragged
from seqloom.data.store import cache_folder
from seqloom.errors import DataError
from seqloom.files import atomic_folder, write_json
from seqloom.text.chunks import in_chunks
from seqloom.text.special import UNK

CHUNK = 1 << 20  # characters encoded at a time
FORMAT = 1  # raise when the files change shape: old stores are then built anew


@dataclass(frozen=True)
class PairLimits:
    """Which pairs are too long, or too unequal to be translations of each other; None: no limit."""

    max_length: int | None = None
    """Tokens on either side, `<eos>` counted."""
    max_ratio: float | None = None
    """Tokens of the longer side by those of the shorter one, `<eos>` counted."""

    def too_long(self, longer: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Where the longer side has too many tokens."""
        return longer > (self.max_length if self.max_length is not None else np.inf)

    def unequal(self, longer: NDArray[np.int64], shorter: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Where one side is too many times as long as the other."""
        return longer > shorter * (self.max_ratio if self.max_ratio is not None else np.inf)


@dataclass(frozen=True)
class PairTotals:
    """What a store counts: what it holds, and what was dropped on the way."""

    pairs: int
    source_tokens: int
    """`<eos>` of each source included."""
    target_tokens: int
    """`<eos>` of each target included."""
    source_unknown: int
    """Tokens that the vocabulary does not know."""
    target_unknown: int
    """Tokens that became `<unk>`: with an open vocabulary, those that cannot be copied from their source either."""
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
class PairStore:
    """The pairs of a corpus as ids, source and first target, each ending in `<eos>`."""

    source: Ragged
    target: Ragged
    kept: NDArray[np.int64]
    """[pairs]: where each stands in the corpus, whose pairs may have been too long to be here."""
    totals: PairTotals

    @classmethod
    def open(cls, folder: Path) -> PairStore:
        """A store built before."""
        header = json.loads((folder / "store.json").read_text(encoding="utf-8"))
        totals = PairTotals(**header["totals"])

        def mapped(name: str, dtype: str, size: int) -> NDArray[Any]:
            return np.memmap(folder / f"{name}.bin", dtype, "r", shape=(size,)).view(np.ndarray)

        def side(name: str, tokens: int) -> Ragged:
            offsets = mapped(f"{name}-offsets", "int64", totals.pairs + 1)
            return Ragged(mapped(name, header["dtypes"][name], tokens), offsets)

        source, target = side("source", totals.source_tokens), side("target", totals.target_tokens)
        return cls(source, target, mapped("kept", "int64", totals.pairs), totals)

    @staticmethod
    def folder(corpus: PairCorpus, encoder: PairEncoder, limits: PairLimits) -> Path:
        """Where the store of a corpus is kept: another place for each content of what it is made from."""
        recipe = [FORMAT, corpus.fingerprint, encoder.recipe, asdict(limits)]
        return cache_folder() / "pairs" / hashlib.sha256(json.dumps(recipe).encode()).hexdigest()[:32]

    @classmethod
    def build(
        cls,
        pairs: Iterable[Pair],
        encoder: PairEncoder,
        folder: Path,
        limits: PairLimits | None = None,
    ) -> PairStore:
        """Encode `pairs` in a stream into `folder`; blank ones, and those over the limits, are dropped and counted."""
        limits = limits or PairLimits()
        read = blank = too_long = unequal = source_unknown = target_unknown = 0
        source_dtype, target_dtype = encoder.dtypes
        with atomic_folder(folder) as temporary:
            source = _Side(temporary, "source", source_dtype)
            target = _Side(temporary, "target", target_dtype)
            for chunk in in_chunks(pairs, _length, CHUNK):
                whole = [pair for pair in chunk if not pair.blank]
                sources, targets = encoder.encode(whole)
                longer = np.maximum(sources.lengths, targets.lengths)
                long = limits.too_long(longer)
                skewed = limits.unequal(longer, np.minimum(sources.lengths, targets.lengths)) & ~long
                keep = ~(long | skewed)
                sources, targets = sources.where(keep), targets.where(keep)
                source.append(sources)
                target.append(targets)
                known = encoder.source_tokenizer.size
                source_unknown += int(np.count_nonzero((sources.tokens == UNK) | (sources.tokens >= known)))
                target_unknown += int(np.count_nonzero(targets.tokens == UNK))
                _append(temporary / "kept.bin", read + np.flatnonzero(keep))
                read += len(whole)
                blank += len(chunk) - len(whole)
                too_long += int(long.sum())
                unequal += int(skewed.sum())
            totals = PairTotals(
                pairs=read - too_long - unequal,
                source_tokens=source.tokens,
                target_tokens=target.tokens,
                source_unknown=source_unknown,
                target_unknown=target_unknown,
                blank=blank,
                too_long=too_long,
                unequal=unequal,
            )
            if not totals.pairs:
                raise _NothingLeft(totals, limits)
            dtypes = {"source": source_dtype.name, "target": target_dtype.name}
            write_json(temporary / "store.json", {"format": FORMAT, "dtypes": dtypes, "totals": asdict(totals)})
        return cls.open(folder)

    @classmethod
    def of(cls, corpus: PairCorpus, encoder: PairEncoder, limits: PairLimits | None = None) -> PairStore:
        """The store of a corpus as an encoder reads it: from the cache when nothing changed, else built."""
        folder = cls.folder(corpus, encoder, limits or PairLimits())
        if (folder / "store.json").is_file():
            return cls.open(folder)
        try:
            return cls.build(corpus.records(), encoder, folder, limits)
        except _NothingLeft as error:
            raise error.located(corpus) from error

    def pairs(self, corpus: PairCorpus) -> Iterator[Pair]:
        """The texts of what the store holds, all references with them, read again from the corpus it was made from."""
        kept = map(int, self.kept)
        wanted = next(kept, None)
        for row, pair in enumerate(corpus):
            if row == wanted:
                yield pair
                wanted = next(kept, None)

    def __len__(self) -> int:
        return self.totals.pairs


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
