"""How well labels are predicted: accuracy, and precision, recall and F1 of labels and of chunks."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import DataError

CHUNK_TAG = re.compile(r"O|[BIESLU]-.+")
OTHER_NAMES = {"L": "E", "U": "S"}  # BILOU says last and unit where IOBES says end and single


@dataclass(frozen=True)
class Hits:
    """What was found of one kind."""

    right: int
    """Found, and right."""
    found: int
    true: int
    """How many there are."""

    @property
    def precision(self) -> float:
        """right / found; 0 where nothing was found."""
        return self.right / self.found if self.found else 0.0

    @property
    def recall(self) -> float:
        """right / true; 0 where there is nothing to find."""
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """2 right / (found + true): the harmonic mean of precision and recall."""
        return 2 * self.right / (self.found + self.true) if self.found + self.true else 0.0

    def __add__(self, other: Hits) -> Hits:
        return Hits(self.right + other.right, self.found + other.found, self.true + other.true)


def accuracy(true: Sequence[str], found: Sequence[str]) -> float:
    """The share of labels that are right."""
    _check(true, found)
    return sum(map(str.__eq__, true, found)) / len(true)


def label_hits(true: Sequence[str], found: Sequence[str]) -> dict[str, Hits]:
    """What was found of each label, by the alphabet."""
    _check(true, found)
    right = Counter(label for label, other in zip(true, found, strict=True) if label == other)
    return _hits(right, Counter(found), Counter(true))


def macro_f1(hits: dict[str, Hits]) -> float:
    """The mean F1 of all labels, each counting the same."""
    return sum(each.f1 for each in hits.values()) / len(hits) if hits else 0.0


def has_chunks(tags: Iterable[str]) -> bool:
    """Whether tags mark chunks: all are O or begin with B-, I-, E-, S- (or L-, U-), and some are not O."""
    distinct = set(tags)
    return distinct > {"O"} and all(CHUNK_TAG.fullmatch(tag) for tag in distinct)


def chunks(tags: Sequence[str]) -> set[tuple[str, int, int]]:
    """(type, first word, one after the last) of the chunks that IOB1, IOB2 or IOBES tags mark, as conlleval reads them.

    A chunk begins at B- and S-, where the type changes, and at an I- or E- that nothing before it leads to; it goes on
    until the next begins, to its E- or S-, or to an O.
    """
    found = set()
    begun: tuple[str, int] | None = None
    before = "O"
    for place, tag in enumerate([*tags, "O"]):
        mark, _, kind = tag.partition("-")
        mark = OTHER_NAMES.get(mark, mark)
        ended = before in ("E", "S")
        if begun and (mark in ("O", "B", "S") or ended or kind != begun[0]):
            found.add((*begun, place))
            begun = None
        if mark != "O" and begun is None:
            begun = (kind, place)
        before = mark
    return found


def chunk_hits(true: Sequence[Sequence[str]], found: Sequence[Sequence[str]]) -> dict[str, Hits]:
    """What was found of the chunks of each type, by the alphabet: right are those of the same type, begin and end."""
    right: Counter[str] = Counter()
    guessed: Counter[str] = Counter()
    there: Counter[str] = Counter()
    for sentence, other in zip(true, found, strict=True):
        _check(sentence, other)
        ours, theirs = chunks(sentence), chunks(other)
        right.update(kind for kind, *_ in ours & theirs)
        there.update(kind for kind, *_ in ours)
        guessed.update(kind for kind, *_ in theirs)
    return _hits(right, guessed, there)


def confusion(true: Sequence[str], found: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """The labels, and how often a row's label was taken for a column's."""
    _check(true, found)
    labels = sorted({*true, *found})
    places = {label: place for place, label in enumerate(labels)}
    table = np.zeros((len(labels), len(labels)), np.int64)
    for label, other in zip(true, found, strict=True):
        table[places[label], places[other]] += 1
    return labels, table


def _hits(right: Counter[str], found: Counter[str], true: Counter[str]) -> dict[str, Hits]:
    return {kind: Hits(right[kind], found[kind], true[kind]) for kind in sorted({*found, *true})}


def _check(true: Sequence[str], found: Sequence[str]) -> None:
    if len(true) != len(found):
        raise DataError(f"{len(true):,} labels and {len(found):,} predictions do not belong together")
    if not true:
        raise DataError("there are no labels to compare")
