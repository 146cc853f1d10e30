"""The measure of how far the senses of a word are apart."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.senses import SENTENCES, WORD, separation

from seqloom.text.words import split_words


def test_each_sentence_has_the_word_once_and_a_sense() -> None:
    rows = [line.split("\t") for line in SENTENCES.read_text(encoding="utf-8").splitlines()]
    assert [split_words(text).count(WORD) for _, text in rows] == [1] * 40
    assert sorted(sense for sense, _ in rows) == ["animal"] * 20 + ["endure"] * 20


def test_vectors_that_are_all_the_same_tell_nothing_and_opposite_ones_everything() -> None:
    senses = ["a", "a", "b", "b"]
    same, apart = np.ones((4, 2)), np.array([[1, 0], [1, 0], [0, 1], [0, 1]])
    static, contextual = separation(senses, np.stack([same, apart]).astype(np.float32))
    assert (static.within, static.across, static.nearest) == pytest.approx((1, 1, 1 / 3))
    assert (contextual.within, contextual.across, contextual.nearest) == pytest.approx((1, 0, 1))
