"""Counting n-grams that two texts share, and those that one text repeats. A token is a word or an id."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from itertools import chain, count
from typing import Any, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import ConfigError, DataError

Tokens: TypeAlias = Sequence[Hashable] | NDArray[Any]
"""One text, split into tokens: a list of words, or a list, an array or a tensor of ids."""
TokenList: TypeAlias = list[Hashable]


def ngram_totals(lengths: NDArray[np.int64], max_order: int) -> NDArray[np.int64]:
    """How many n-grams texts of these lengths have, (texts, orders): length - n + 1, or none."""
    return np.maximum(lengths[:, None] - np.arange(max_order), 0)


@dataclass(frozen=True)
class NumberedTexts:
    """Texts one after the other, with numbers from 0 on for tokens, equal ones for equal tokens."""

    tokens: NDArray[np.int64]
    """Of all texts."""
    lengths: NDArray[np.int64]
    """Of each text."""

    @classmethod
    def of(cls, texts: Sequence[Sequence[int]]) -> Self:
        """Of texts whose tokens have numbers."""
        lengths = np.fromiter(map(len, texts), np.int64, len(texts))
        return cls(np.fromiter(chain.from_iterable(texts), np.int64, int(lengths.sum())), lengths)


@dataclass(frozen=True)
class NumberedRows:
    """Rows of hypotheses with the references that they share."""

    hypotheses: NumberedTexts
    """Those of the first row, then those of the second, and so on."""
    references: NumberedTexts
    """Likewise."""
    several: NDArray[np.int64]
    """How many references each row has."""
    each: int = 1
    """How many hypotheses each row has."""

    @classmethod
    def of(cls, hypotheses: Sequence[TokenList], references: Sequence[Sequence[TokenList]]) -> Self:
        """A row for each hypothesis. Numbers are given as tokens come: the first free one."""
        number = defaultdict[Hashable, int](count().__next__).__getitem__
        ours = [list(map(number, text)) for text in hypotheses]
        theirs = [list(map(number, text)) for row in references for text in row]
        return cls(NumberedTexts.of(ours), NumberedTexts.of(theirs), np.array([len(row) for row in references]))

    def closest_lengths(self) -> NDArray[np.int64]:
        """Of each hypothesis: the length of the reference that is closest to it in length; of two, the shorter."""
        lengths, others = self.hypotheses.lengths.reshape(-1, self.each), self.references.lengths
        base = int(others.max()) + 1  # distance and length as one number, of which the smallest is looked for
        distances = np.abs(others[:, None] - np.repeat(lengths, self.several, axis=0)) * base + others[:, None]
        return (np.minimum.reduceat(distances, self.starts) % base).flatten()

    def shortest_lengths(self) -> NDArray[np.int64]:
        """Of each hypothesis: the length of its shortest reference."""
        return np.repeat(np.minimum.reduceat(self.references.lengths, self.starts), self.each)

    @property
    def starts(self) -> NDArray[np.int64]:
        """The first reference of each row."""
        return self.several.cumsum() - self.several


def clipped_matches(
    hypotheses: Sequence[TokenList], references: Sequence[Sequence[TokenList]], max_order: int
) -> NDArray[np.int64]:
    """`row_matches` of hypotheses, each with its references."""
    return row_matches(NumberedRows.of(hypotheses, references), max_order)


def row_matches(rows: NumberedRows, max_order: int) -> NDArray[np.int64]:
    """How many n-grams of each hypothesis are found in its references, (hypotheses, orders 1 to `max_order`).

    An n-gram counts as often as it stands in the reference that has it most often, and no more:
    Σ_w min(c_w(hypothesis), max_k c_w(reference k)).

    The n-grams of a row are numbered: those of order n by the number of their first n - 1 tokens and by their last one.
    """
    several, each, count = rows.several, rows.each, len(rows.several)
    tokens = np.concatenate([rows.hypotheses.tokens, rows.references.tokens])
    lengths = np.concatenate([rows.hypotheses.lengths, rows.references.lengths])
    # Of each token: its row, its text within the row (hypotheses first), and how many there are to the text's end.
    places = np.arange(len(rows.references.lengths)) - np.repeat(rows.starts, several)
    row = np.repeat(np.concatenate([np.repeat(np.arange(count), number) for number in (each, several)]), lengths)
    text = np.repeat(np.concatenate([np.tile(np.arange(each), count), places + each]), lengths)
    left = np.repeat(lengths.cumsum(), lengths) - np.arange(len(tokens))

    matches = np.zeros((count * each, max_order), np.int64)
    most = each + int(several.max())  # texts in a row
    vocabulary = int(tokens.max(initial=0)) + 1
    begins, ngram = np.arange(len(tokens)), row
    for order in range(1, max_order + 1):
        first, ngram = _numbered(ngram * vocabulary + tokens[begins + order - 1])
        counts = np.bincount(text[begins] * len(first) + ngram, minlength=most * len(first)).reshape(most, len(first))
        clipped = np.minimum(counts[:each], counts[each:].max(0))
        hypotheses = row[begins[first]] * each + np.arange(each)[:, None]
        matches[:, order - 1] = np.bincount(hypotheses.flatten(), clipped.flatten(), count * each)
        # What does not match will not with one token more.
        longer = clipped.any(0)[ngram] & (left[begins] > order)
        begins, ngram = begins[longer], ngram[longer]
    return matches


def _numbered(keys: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Equal keys get the same number, from 0 on: where one of each number stands, and the number of every key.

    As `np.unique` finds them, whose sort keeps the order of equal keys: that takes longer, and nobody asks for it here.
    """
    order = keys.argsort()
    ordered = keys[order]
    new = np.ones(len(keys), bool)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    numbers = np.empty_like(keys)
    numbers[order] = new.cumsum() - 1
    return order[new], numbers


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
