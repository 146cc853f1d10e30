"""BLEU: how many n-grams of a generated text stand in its references (Papineni et al. 2002)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, TypedDict, Unpack, get_args

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import ConfigError, did_you_mean
from seqloom.metrics.ngram_counts import NumberedRows, Tokens, ngram_totals, row_matches, token_lists

Floats: TypeAlias = NDArray[np.float64]
Smoothing = Literal["none", "floor", "add-k", "exp"]
ReferenceLength = Literal["closest", "shortest"]

MAX_ORDER = 4  # of n-grams, as in the paper
SMOOTHING_VALUES = {"floor": 0.1, "add-k": 1.0}  # Chen & Cherry 2014, as in sacreBLEU


@dataclass(frozen=True)
class Bleu:
    """A BLEU score in [0, 1] with its parts."""

    score: float
    precisions: tuple[float, ...]
    """p_1, p_2, …, after smoothing."""
    brevity_penalty: float
    matches: tuple[int, ...]
    """Clipped matches of each order; with `totals` they give the precisions before smoothing."""
    totals: tuple[int, ...]
    hypothesis_length: int
    reference_length: int


@dataclass(frozen=True)
class BleuCounts:
    """All that BLEU needs to know of every sentence. The counts of several sentences are the sums of theirs."""

    matches: NDArray[Any]
    """(sentences, orders)."""
    totals: NDArray[Any]
    """(sentences, orders)."""
    hypothesis_lengths: NDArray[Any]
    reference_lengths: NDArray[Any]

    def summed(self) -> BleuCounts:
        """The counts of all sentences together."""
        parts = (self.matches, self.totals, self.hypothesis_lengths, self.reference_lengths)
        return BleuCounts(*(part.sum(0) for part in parts))


class BleuOptions(TypedDict, total=False):
    """The fields of `BleuFormula`, as the functions below take them."""

    max_order: int | None
    weights: Sequence[float] | None
    smoothing: Smoothing
    smoothing_value: float | None
    effective_order: bool
    reference_length: ReferenceLength


OF_SENTENCES: BleuOptions = {"smoothing": "exp", "effective_order": True}
"""A sentence often has no 4-gram in common with another, so it is smoothed unless its caller says otherwise."""


@dataclass(frozen=True)
class BleuFormula:
    """From counts to BLEU = BP · exp(Σ_n w_n log p_n), with p_n = matches_n / totals_n, BP = min(1, exp(1 - r/c)).

    The weights w_1, ..., w_N sum to 1; when none are given, each is 1/N, with N = `max_order`, 4 when not given either.
    c is the length of the hypotheses, r that of the references: of several, the one closest in length to its hypothesis
    (of two equally close, the shorter) or the shortest. Counts are arrays whose last axis is the order; any axes before
    it (sentences, resamples) are kept.

    Where nothing matches at all the score is 0. Smoothing (Chen & Cherry 2014) mends orders of which *some* exist and
    none matches: `floor` puts `smoothing_value` in the place of the matches; `add-k` adds it to matches and totals of
    all orders above 1; `exp` takes 1/2, 1/4, … of a match for the first, second, … such order. With `effective_order`
    the mean is over those orders that a hypothesis is long enough to have; their weights then count as 1 together.
    """

    max_order: int | None = None
    weights: Sequence[float] | None = None
    smoothing: Smoothing = "none"
    smoothing_value: float | None = None
    effective_order: bool = False
    reference_length: ReferenceLength = "closest"

    def __post_init__(self) -> None:
        if self.max_order is not None and self.max_order < 1:
            raise ConfigError(f"max_order is {self.max_order}: the longest n-gram has at least one token")
        if self.weights is not None:
            _check_weights(self.weights, self.max_order)
        for name, chosen, known in (
            ("smoothing", self.smoothing, get_args(Smoothing)),
            ("reference length", self.reference_length, get_args(ReferenceLength)),
        ):
            if chosen not in known:
                raise ConfigError(f"unknown {name} {chosen!r}{did_you_mean(chosen, known)}")

    @property
    def order_weights(self) -> Floats:
        """w_1, ..., w_N."""
        if self.weights is not None:
            return np.array(self.weights, np.float64)
        orders = self.max_order or MAX_ORDER
        return np.full(orders, 1 / orders)

    def count(self, hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]) -> BleuCounts:
        """The counts of every sentence."""
        return self.count_rows(NumberedRows.of(*token_lists(hypotheses, references)))

    def count_rows(self, rows: NumberedRows) -> BleuCounts:
        """The counts of every hypothesis."""
        lengths, orders = rows.hypotheses.lengths, len(self.order_weights)
        chosen = rows.shortest_lengths() if self.reference_length == "shortest" else rows.closest_lengths()
        return BleuCounts(row_matches(rows, orders), ngram_totals(lengths, orders), lengths, chosen)

    def scores(self, counts: BleuCounts) -> Floats:
        """BLEU, of the shape of the lengths."""
        matches, totals = self._smoothed(counts)
        with np.errstate(divide="ignore"):  # log 0 = -∞ makes the score 0
            logs = np.log(_ratio(matches, totals))
        weights = np.broadcast_to(self.order_weights, logs.shape)
        if self.effective_order:
            weights = np.where(totals > 0, weights, 0.0)
        counted = weights.sum(-1)
        means = np.multiply(weights, logs, out=np.zeros(logs.shape), where=weights > 0).sum(-1)
        means = means / np.where(counted > 0, counted, 1.0)
        scored = counts.matches.any(-1) & (counted > 0)
        return np.where(scored, self.brevity_penalties(counts) * np.exp(means), 0.0)

    def precisions(self, counts: BleuCounts) -> Floats:
        """p_n of every order, smoothed; 0 where there is no n-gram."""
        return np.where(counts.matches.any(-1, keepdims=True), _ratio(*self._smoothed(counts)), 0.0)

    def brevity_penalties(self, counts: BleuCounts) -> Floats:
        """1 where the hypotheses are as long as their references, exp(1 - r/c) where they are shorter."""
        lengths, reference_lengths = counts.hypothesis_lengths, counts.reference_lengths
        shortfall = np.where(lengths > 0, reference_lengths / np.maximum(lengths, 1), np.inf) - 1
        return np.where(lengths < reference_lengths, np.exp(-shortfall), 1.0)

    def _smoothed(self, counts: BleuCounts) -> tuple[NDArray[Any], NDArray[Any]]:
        """Matches and totals."""
        matches, totals = counts.matches, counts.totals
        value = SMOOTHING_VALUES.get(self.smoothing, 0.0) if self.smoothing_value is None else self.smoothing_value
        unmatched = (matches == 0) & (totals > 0)
        if self.smoothing == "floor":
            matches = np.where(unmatched, value, matches)
        elif self.smoothing == "add-k":
            added = np.where(np.arange(matches.shape[-1]) > 0, value, 0.0)
            matches, totals = matches + added, totals + added
        elif self.smoothing == "exp":
            matches = np.where(unmatched, 0.5 ** unmatched.cumsum(-1), matches)
        return matches, totals


def _check_weights(weights: Sequence[float], max_order: int | None) -> None:
    shown = ", ".join(f"{weight:g}" for weight in weights)
    if max_order not in (None, len(weights)):
        raise ConfigError(f"max_order is {max_order} and there are {len(weights)} weights: leave max_order out")
    if not all(math.isfinite(weight) and weight >= 0 for weight in weights) or not math.isclose(sum(weights), 1):
        raise ConfigError(
            f"the weights of BLEU are {shown or 'none'}: give one for each order, none below 0, that sum to 1, "
            "for example 0.5, 0.3, 0.2"
        )


def _ratio(matches: NDArray[Any], totals: NDArray[Any]) -> Floats:
    return np.divide(matches, totals, out=np.zeros(matches.shape), where=totals > 0)


# ------------------------------------------------------------------------------------------------------ the score


def bleu(hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]], **options: Unpack[BleuOptions]) -> Bleu:
    """BLEU of a corpus of token lists; `references[i]` holds the references of `hypotheses[i]`.

    The counts are summed over all sentences before they are divided. See `BleuFormula`.
    """
    formula = BleuFormula(**options)
    counts = formula.count(hypotheses, references).summed()
    return Bleu(
        score=float(formula.scores(counts)),
        precisions=tuple(formula.precisions(counts).tolist()),
        brevity_penalty=float(formula.brevity_penalties(counts)),
        matches=tuple(counts.matches.tolist()),
        totals=tuple(counts.totals.tolist()),
        hypothesis_length=int(counts.hypothesis_lengths),
        reference_length=int(counts.reference_lengths),
    )


def sentence_bleu(hypothesis: Tokens, references: Sequence[Tokens], **options: Unpack[BleuOptions]) -> Bleu:
    """BLEU of one sentence, smoothed as `OF_SENTENCES` says."""
    return bleu([hypothesis], [references], **(OF_SENTENCES | options))


def sentence_bleus(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]], **options: Unpack[BleuOptions]
) -> Floats:
    """`sentence_bleu(...).score` of every sentence, fast enough for a reward while training."""
    formula = BleuFormula(**(OF_SENTENCES | options))
    return formula.scores(formula.count(hypotheses, references))
