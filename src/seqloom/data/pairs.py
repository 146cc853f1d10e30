"""A corpus of pairs, a text and what is to become of it: read in a stream from aligned files, TSV or JSONL.

Conversations are pairs too: of the turns so far, and the next one.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property, lru_cache
from itertools import zip_longest
from pathlib import Path
from typing import Any, Literal, NamedTuple

import numpy as np

from seqloom.data.corpora import BundledCorpus, bundled, resolve
from seqloom.data.corpus import Corpus
from seqloom.errors import DataError
from seqloom.text.lines import joined
from seqloom.text.reading import is_jsonl, read_lines, read_records

TURN = " | "  # stands between the turns of a conversation
CREDIT = "CC-BY "  # so begins the column of Tatoeba's tables that says whom to thank: it is no reference


class Pair(NamedTuple):
    """A source and its references, of which training uses the first."""

    source: str
    targets: tuple[str, ...]

    @property
    def blank(self) -> bool:
        """Whether a side has no text."""
        return not self.targets or not self.source.strip()


class LaterPair(Pair):
    """A pair that goes on with the conversation of the one before it."""


@dataclass(frozen=True)
class Part:
    """One side of a cut through the pairs; a pair's row is its number among those that are not blank.

    The held-out side has the rows from `cut` on, except those that are `returning`: their source was seen before it.
    """

    cut: int
    returning: frozenset[int]
    held_out: bool

    def __contains__(self, row: int) -> bool:
        return (row >= self.cut and row not in self.returning) == self.held_out


@dataclass(frozen=True)
class Conversations:
    """How a conversation becomes pairs: every turn but the first with the last `history` turns before it."""

    history: int
    field: str = "turns"
    """The key of a JSONL record that holds the list of turns."""

    def pairs(self, path: Path) -> Iterator[Pair]:
        """The pairs of the conversations in a file: records with a list of turns, or lines with tabs between them."""
        for turns in _turns_of_records(path, self.field) if is_jsonl(path) else _turns_of_lines(path):
            for number, turn in enumerate(turns[1:], start=1):
                pair = LaterPair if number > 1 else Pair
                yield pair(TURN.join(turns[:number][-self.history :]), (turn,))

    def recent(self, source: str) -> str:
        """What a model reads of a source that may have more turns than it has learned to look back."""
        return TURN.join(source.split(TURN)[-self.history :])


@dataclass(frozen=True)
class PairCorpus:
    """Files of pairs: each entry is one table (TSV or JSONL), or aligned files, the source first."""

    files: tuple[tuple[Path, ...], ...]
    source_field: str = "source"
    target_field: str = "target"
    """The keys of a JSONL record that hold source and target."""
    target_list: Literal["references", "lines"] = "references"
    """What a list in the field of the target is."""
    conversations: Conversations | None = None
    """How files of conversations are read, where these are such."""
    prefix: str = ""
    """What stands before each source."""
    part: Part | None = None

    @classmethod
    def open(
        cls,
        names: str | Sequence[str],
        source_field: str = "source",
        target_field: str = "target",
        target_list: Literal["references", "lines"] = "references",
    ) -> PairCorpus:
        """Pairs by the names of their files, gzipped or not, or by that of a bundled corpus.

        `F.src,F.tgt`: aligned files; more than two are the source and several references. `F.tsv`: source, tab,
        target, and perhaps more references after more tabs. `F.jsonl`: records with the two fields, the source a text
        or a list of lines, the target a text or a list of what `target_list` says; so is a bundled corpus of records,
        the poems of `tang-poems` and their titles. A list has several of these, or names of aligned files by twos.
        """
        return cls(_files(names), source_field, target_field, target_list)

    @classmethod
    def open_conversations(cls, names: str | Sequence[str], history: int, field: str = "turns") -> PairCorpus:
        """The turns of conversations, each with the last `history` ones before it as its source.

        `F.jsonl`: records with a list of turns; `F.tsv`: a conversation on each line, with tabs between its turns.
        """
        files = _files(names)
        for paths in files:
            if len(paths) > 1:
                listed = " and ".join(map(str, paths))
                raise DataError(
                    f"{listed} are aligned files, not conversations, which data.history asks for: give .jsonl records "
                    "with a list of turns or a .tsv file with turns between tabs, or set data.history=null"
                )
        return cls(files, conversations=Conversations(history, field))

    def __iter__(self) -> Iterator[Pair]:
        """The pairs that have text on both sides."""
        return (pair for pair in self.records() if not pair.blank)

    def records(self) -> Iterator[Pair]:
        """All pairs, blank ones too, for those who count what is dropped."""
        row = 0
        for pair in self._whole():
            if self.part is None or row in self.part:
                yield pair if pair.blank else pair._replace(source=self.prefix + pair.source)
            row += not pair.blank

    def _whole(self) -> Iterator[Pair]:
        for paths in self.files:
            if self.conversations is not None:
                yield from self.conversations.pairs(paths[0])
            elif len(paths) > 1:
                yield from _aligned(paths)
            elif is_jsonl(paths[0]):
                yield from self._records(paths[0])
            else:
                yield from _table(paths[0])

    def _records(self, path: Path) -> Iterator[Pair]:
        for record in read_records(path, self.source_field, self.target_field):
            if self.source_field not in record.values and isinstance(record.values.get("turns"), list):
                raise DataError(
                    f"{record.where}: a conversation, not a pair; set data.history to how many turns to look back"
                )
            source = record.joined(self.source_field, "data.source_field")
            targets = record.texts(self.target_field, "data.target_field")
            yield _pair(source, targets if self.target_list == "references" else [joined(targets)])

    def sources(self) -> Iterator[str]:
        """The sources, to train a tokeniser on."""
        return (pair.source for pair in self)

    def targets(self) -> Iterator[str]:
        """The first target of each pair, to train a tokeniser on."""
        return (pair.targets[0] for pair in self)

    def texts(self) -> Iterator[str]:
        """Sources and first targets, to train a tokeniser for both on."""
        return (text for pair in self for text in (pair.source, pair.targets[0]))

    @cached_property
    def fingerprint(self) -> str:
        """Changes when a file's content, or how it is read, changes."""
        kinds = [f"{len(paths)}{is_jsonl(paths[0])}" for paths in self.files]
        contents = [Corpus(paths, "file").fingerprint for paths in self.files]
        part = (self.part.cut, self.part.held_out) if self.part else None  # which rows return follows from the content
        recipe: list[Any] = [self.source_field, self.target_field, part, kinds, contents]
        if self.conversations is not None:
            recipe.append(asdict(self.conversations))
        if self.target_list != "references":
            recipe.append(self.target_list)
        if self.prefix:
            recipe.append({"prefix": self.prefix})
        return hashlib.sha256(json.dumps(recipe).encode()).hexdigest()

    def hold_out(self, fraction: float) -> tuple[PairCorpus, PairCorpus]:
        """Cut the last `fraction` of the pairs off: (training part, validation part).

        A source that occurs more than once is on the side where it occurs first, with all its targets, so that no
        validation source was seen in training. The cut lies between conversations, never inside one.
        """
        if self.part is not None:
            raise ValueError("hold out from the whole corpus, not from a part of it")
        part = _cut(self, self.fingerprint, fraction)
        return replace(self, part=part), replace(self, part=replace(part, held_out=True))

    def __str__(self) -> str:
        return ", ".join(str(path) for paths in self.files for path in paths)


