"""Evaluation of word vectors beside gensim's and SciPy's."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from seqloom.errors import DataError
from seqloom.metrics.words import ranks, spearman, word_analogies, word_similarity
from seqloom.models.word_vectors import WordVectors

KeyedVectors: Any = pytest.importorskip("gensim.models", reason="comes with the extra `bench`").KeyedVectors

WORDS = [f"word{number}" for number in range(40)] + ["Word3", "WORD5", "Other"]


@pytest.fixture
def vectors() -> WordVectors:
    return WordVectors(WORDS, np.random.default_rng(1).normal(size=(len(WORDS), 5)).astype(np.float32))


def gensims(vectors: WordVectors) -> Any:
    theirs = KeyedVectors(vectors.size)
    theirs.add_vectors(vectors.words, vectors.vectors)
    return theirs


numbers = st.lists(st.tuples(st.integers(0, 6), st.integers(0, 6)), min_size=2, max_size=30)


@given(numbers)
def test_ranks_and_correlation_are_scipys(pairs: list[tuple[int, int]]) -> None:
    a, b = np.array(pairs, np.float64).T
    np.testing.assert_allclose(ranks(a), stats.rankdata(a))
    if len(set(a)) > 1 and len(set(b)) > 1:
        assert spearman(a, b) == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-12)
    else:
        assert np.isnan(spearman(a, b))


@pytest.mark.parametrize("vocabulary", [300_000, 20])
def test_similarity_is_gensims(vectors: WordVectors, tmp_path: Path, vocabulary: int) -> None:
    random = np.random.default_rng(2)
    lines = ["# a comment\n"]
    for _ in range(60):
        a, b = random.integers(0, 50, 2)
        lines.append(f"WORD{a}\tword{b}\t{random.integers(0, 11)}\n")
    path = tmp_path / "pairs.tsv"
    path.write_text("".join(lines))
    found = word_similarity(vectors, path, vocabulary)
    _, theirs, missing = gensims(vectors).evaluate_word_pairs(str(path), restrict_vocab=vocabulary)
    assert found.spearman == pytest.approx(theirs.statistic, abs=1e-6)
    assert found.missing / (found.missing + found.pairs) * 100 == pytest.approx(missing)


@pytest.mark.parametrize("vocabulary", [300_000, 20])
def test_analogies_are_gensims(tmp_path: Path, vocabulary: int) -> None:
    """Vectors on a grid, shaken a little: some questions are answered, others not."""
    random = np.random.default_rng(3)
    grid = np.array([[row, column] for row in range(6) for column in range(6)], np.float32) - 2.4
    shaken = np.concatenate([grid + random.normal(0, 0.15, grid.shape), random.normal(0, 0.1, (36, 2))], axis=1)
    vectors = WordVectors([f"w{number}" for number in range(36)], shaken.astype(np.float32))
    lines = []
    for section in ("first", "second"):
        lines.append(f": {section}\n")
        for _ in range(80):
            row, column, down, right = random.integers(0, 6, 4)
            places = (row, column), (row, right), (down, column), (down, right)
            lines.append(" ".join(f"W{6 * a + b}" for a, b in places) + "\n")
        lines.append("w1 w2 w3 nobody\n")
    path = tmp_path / "questions.txt"
    path.write_text("".join(lines))
    found = word_analogies(vectors, path, vocabulary)
    accuracy, sections = gensims(vectors).evaluate_word_analogies(str(path), restrict_vocab=vocabulary)
    assert 0 < found.accuracy < 1
    assert found.accuracy == pytest.approx(accuracy)
    for section in sections[:-1]:
        right, asked = len(section["correct"]), len(section["correct"]) + len(section["incorrect"])
        assert found.sections[section["section"]] == (right, asked)


def test_headings_and_other_separators_are_read(vectors: WordVectors, tmp_path: Path) -> None:
    found = []
    for name, text in {
        "a.csv": "Word 1,Word 2,Human (mean)\nword1,word2,3\nword2,word3,1\nword4,word5,2\n",
        "b.txt": "word1 word2 3\nword2 word3 1\nword4 word5 2\n",
        "c.tsv": "# note\nword1\tword2\t3\nword2\tword3\t1\nword4\tword5\t2\n",
    }.items():
        (tmp_path / name).write_text(text)
        found.append(word_similarity(vectors, tmp_path / name))
    assert found[0] == found[1] == found[2]
    assert found[0].pairs == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a b\n", "line 1: two words and a number"),
        ("a b 1\nc d e\n", "line 2: 'e' is not"),
        ("a b 1\nc d nan\n", "line 2: 'nan' is not"),
    ],
)
def test_a_bad_pair_is_told_with_its_line(vectors: WordVectors, tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "pairs.txt").write_text(text)
    with pytest.raises(DataError, match=message):
        word_similarity(vectors, tmp_path / "pairs.txt")


def test_a_bad_question_is_told_with_its_line(vectors: WordVectors, tmp_path: Path) -> None:
    (tmp_path / "questions.txt").write_text(": one\na b c\n")
    with pytest.raises(DataError, match="line 2: four words"):
        word_analogies(vectors, tmp_path / "questions.txt")


def test_a_file_without_known_words_gives_no_number(vectors: WordVectors, tmp_path: Path) -> None:
    (tmp_path / "pairs.txt").write_text("x y 1\n")
    found = word_similarity(vectors, tmp_path / "pairs.txt")
    assert np.isnan(found.spearman)
    assert (found.pairs, found.missing) == (0, 1)
