"""Minimal pairs: two sentences that differ in little, one of which speakers accept and the other not."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from seqloom.data.corpora import resolve
from seqloom.errors import DataError
from seqloom.text.reading import Record, is_jsonl, read_records

GOOD = ("good", "sentence_good")
BAD = ("bad", "sentence_bad")
PHENOMENON = ("phenomenon", "linguistics_term", "UID")
"""The keys of a record: ours, then those of BLiMP (Warstadt et al. 2020) as it is published. BLiMP's `UID` names one of
its 67 paradigms, and `linguistics_term` the phenomenon that the paradigm belongs to."""


class MinimalPair(NamedTuple):
    """A sentence that is good, one that is bad, and what they differ in."""

    good: str
    bad: str
    phenomenon: str


Pairs = str | Path | Sequence[str | Path] | Iterable[Mapping[str, Any] | MinimalPair]
"""Files, folders, or a bundled corpus by name; or the records themselves."""


def minimal_pairs(source: Pairs) -> list[MinimalPair]:
    """The pairs of .jsonl files, of all such files in folders, of a bundled corpus, or of records.

    A record that names no phenomenon has that of its file's name.
    """
    several = [source] if isinstance(source, str | Path) else list(source)
    pairs: list[MinimalPair] = []
    for number, each in enumerate(several, start=1):
        if isinstance(each, str | Path):
            pairs += [pair for file in _files(str(each)) for pair in _of_file(file)]
        elif isinstance(each, MinimalPair):
            pairs.append(each)
        elif isinstance(each, Mapping):
            pairs.append(_of_record(Record(f"record {number}", dict(each)), "all"))
        else:
            raise DataError(f"record {number} is {each!r:.60}: a minimal pair has the keys good and bad")
    if not pairs:
        raise DataError("there are no minimal pairs to judge: give records with the keys good and bad")
    return pairs


def _files(name: str) -> list[Path]:
    folder = Path(name)
    if not folder.is_dir():
        return [resolve(name)]
    files = sorted(file for file in folder.iterdir() if is_jsonl(file))
    if not files:
        raise DataError(f"{folder}: there is no .jsonl file in this folder; minimal pairs are records in such files")
    return files


def _of_file(path: Path) -> list[MinimalPair]:
    phenomenon = path.name.removesuffix(".gz").removesuffix(".jsonl")
    pairs = [_of_record(record, phenomenon) for record in read_records(path, "good", "bad")]
    if not pairs:
        raise DataError(f"{path}: there are no minimal pairs: each line is an object with the keys good and bad")
    return pairs


def _of_record(record: Record, otherwise: str) -> MinimalPair:
    good, bad = (record.text(_key(record, keys) or keys[0]) for keys in (GOOD, BAD))
    for key, sentence in (("good", good), ("bad", bad)):
        if not sentence.strip():
            raise DataError(f"{record.where}: the {key} sentence is blank")
    named = _key(record, PHENOMENON)
    return MinimalPair(good, bad, record.text(named) if named else otherwise)


def _key(record: Record, keys: Sequence[str]) -> str | None:
    """The first of the keys that a record has."""
    return next((key for key in keys if key in record.values), None)