def grouped(pairs: Iterable[Pair]) -> list[Pair]:
    """Pairs with the same source as one, in order of first appearance; references that repeat count once."""
    targets: dict[str, dict[str, None]] = {}
    for pair in pairs:
        targets.setdefault(pair.source, {}).update(dict.fromkeys(pair.targets))
    return [Pair(source, tuple(several)) for source, several in targets.items()]


@lru_cache
def _cut(corpus: PairCorpus, fingerprint: str, fraction: float) -> Part:  # noqa: ARG001 - part of the key
    """The training side of the cut that holds out `fraction` of the pairs, or what whole groups of a source make it."""
    rows = ((_number(pair.source), not isinstance(pair, LaterPair)) for pair in corpus)
    pairs = np.fromiter(rows, np.dtype([("source", np.uint64), ("begins", np.bool_)]))
    if not len(pairs):
        raise DataError(f"{corpus}: there are no pairs to learn from")
    _, first, source = np.unique(pairs["source"], return_index=True, return_inverse=True)
    first = first[source]  # [pairs]: the row where this pair's source is seen first
    later = first[first > 0]
    if not len(later):
        raise DataError(
            f"{corpus}: all {len(first):,} pairs have the same source, so none can be held out; name validation pairs "
            "with data.valid, or give more pairs"
        )
    held = min(len(first), max(1, round(fraction * len(first))))
    cut = int(max(np.partition(first, -held)[-held], later.min()))
    beginnings = np.flatnonzero(pairs["begins"])[1:]  # of a pair that stands alone, too
    before = beginnings[beginnings <= cut]
    cut = int(before[-1] if len(before) else beginnings[0] if len(beginnings) else len(pairs))
    if not (first[cut:] >= cut).any():
        raise DataError(
            f"{corpus}: too few conversations to hold some out; name validation conversations with data.valid, or give "
            "more of them"
        )
    return Part(cut, frozenset((cut + np.flatnonzero(first[cut:] < cut)).tolist()), held_out=False)


