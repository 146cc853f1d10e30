"""log p of every token of a text, all tokens at once."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqloom.models.ngram.parallel import each
from seqloom.models.ngram.trie import ABSENT
from seqloom.text.special import BOS

if TYPE_CHECKING:
    from seqloom.models.ngram.model import NgramModel

COMPILED = 1 << 17
"""From this many tokens on, the compiled loop is worth its compilation; below, numpy is done before."""
TASK = 1 << 13  # tokens that a thread takes at a time


def score_tokens(model: NgramModel, inputs: NDArray[np.int32], targets: NDArray[np.int32]) -> NDArray[np.float32]:
    """log p(targets[i] | what was read up to inputs[i]); a unit begins wherever the input is `<bos>`.

    Order by order: the n-gram found at one token is the context of the next.
    """
    if len(targets) >= COMPILED:
        return score_compiled(model, inputs, targets)
    trie = model.trie
    scores = model.log_probs[targets]
    begins = inputs == BOS
    contexts = inputs.astype(np.int64)
    reaches = np.ones(len(inputs), bool)  # whether there are as many words to look back on
    for _ in range(1, trie.order):
        nodes = trie.find(contexts, targets)
        known = contexts >= 0
        weights = np.where(known, model.backoffs[np.where(known, contexts, 0)], np.float32(model.missing))
        given_up = scores + np.where(reaches, weights, np.float32(0))
        scores = np.where(nodes >= 0, model.log_probs[nodes], given_up)
        contexts = np.concatenate([[ABSENT], nodes[:-1]])
        reaches = np.concatenate([[False], reaches[:-1]]) & ~begins
        contexts[~reaches] = ABSENT
    return scores


def score_compiled(model: NgramModel, inputs: NDArray[np.int32], targets: NDArray[np.int32]) -> NDArray[np.float32]:
    """As `score_tokens`, in compiled code on all cores."""
    from seqloom.models.ngram.kernels import score

    words, first, order, missing = model.trie.words, model.trie.first, model.order, np.float32(model.missing)
    scores = np.empty(len(targets), np.float32)
    begins = np.flatnonzero(inputs == BOS)
    cuts = np.unique(begins[np.searchsorted(begins, np.arange(0, len(inputs), TASK), side="right") - 1])

    def work(part: tuple[int, int]) -> None:
        score(words, first, model.log_probs, model.backoffs, missing, order, inputs, targets, scores, *part)

    each(work, pairwise([*cuts.tolist(), len(inputs)]))
    return scores
