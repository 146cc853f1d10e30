"""Counting n-grams that two texts share, and those that one text repeats. A token is a word or an id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import chain, count
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import ConfigError, DataError

Tokens: TypeAlias = Sequence[Hashable] | NDArray[Any]
"""One text, split into tokens: a list of words, or a list, an array or a tensor of ids."""
TokenList: TypeAlias = list[Hashable]


def ngram_totals(lengths: NDArray[np.int64], max_order: int) -> NDArray[np.int64]:
    """How many n-grams texts of these lengths have, (texts, orders): length - n + 1, or none."""
    return np.maximum(lengths[:, None] - np.arange(max_order), 0)


def clipped_matches(
    hypotheses: Sequence[TokenList], references: Sequence[Sequence[TokenList]], max_order: int
) -> NDArray[np.int64]:
    """How many n-grams of each hypothesis are found in its references, (hypotheses, orders 1 to `max_order`).

    An n-gram counts as often as it stands in the reference that has it most often, and no more:
    Σ_w min(c_w(hypothesis), max_k c_w(reference k)).

    All texts stand one after the other, every hypothesis before its references, and the n-grams of a row (a hypothesis
    and its references) are numbered: those of order n by the number of their first n - 1 tokens and by their last one.
    """
    groups = np.array([1 + len(several) for several in references])
    texts = [text for row in zip(hypotheses, references, strict=True) for text in (row[0], *row[1])]
    lengths = np.array([len(text) for text in texts])
    numbers: defaultdict[Hashable, int] = defaultdict(count().__next__)  # a token's number: the first free one
    tokens = np.fromiter(map(numbers.__getitem__, chain.from_iterable(texts)), np.int64, lengths.sum())
    # Of each token: its row, its text within the row (0 is the hypothesis), and how many there are to the text's end.
    row = np.repeat(np.repeat(np.arange(len(groups)), groups), lengths)
    text = np.repeat(np.concatenate([np.arange(size) for size in groups]), lengths)
    left = np.repeat(lengths.cumsum(), lengths) - np.arange(len(tokens))

    matches = np.zeros((len(groups), max_order), np.int64)
    most = int(groups.max())  # texts in a row
    begins, ngram = np.arange(len(tokens)), row
    for order in range(1, max_order + 1):
        keys = ngram * len(numbers) + tokens[begins + order - 1]
        _, first, ngram = np.unique(keys, return_index=True, return_inverse=True)
        counts = np.bincount(ngram * most + text[begins], minlength=len(first) * most).reshape(len(first), most)
        clipped = np.minimum(counts[:, 0], counts[:, 1:].max(1))
        np.add.at(matches[:, order - 1], row[begins[first]], clipped)
        longer = (clipped[ngram] > 0) & (left[begins] > order)  # what does not match will not with one token more
        begins, ngram = begins[longer], ngram[longer]
    return matches


def repeated_ngrams(hypotheses: Sequence[Tokens], order: int = 3) -> NDArray[np.float64]:
    """The share of each hypothesis's n-grams that stood in it before: 1 - distinct n-grams / n-grams.

    0 says that nothing is repeated (or that the text is shorter than one n-gram).
    """
    if order < 1:
        raise ConfigError(f"order is {order}: an n-gram has at least one token")
    rates = np.zeros(len(hypotheses))
    for row, hypothesis in enumerate(hypotheses):
        tokens = token_list(hypothesis, f"hypothesis {row}")
        total = len(tokens) - order + 1
        if total > 0:
            distinct = set(zip(*(tokens[offset:] for offset in range(order)), strict=False))
            rates[row] = 1 - len(distinct) / total
    return rates


# ------------------------------------------------------------------------------------------------ what users give


def token_list(text: Tokens, name: str) -> TokenList:
    """One text as a list of tokens."""
    if isinstance(text, str):
        raise DataError(f"{name} is a string, {text[:40]!r}: split it into a list of tokens first")
    try:
        # The elements of arrays and tensors are slow to hash, or are all different.
        return list(text.tolist() if hasattr(text, "tolist") else text)
    except TypeError:
        raise DataError(f"{name} is {text!r}: it must be a list of tokens") from None


def check_counts(hypotheses: Sequence[object], references: Sequence[object]) -> None:
    """There must be hypotheses, and as many lists of references."""
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses):,} hypotheses but {len(references):,} lists of references: "
            "every hypothesis needs a list of its references"
        )
    if not len(hypotheses):
        raise DataError("there are no hypotheses to score")


def token_lists(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]
) -> tuple[list[TokenList], list[list[TokenList]]]:
    """Hypotheses, and for each of them its references, as lists of tokens."""
    check_counts(hypotheses, references)
    ours, theirs = [], []
    for row, (hypothesis, several) in enumerate(zip(hypotheses, references, strict=True)):
        if isinstance(several, str) or not len(several):
            raise DataError(f"references[{row}] is {several!r:.60}: it must be a list of one or more token lists")
        ours.append(token_list(hypothesis, f"hypothesis {row}"))
        theirs.append([token_list(text, f"references[{row}][{column}]") for column, text in enumerate(several)])
    return ours, theirs
