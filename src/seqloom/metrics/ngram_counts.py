"""Counting n-grams that two texts share, and those that one text repeats. A token is a word or an id."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from itertools import chain, count
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import ConfigError, DataError

Tokens: TypeAlias = Sequence[Hashable] | NDArray[Any]
"""One text, split into tokens: a list of words, or a list, an array or a tensor of ids."""
TokenList: TypeAlias = list[Hashable]

SMALL = 2000  # tokens up to which plain Python is done before compiled code is loaded


def ngrams(tokens: Sequence[Hashable], order: int) -> Iterator[tuple[Hashable, ...]]:
    """All n-grams of a text, from left to right."""
    return zip(*(tokens[offset:] for offset in range(order)), strict=False)


def ngram_totals(lengths: NDArray[np.int64], max_order: int) -> NDArray[np.int64]:
    """How many n-grams texts of these lengths have, (texts, orders): length - n + 1, or none."""
    return np.maximum(lengths[:, None] - np.arange(max_order), 0)


def clipped_matches(
    hypotheses: Sequence[TokenList], references: Sequence[Sequence[TokenList]], max_order: int
) -> NDArray[np.int64]:
    """How many n-grams of each hypothesis are found in its references, (hypotheses, orders 1 to `max_order`).

    An n-gram counts as often as it stands in the reference that has it most often, and no more:
    Σ_w min(c_w(hypothesis), max_k c_w(reference k)).
    """
    size = sum(map(len, hypotheses)) + sum(len(reference) for several in references for reference in several)
    if size > SMALL:
        return _compiled_matches(hypotheses, references, max_order)
    matches = np.zeros((len(hypotheses), max_order), np.int64)
    for row, (hypothesis, several) in enumerate(zip(hypotheses, references, strict=True)):
        for order in range(1, max_order + 1):
            allowed: Counter[tuple[Hashable, ...]] = Counter()
            for reference in several:
                allowed |= Counter(ngrams(reference, order))
            matches[row, order - 1] = (Counter(ngrams(hypothesis, order)) & allowed).total()
    return matches


def _compiled_matches(
    hypotheses: Sequence[TokenList], references: Sequence[Sequence[TokenList]], max_order: int
) -> NDArray[np.int64]:
    """The same, in compiled code: all texts in one array of numbers, every hypothesis before its references."""
    from seqloom.metrics.ngram_kernels import count_matches  # waits for numba

    texts = [text for pair in zip(hypotheses, references, strict=True) for text in (pair[0], *pair[1])]
    lengths = np.fromiter(map(len, texts), np.int64, len(texts))
    ends = np.append(0, lengths.cumsum())
    numbers: defaultdict[Hashable, int] = defaultdict(count().__next__)  # a token's number: the first free one
    tokens = np.fromiter(map(numbers.__getitem__, chain.from_iterable(texts)), np.int64, int(ends[-1]))
    groups = np.fromiter((1 + len(several) for several in references), np.int64, len(references))
    return count_matches(tokens, ends, np.append(0, groups.cumsum()), max_order)


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
            rates[row] = 1 - len(set(ngrams(tokens, order))) / total
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


def token_lists(
    hypotheses: Sequence[Tokens], references: Sequence[Sequence[Tokens]]
) -> tuple[list[TokenList], list[list[TokenList]]]:
    """Hypotheses, and for each of them its references, as lists of tokens."""
    if len(hypotheses) != len(references):
        raise DataError(
            f"{len(hypotheses):,} hypotheses but {len(references):,} lists of references: "
            "every hypothesis needs a list of its references"
        )
    if not len(hypotheses):
        raise DataError("there are no hypotheses to score")
    ours, theirs = [], []
    for row, (hypothesis, several) in enumerate(zip(hypotheses, references, strict=True)):
        if isinstance(several, str) or not len(several):
            raise DataError(f"references[{row}] is {several!r:.60}: it must be a list of one or more token lists")
        ours.append(token_list(hypothesis, f"hypothesis {row}"))
        theirs.append([token_list(text, f"references[{row}][{column}]") for column, text in enumerate(several)])
    return ours, theirs