def _number(text: str) -> int:
    """64 bits that stand for a text: a million sources fit in eight megabytes."""
    return int.from_bytes(hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


# ---------------------------------------------------------------------------------------------------- names of files


def _files(names: str | Sequence[str]) -> tuple[tuple[Path, ...], ...]:
    files = tuple(_entries([names] if isinstance(names, str) else names))
    if not files:
        raise DataError("no files of pairs given: name F.src,F.tgt or one .tsv or .jsonl")
    return files


def _entries(names: Sequence[str]) -> Iterator[tuple[Path, ...]]:
    partner: Path | None = None
    for name in names:
        paths = _paths(name)
        if all(map(_is_table, paths)):
            yield from ((path,) for path in paths)
        elif len(paths) > 1 or len(names) == 1:  # a lone file of another name: a table, or its first line says not
            yield paths
        elif partner is None:
            partner = paths[0]
        else:
            yield partner, paths[0]
            partner = None
    if partner is not None:
        raise DataError(f"{partner} has no partner: name aligned files by twos, the source before the target")


def _paths(name: str) -> tuple[Path, ...]:
    pieces = [name] if Path(name).is_file() else [piece.strip() for piece in name.split(",")]
    if not all(pieces):
        raise DataError(f"{name!r} lacks the name of a file: write aligned files as F.src,F.tgt")
    paths = tuple(resolve(piece, "pairs") for piece in pieces)
    for corpus in bundled():
        named = any(corpus.path(part) in paths for part in corpus.files)
        if named and corpus.kind != "pairs" and not _has_fields(corpus):
            known = ", ".join(other.name for other in bundled() if other.kind == "pairs")
            records = ", ".join(other.name for other in bundled() if other.kind != "pairs" and _has_fields(other))
            raise DataError(
                f"the bundled corpus {corpus.name!r} holds {corpus.kind}, not pairs (of pairs: {known}; of records "
                f"with data.source_field and data.target_field to choose: {records})"
            )
    return paths


def _has_fields(corpus: BundledCorpus) -> bool:
    return all(is_jsonl(corpus.path(part)) for part in corpus.files)


def _is_table(path: Path) -> bool:
    return is_jsonl(path) or path.name.lower().endswith((".tsv", ".tsv.gz"))


# ----------------------------------------------------------------------------------------------------------- reading


def _pair(source: str, targets: Sequence[str]) -> Pair:
    return Pair(source, tuple(target for target in targets if target.strip()))


def _aligned(paths: tuple[Path, ...]) -> Iterator[Pair]:
    files = [read_lines(path) for path in paths]
    for number, lines in enumerate(zip_longest(*files)):
        if None in lines:
            lengths = [
                number + (line is not None) + sum(1 for _ in rest) for line, rest in zip(lines, files, strict=True)
            ]
            counts = " and ".join(f"{path} has {length:,} lines" for path, length in zip(paths, lengths, strict=True))
            raise DataError(f"the files are not aligned: {counts}; each line must be the counterpart of the other's")
        yield _pair(lines[0], lines[1:])


def _table(path: Path) -> Iterator[Pair]:
    for number, line in enumerate(read_lines(path), start=1):
        source, tab, rest = line.partition("\t")
        if not tab and line.strip():
            raise DataError(
                f"{path}, line {number}: no tab; a line of a .tsv file is source, tab, target "
                "(two aligned files are named together: F.src,F.tgt)"
            )
        yield _pair(source, [target for target in rest.split("\t") if not target.startswith(CREDIT)])


def _turns_of_records(path: Path, field: str) -> Iterator[list[str]]:
    for record in read_records(path, field):
        if not isinstance(record.value(field, "data.turns_field"), list):
            raise DataError(
                f"{record.where}: the value of {field!r} is no list; the turns of a conversation are a list"
            )
        yield _checked(record.texts(field, "data.turns_field"), record.where)


def _turns_of_lines(path: Path) -> Iterator[list[str]]:
    for number, line in enumerate(read_lines(path), start=1):
        if line.strip():
            yield _checked(line.split("\t"), f"{path}, line {number}")


def _checked(turns: list[str], where: str) -> list[str]:
    if len(turns) < 2:
        raise DataError(f"{where}: a conversation needs two turns at least, one to answer and the answer")
    if not all(map(str.strip, turns)):
        raise DataError(
            f"{where}: turn {[*map(bool, map(str.strip, turns))].index(False) + 1} of the conversation is blank"
        )
    return [" ".join(turn.split()) for turn in turns]
