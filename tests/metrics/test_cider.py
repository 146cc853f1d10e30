"""CIDEr-D against its formula, written out sentence by sentence over vectors of all n-grams."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest

from seqloom.errors import DataError
from seqloom.metrics.cider import Cider, TextCider

REFERENCES = [
    ["a dog runs on the grass", "the brown dog is running", "a dog on green grass"],
    ["two men play football", "men playing a game of football on the grass"],
    ["a woman rides a horse", "the woman on the brown horse", "a rider on a horse"],
]
TEXTS = ["a dog is running on the grass", "two men on a horse", "a a a a woman"]


def by_the_formula(text: str, references: list[str]) -> float:
    def grams(words: list[str], order: int) -> Counter[tuple[str, ...]]:
        return Counter(tuple(words[i : i + order]) for i in range(len(words) - order + 1))

    total = 0.0
    for order in range(1, 5):
        every = sorted({gram for several in REFERENCES for each in several for gram in grams(each.split(), order)})
        every += [gram for gram in grams(text.split(), order) if gram not in every]
        said = [
            sum(any(gram in grams(each.split(), order) for each in several) for several in REFERENCES) for gram in every
        ]
        rarity = np.array([math.log(len(REFERENCES)) - math.log(max(1, count)) for count in said])

        def vector(words: str) -> np.ndarray:
            return np.array([grams(words.split(), order)[gram] for gram in every]) * rarity  # noqa: B023

        ours = vector(text)
        for reference in references:
            theirs = vector(reference)
            norms = np.linalg.norm(ours) * np.linalg.norm(theirs)
            likeness = float((np.minimum(ours, theirs) * theirs).sum() / norms) if norms else 0.0
            distance = len(text.split()) - len(reference.split())
            total += likeness * math.exp(-(distance**2) / 72) / len(references)
    return 10 * total / 4


def test_scores_are_those_of_the_formula() -> None:
    cider = Cider([[each.split() for each in several] for several in REFERENCES])
    found = cider.token_scores([text.split() for text in TEXTS], [[each.split() for each in row] for row in REFERENCES])
    assert found.tolist() == pytest.approx(
        [by_the_formula(*row) for row in zip(TEXTS, REFERENCES, strict=True)], abs=1e-9
    )


def test_scores_are_those_of_pycocoevalcap() -> None:
    """Its version 1.2 gave these of the same words."""
    found = TextCider(REFERENCES).scores(TEXTS, REFERENCES)
    assert found.tolist() == pytest.approx([2.606537437673406, 1.3225874942106044, 1.1751823154970658], abs=1e-12)


def test_texts_are_split_without_punctuation_and_capitals() -> None:
    marked = [[each.capitalize() + " ." for each in several] for several in REFERENCES]
    found = TextCider(marked).scores([text.upper() + "!" for text in TEXTS], marked)
    assert found.tolist() == pytest.approx(
        [by_the_formula(*row) for row in zip(TEXTS, REFERENCES, strict=True)], abs=1e-9
    )


def test_a_reference_among_others_that_differ_has_the_best_score() -> None:
    cider = TextCider([["one two three four five"], ["six seven eight nine ten"]])
    assert cider.scores(["one two three four five"], [["one two three four five"]]).tolist() == pytest.approx([10.0])


def test_without_references_there_are_no_frequencies() -> None:
    with pytest.raises(DataError, match="no references"):
        Cider([])
