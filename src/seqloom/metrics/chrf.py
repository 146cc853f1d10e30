"""chrF of single sentences: the F score of character n-grams (Popović 2015)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from seqloom.metrics.ngram_counts import TokenList, check_counts, clipped_matches, ngram_totals

ORDERS = 6  # the longest n-gram of characters, spaces left out
RECALL = 2  # β: how much more recall weighs than precision


def sentence_chrfs(texts: Sequence[str], references: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """F_β = (1 + β²) P R / (β² P + R) of each text, in [0, 1]; of several references the best.

    P and R are means over those orders n of which both texts have n-grams. Equal to sacreBLEU's `sentence_chrf` / 100.
    """
    check_counts(texts, references)
    owners = np.repeat(np.arange(len(texts)), [len(several) for several in references])
    ours: list[TokenList] = [_characters(texts[owner]) for owner in owners.tolist()]
    theirs: list[TokenList] = [_characters(reference) for several in references for reference in several]
    matches = clipped_matches(ours, [[reference] for reference in theirs], ORDERS)
    written, true = (ngram_totals(np.array([len(text) for text in texts]), ORDERS) for texts in (ours, theirs))
    counted = (written > 0) & (true > 0)
    orders = np.maximum(counted.sum(1), 1)
    precision, recall = (
        np.divide(matches, total, out=np.zeros(matches.shape), where=counted).sum(1) / orders
        for total in (written, true)
    )
    below = RECALL**2 * precision + recall
    scores = np.divide((1 + RECALL**2) * precision * recall, below, out=np.zeros(len(below)), where=below > 0)
    best = np.zeros(len(texts))
    np.maximum.at(best, owners, scores)
    return best


def _characters(text: str) -> TokenList:
    return list("".join(text.split()))
