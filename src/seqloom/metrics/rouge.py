"""ROUGE: how much of a reference a generated text brings back (Lin 2004)."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeAlias, TypeVar, get_args

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import ConfigError, did_you_mean
from seqloom.metrics.ngram_counts import TokenList, Tokens, clipped_matches, ngram_totals, token_lists

Floats: TypeAlias = NDArray[np.float64]
Several = Literal["best", "pooled"]
Value = TypeVar("Value", float, Floats)


@dataclass(frozen=True)
class RougeScore(Generic[Value]):
    """Precision, recall and their harmonic mean, in [0, 1]: of a corpus, or arrays with those of every sentence."""

    precision: Value
    recall: Value
    f: Value


@dataclass(frozen=True)
class Rouge:
    """The three scores that are usually reported, each the mean over sentences."""

    rouge1: RougeScore[float]
    rouge2: RougeScore[float]
    rougeL: RougeScore[float]  # the metric's own name


def rouge(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]], several: Several = "best") -> Rouge:
    """ROUGE-1, -2 and -L of a corpus of token lists; `references[i]` holds the references of `hypotheses[i]`."""
    return Rouge(
        _mean(rouge_n(hypotheses, references, 1, several)),
        _mean(rouge_n(hypotheses, references, 2, several)),
        _mean(rouge_l(hypotheses, references, several)),
    )


def _mean(scores: RougeScore[Floats]) -> RougeScore[float]:
    return RougeScore(float(scores.precision.mean()), float(scores.recall.mean()), float(scores.f.mean()))


def rouge_n(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]], order: int = 2, several: Several = "best"
) -> RougeScore[Floats]:
    """ROUGE-N of every sentence, from the n-grams that hypothesis x and reference s have in common.

    matches = Σ_w min(c_w(x), c_w(s)), precision = matches / n-grams of x, recall = matches / n-grams of s.

    Of several references the one with the best F counts, for each measure by itself, as in rouge-score. `pooled` is
    Lin's formula: matches and n-grams are summed over the references and then divided.
    """
    if order < 1:
        raise ConfigError(f"order is {order}: an n-gram has at least one token")
    pairs = _Pairs(hypotheses, references)
    matches = clipped_matches(pairs.hypotheses, [[reference] for reference in pairs.references], order)[:, -1]
    return pairs.scores(matches, order, several)


def rouge_l(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]], several: Several = "best"
) -> RougeScore[Floats]:
    """ROUGE-L of every sentence: as ROUGE-1, but a match is a token of the longest common subsequence."""
    pairs = _Pairs(hypotheses, references)
    matches = np.array([common_subsequence(*pair) for pair in zip(pairs.hypotheses, pairs.references, strict=True)])
    return pairs.scores(matches, 1, several)


def rouge_words(text: str) -> list[str]:
    """The words of an English text as rouge-score takes them without stemming: runs of a-z and 0-9 in lower case."""
    return re.findall("[a-z0-9]+", text.lower())


def common_subsequence(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence.

    A row of the usual table grows by 0 or 1 from cell to cell, so that it fits into the bits of one number, and the
    next row is made from it by one addition (Crochemore et al. 2001): a zero says that the row grows here.
    """
    places: defaultdict[Hashable, int] = defaultdict(int)
    for position, token in enumerate(first):
        places[token] |= 1 << position
    everywhere = (1 << len(first)) - 1
    row = everywhere
    for token in second:
        here = row & places.get(token, 0)
        row = ((row + here) | (row - here)) & everywhere
    return len(first) - row.bit_count()


class _Pairs:
    """Every hypothesis with each of its references."""

    def __init__(self, hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> None:
        ours, theirs = token_lists(hypotheses, references)
        self.references: list[TokenList] = [reference for several in theirs for reference in several]
        counts = np.array([len(several) for several in theirs])
        self.starts = counts.cumsum() - counts
        """The first pair of each hypothesis."""
        self.sentences = np.repeat(np.arange(len(ours)), counts)
        """The hypothesis of each pair."""
        self.hypotheses: list[TokenList] = [ours[sentence] for sentence in self.sentences]

    def scores(self, matches: NDArray[np.int64], order: int, several: Several) -> RougeScore[Floats]:
        """From the matches of every pair to the scores of every hypothesis."""
        if several not in get_args(Several):
            raise ConfigError(
                f"unknown way to score several references {several!r}{did_you_mean(several, get_args(Several))}"
            )
        ours, theirs = (
            ngram_totals(np.array([len(text) for text in texts]), order)[:, -1]
            for texts in (self.hypotheses, self.references)
        )
        if several == "pooled":
            return _divided(*(np.add.reduceat(counted, self.starts) for counted in (matches, ours, theirs)))
        each = _divided(matches, ours, theirs)
        # From the best F of a sentence to its worst, the first of equal ones before the others.
        best = np.lexsort((-each.f, self.sentences))[self.starts]
        return RougeScore(each.precision[best], each.recall[best], each.f[best])


def _divided(matches: NDArray[np.int64], ours: NDArray[np.int64], theirs: NDArray[np.int64]) -> RougeScore[Floats]:
    """Precision = matches / ours, recall = matches / theirs, F = 2 · precision · recall / (precision + recall)."""
    precision, recall = matches / np.maximum(ours, 1), matches / np.maximum(theirs, 1)
    # Written as rouge-score has it: of references whose F is the same up to rounding, the same one counts.
    f = 2 * precision * recall / np.where(matches > 0, precision + recall, 1)
    return RougeScore(precision, recall, f)
