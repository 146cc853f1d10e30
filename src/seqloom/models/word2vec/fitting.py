"""Passes over a text, in threads that share the matrices without locks."""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import TrainingError
from seqloom.models.word2vec.model import Word2Vec
from seqloom.text.special import SPECIALS

BLOCK = 1 << 22  # tokens counted at a time

Tokens = NDArray[np.unsignedinteger]


@dataclass(frozen=True)
class LearnedBatch:
    """A batch of words that was read and learned from."""

    tokens: int
    loss: float
    """The negative log-likelihoods of its predictions, summed."""
    predictions: int


def count_tokens(tokens: Tokens, words: int) -> NDArray[np.int64]:
    """How often a text has each word, special symbols left out."""
    counts = np.zeros(words + len(SPECIALS), np.int64)
    for start in range(0, len(tokens), BLOCK):
        counts += np.bincount(tokens[start : start + BLOCK], minlength=len(counts))
    return counts[len(SPECIALS) :]


def learn_pass(
    model: Word2Vec, tokens: Tokens, batch: int, rates: tuple[float, float], seed: tuple[int, ...], threads: int
) -> Iterator[LearnedBatch]:
    """Read the text once, some tokens at a time, while the rate falls evenly from the first to the second.

    Batches are handed out in order and come back in order. Chance follows from the seed and a batch's place alone: with
    one thread the same seed gives the same vectors. A sentence ends where a batch does. Vectors that are no longer
    finite end it with a `TrainingError`.
    """
    total = len(tokens)

    def rate(place: int) -> float:
        return rates[0] + (rates[1] - rates[0]) * place / total

    def learn(start: int) -> LearnedBatch:
        some = np.asarray(tokens[start : start + batch]).astype(np.int32)
        own_seed = np.random.SeedSequence((*seed, start)).generate_state(1, np.uint64)[0]
        loss, predictions = model.learn(some, rate(start), rate(start + len(some)), own_seed)
        _refuse_divergence(model, math.isfinite(loss))
        return LearnedBatch(len(some), loss, predictions)

    starts = range(0, total, batch)
    if threads == 1:
        yield from map(learn, starts)
    else:
        pool = ThreadPoolExecutor(threads)
        try:
            yield from pool.map(learn, starts)
        finally:
            pool.shutdown(cancel_futures=True)
    _refuse_divergence(model, bool(np.isfinite(model.vectors).all() and np.isfinite(model.outputs).all()))


def _refuse_divergence(model: Word2Vec, finite: bool) -> None:
    if not finite:
        raise TrainingError(
            f"the word vectors are no longer finite. Lower model.learning_rate (now {model.config.first_rate:g})."
        )


def mean_loss(model: Word2Vec, tokens: Tokens, threads: int = 1) -> float:
    """The negative log-likelihood per prediction on a text, by the objective of training; nothing is learned.

    nan where there is nothing to predict.
    """
    batches = list(learn_pass(model, tokens, model.config.batch, (0.0, 0.0), (0,), threads))
    predictions = sum(batch.predictions for batch in batches)
    return sum(batch.loss for batch in batches) / predictions if predictions else math.nan
