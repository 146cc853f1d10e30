"""log p of every token of a text, and the n-gram that it comes from, all tokens at once."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from seqloom.models.ngram.parallel import each
from seqloom.models.ngram.trie import ABSENT, NO_HISTORY
from seqloom.text.special import BOS

if TYPE_CHECKING:
    from seqloom.models.ngram.model import NgramModel

COMPILED = 1 << 17
"""After this many tokens, the compiled loop is worth loading; before, numpy is done earlier."""
CALL = 1 << 9  # tokens that could be scored in the time that numpy takes to begin
TASK = 1 << 12  # tokens that a thread takes at a time


Scores = tuple[NDArray[np.float32], NDArray[np.uint8]]
"""Of every token: log p, and the order of the longest n-gram in the model that ends in it."""


def score_tokens(model: NgramModel, inputs: NDArray[np.int32], targets: NDArray[np.int32]) -> Scores:
    """log p(targets[i] | what was read up to inputs[i]), and the order of the n-gram that was found.

    A unit begins wherever the input is `<bos>`, or `NO_HISTORY`: then nothing is known of what came before. Order by
    order: the n-gram found at one token is the context of the next.
    """
    model.scored += CALL + len(targets)
    if model.scored >= COMPILED:
        return score_compiled(model, inputs, targets)
    trie = model.trie
    scores = model.log_probs[targets]
    orders = np.ones(len(targets), np.uint8)
    begins = _begins(inputs)
    contexts = inputs.astype(np.int64)
    reaches = inputs != NO_HISTORY  # whether there are as many words to look back on
    for order in range(2, trie.order + 1):
        nodes = trie.find(contexts, targets)
        known = contexts >= 0
        weights = np.where(known, model.backoffs[np.where(known, contexts, 0)], np.float32(model.missing))
        given_up = scores + np.where(reaches, weights, np.float32(0))
        scores = np.where(nodes >= 0, model.log_probs[nodes], given_up)
        orders[nodes >= 0] = order
        contexts = np.concatenate([[ABSENT], nodes[:-1]])
        reaches = np.concatenate([[False], reaches[:-1]]) & ~begins
        contexts[~reaches] = ABSENT
    return scores, orders


def score_compiled(model: NgramModel, inputs: NDArray[np.int32], targets: NDArray[np.int32]) -> Scores:
    """As `score_tokens`, in compiled code on all cores."""
    from seqloom.models.ngram.kernels import score

    words, first, order, missing = model.trie.words, model.trie.first, model.order, np.float32(model.missing)
    scores, orders = np.empty(len(targets), np.float32), np.empty(len(targets), np.uint8)

    def work(part: tuple[int, int]) -> None:
        score(words, first, model.log_probs, model.backoffs, missing, order, inputs, targets, scores, orders, *part)

    if len(inputs) <= TASK:
        work((0, len(inputs)))
        return scores, orders
    begins = np.flatnonzero(_begins(inputs))
    cuts = np.unique(begins[np.searchsorted(begins, np.arange(0, len(inputs), TASK), side="right") - 1])
    each(work, pairwise([*cuts.tolist(), len(inputs)]))
    return scores, orders


def _begins(inputs: NDArray[np.int32]) -> NDArray[np.bool_]:
    """Where units begin."""
    return (inputs == BOS) | (inputs == NO_HISTORY)
