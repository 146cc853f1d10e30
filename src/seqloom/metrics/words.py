"""Word vectors against people: judgements of likeness, and questions of analogy.

Conventions are those of gensim, so that the numbers are comparable: case does not matter (of words that differ in
nothing else the most frequent is meant), only the `vocabulary` most frequent words count, and a pair or question with a
word that has no vector is left out.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import DataError, shown
from seqloom.models.word_vectors import WordVectors
from seqloom.text.reading import read_lines

VOCABULARY = 300_000
QUESTIONS = 256  # answered at a time


@dataclass(frozen=True)
class Similarity:
    """How well cosines go with judgements."""

    spearman: float
    """Spearman's rank correlation ρ; nan when fewer than two pairs have vectors."""
    pairs: int
    """Pairs that were compared."""
    missing: int
    """Pairs left out for want of a vector."""


@dataclass(frozen=True)
class Analogies:
    """How many questions were answered rightly."""

    sections: dict[str, tuple[int, int]]
    """By section of the file: right answers, questions asked."""
    missing: int
    """Questions left out for want of a vector."""

    @property
    def right(self) -> int:
        return sum(right for right, _ in self.sections.values())

    @property
    def asked(self) -> int:
        return sum(asked for _, asked in self.sections.values())

    @property
    def accuracy(self) -> float:
        """The share of right answers; nan when none was asked."""
        return self.right / self.asked if self.asked else float("nan")


def word_similarity(vectors: WordVectors, path: str | Path, vocabulary: int = VOCABULARY) -> Similarity:
    """Spearman's ρ between cosines and the judgements in a file: two words and a number per line.

    Tabs stand between them, or else white space or commas. Lines that begin with # are comments, and lines whose third
    field is no number (a heading) are skipped.
    """
    places = _places(vectors, vocabulary)
    pairs, judgements, missing = [], [], 0
    for first, second, judgement in _read_pairs(Path(path)):
        if first in places and second in places:
            pairs.append((places[first], places[second]))
            judgements.append(judgement)
        else:
            missing += 1
    if len(pairs) < 2:
        return Similarity(float("nan"), len(pairs), missing)
    left, right = np.array(pairs).T
    cosines = np.einsum("ij,ij->i", vectors.unit[left], vectors.unit[right], dtype=np.float64)
    return Similarity(spearman(cosines, np.array(judgements)), len(pairs), missing)


def word_analogies(vectors: WordVectors, path: str | Path, vocabulary: int = VOCABULARY) -> Analogies:
    """Answer questions `a b c d`, a is to b as c is to d, in sections that begin with a line `: name`.

    The answer is the word nearest to b - a + c, the three of the question left out.
    """
    places = _places(vectors, vocabulary)
    few = WordVectors(vectors.words[:vocabulary], vectors.vectors[:vocabulary])
    folded = np.array([places[word.upper()] for word in few.words], np.int64)
    sections: dict[str, tuple[int, int]] = {}
    missing = 0
    for section, questions in _read_questions(Path(path)):
        known = [[places[word] for word in question] for question in questions if all(w in places for w in question)]
        missing += len(questions) - len(known)
        right = _right_answers(few, folded, np.array(known, np.int64).reshape(-1, 4))
        before = sections.get(section, (0, 0))
        sections[section] = (before[0] + right, before[1] + len(known))
    return Analogies(sections, missing)


def _right_answers(vectors: WordVectors, folded: NDArray[np.int64], questions: NDArray[np.int64]) -> int:
    """`folded`: for each word the place of its most frequent spelling. `questions`: rows of four places."""
    right = 0
    for start in range(0, len(questions), QUESTIONS):
        some = questions[start : start + QUESTIONS]
        cosines = vectors.analogies(some[:, :3]) @ vectors.unit.T
        for column in range(3):  # in every spelling
            cosines[folded[None] == some[:, column, None]] = -np.inf
        right += int(np.count_nonzero(folded[cosines.argmax(1)] == some[:, 3]))
    return right


def spearman(a: NDArray[np.float64], b: NDArray[np.float64]) -> float:
    """Pearson's correlation of ranks; equal values share the mean of their ranks. nan where one side is constant."""
    first, second = (ranks(values) - (len(values) + 1) / 2 for values in (a, b))
    scale = np.sqrt((first @ first) * (second @ second))
    return float(first @ second / scale) if scale else float("nan")


def ranks(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """1 for the smallest; equal values share the mean of the ranks they take up together."""
    _, kind, size = np.unique(values, return_inverse=True, return_counts=True)
    last = size.cumsum()
    return np.asarray(last - (size - 1) / 2, np.float64)[kind]


def _places(vectors: WordVectors, vocabulary: int) -> dict[str, int]:
    """The place of each word in capitals: that of its most frequent spelling."""
    return {word.upper(): place for place, word in reversed(list(enumerate(vectors.words[:vocabulary])))}


def _read_pairs(path: Path) -> Iterator[tuple[str, str, float]]:
    past_heading = False
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip() or line.startswith("#"):
            continue
        separator = "\t" if "\t" in line else "," if "," in line else None
        fields = [field.strip() for field in line.split(separator)]
        if len(fields) < 3:
            raise DataError(f"{path}, line {number}: two words and a number belong there, not {shown(line.strip())}")
        try:
            judgement = float(fields[2])
            if not math.isfinite(judgement):
                raise ValueError
        except ValueError:
            if not past_heading:
                continue
            raise DataError(f"{path}, line {number}: {shown(fields[2])} is not a number") from None
        past_heading = True
        yield fields[0].upper(), fields[1].upper(), judgement
    if not past_heading:
        raise DataError(f"{path} has no judgements: a line is two words and a number, with tabs between them")


def _read_questions(path: Path) -> Iterator[tuple[str, list[list[str]]]]:
    section, questions, asked = "", list[list[str]](), False
    for number, line in enumerate(read_lines(path), start=1):
        words = line.split()
        if line.startswith(":"):
            if questions:
                yield section, questions
            section, questions = line[1:].strip(), []
        elif words:
            if len(words) != 4:
                raise DataError(f"{path}, line {number}: four words make a question, not {shown(line.strip())}")
            questions.append([word.upper() for word in words])
            asked = True
    if questions:
        yield section, questions
    if not asked:
        raise DataError(f"{path} has no questions: a line is four words, a is to b as c is to d")
