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
    """How often one kind of label or chunk was predicted, and how often rightly."""

    right: int
    """Predicted where it is true."""
    predicted: int
    true: int
    """How many there are."""

    @property
    def precision(self) -> float:
        """right / predicted; 0 where none was predicted."""
        return self.right / self.predicted if self.predicted else 0.0

    @property
    def recall(self) -> float:
        """right / true; 0 where there is nothing to find."""
        return self.right / self.true if self.true else 0.0

    @property
    def f1(self) -> float:
        """2 right / (predicted + true): the harmonic mean of precision and recall."""
        return 2 * self.right / (self.predicted + self.true) if self.predicted + self.true else 0.0

    def __add__(self, other: Hits) -> Hits:
        return Hits(self.right + other.right, self.predicted + other.predicted, self.true + other.true)


def accuracy(true: Sequence[str], predicted: Sequence[str]) -> float:
    """The share of labels that are right."""
    _check(true, predicted)
    return sum(map(str.__eq__, true, predicted)) / len(true)


def label_hits(true: Sequence[str], predicted: Sequence[str]) -> dict[str, Hits]:
    """The hits of each label, by the alphabet."""
    _check(true, predicted)
    right = Counter(label for label, other in zip(true, predicted, strict=True) if label == other)
    return _hits(right, Counter(predicted), Counter(true))


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
    marked = set()
    begun: tuple[str, int] | None = None
    before = "O"
    for place, tag in enumerate([*tags, "O"]):
        mark, _, kind = tag.partition("-")
        mark = OTHER_NAMES.get(mark, mark)
        ended = before in ("E", "S")
        if begun and (mark in ("O", "B", "S") or ended or kind != begun[0]):
            marked.add((*begun, place))
            begun = None
        if mark != "O" and begun is None:
            begun = (kind, place)
        before = mark
    return marked


def chunk_hits(true: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]) -> dict[str, Hits]:
    """The hits of chunks of each type, by the alphabet: right are those of the same type, begin and end."""
    right: Counter[str] = Counter()
    all_predicted: Counter[str] = Counter()
    all_true: Counter[str] = Counter()
    for true_tags, predicted_tags in zip(true, predicted, strict=True):
        _check(true_tags, predicted_tags)
        true_chunks, predicted_chunks = chunks(true_tags), chunks(predicted_tags)
        right.update(kind for kind, *_ in true_chunks & predicted_chunks)
        all_true.update(kind for kind, *_ in true_chunks)
        all_predicted.update(kind for kind, *_ in predicted_chunks)
    return _hits(right, all_predicted, all_true)


def confusion(true: Sequence[str], predicted: Sequence[str]) -> tuple[list[str], NDArray[np.int64]]:
    """The labels, and how often a row's label was taken for a column's."""
    _check(true, predicted)
    labels = sorted({*true, *predicted})
    places = {label: place for place, label in enumerate(labels)}
    table = np.zeros((len(labels), len(labels)), np.int64)
    for label, other in zip(true, predicted, strict=True):
        table[places[label], places[other]] += 1
    return labels, table


def _hits(right: Counter[str], predicted: Counter[str], true: Counter[str]) -> dict[str, Hits]:
    return {kind: Hits(right[kind], predicted[kind], true[kind]) for kind in sorted({*predicted, *true})}


def _check(true: Sequence[str], predicted: Sequence[str]) -> None:
    if len(true) != len(predicted):
        raise DataError(f"{len(true):,} labels and {len(predicted):,} predictions do not belong together")
    if not true:
        raise DataError("there are no labels to compare")
