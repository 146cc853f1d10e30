"""Words with their vectors, and the files of word2vec."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.errors import DataError, UserError
from seqloom.models.word_files import read_word2vec, write_word2vec
from seqloom.models.word_vectors import WordVectors

KeyedVectors: Any = pytest.importorskip("gensim.models", reason="comes with the extra `bench`").KeyedVectors

WORDS = ["king", "queen", "man", "woman", "été", "我", "nan", "1.5", "Paris"]

VECTORS = np.random.default_rng(0).normal(size=(len(WORDS), 7)).astype(np.float32)


@pytest.fixture
def vectors() -> WordVectors:
    return WordVectors(WORDS, VECTORS)


def gensims(vectors: WordVectors) -> Any:
    theirs = KeyedVectors(vectors.size)
    theirs.add_vectors(vectors.words, vectors.vectors)
    return theirs


def test_neighbours_similarity_and_analogy_are_gensims(vectors: WordVectors) -> None:
    theirs = gensims(vectors)
    for ours, other in (
        (vectors.neighbours("man", 4), theirs.most_similar("man", topn=4)),
        (vectors.neighbours(vectors["man"], 3), theirs.similar_by_vector(vectors["man"], topn=3)),
        (vectors.analogy("man", "king", "woman", 3), theirs.most_similar(["king", "woman"], ["man"], topn=3)),
    ):
        assert [word for word, _ in ours] == [word for word, _ in other]
        np.testing.assert_allclose([c for _, c in ours], [c for _, c in other], atol=1e-6)
    assert vectors.similarity("man", "été") == pytest.approx(float(theirs.similarity("man", "été")), abs=1e-6)


@given(st.lists(st.sampled_from(WORDS), unique=True, min_size=2, max_size=5), st.integers(0, 4))
def test_most_similar_and_what_does_not_match_are_gensims(words: list[str], added: int) -> None:
    vectors = WordVectors(WORDS, VECTORS)
    theirs = gensims(vectors)
    positive, negative = words[:added], words[added:]
    ours = vectors.most_similar(positive=positive, negative=negative, n=4)
    other = theirs.most_similar(positive=positive, negative=negative, topn=4)
    assert [word for word, _ in ours] == [word for word, _ in other]
    np.testing.assert_allclose([c for _, c in ours], [c for _, c in other], atol=1e-5)
    if len(words) > 2:  # of two, both are equally far
        assert vectors.doesnt_match(words) == theirs.doesnt_match(words)


def test_one_word_may_stand_alone_and_none_is_refused(vectors: WordVectors) -> None:
    assert vectors.most_similar("man", n=3) == vectors.neighbours("man", 3)
    assert vectors.most_similar(["king", "woman"], "man") == vectors.analogy("man", "king", "woman", 10)
    with pytest.raises(UserError, match="needs a word"):
        vectors.most_similar()
    with pytest.raises(UserError, match="needs a list of words"):
        vectors.doesnt_match("king")
    with pytest.raises(UserError, match="did you mean 'queen'"):
        vectors.doesnt_match(["king", "quean"])


def test_more_neighbours_than_words_are_all_words(vectors: WordVectors) -> None:
    assert {word for word, _ in vectors.neighbours("man", 100)} == set(WORDS) - {"man"}


def test_an_unknown_word_is_told_with_a_guess(vectors: WordVectors) -> None:
    with pytest.raises(UserError, match=r"no vector for 'quean'.*did you mean 'queen'"):
        vectors["quean"]
    with pytest.raises(UserError, match="did you mean 'king'"):
        vectors.neighbours("King")
    assert "King" not in vectors
    assert "king" in vectors


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("suffix", [".vec", ".vec.gz"])
def test_files_come_back_and_gensim_opens_them(vectors: WordVectors, tmp_path: Path, binary: bool, suffix: str) -> None:
    path = tmp_path / f"mine{suffix}"
    write_word2vec(vectors, path, binary)
    again = read_word2vec(path)
    assert again.words == WORDS
    np.testing.assert_array_equal(again.vectors, vectors.vectors)
    theirs = KeyedVectors.load_word2vec_format(str(path), binary=binary)
    assert theirs.index_to_key == WORDS
    np.testing.assert_array_equal(theirs.vectors, vectors.vectors)


@pytest.mark.parametrize("binary", [False, True])
@pytest.mark.parametrize("suffix", [".vec", ".vec.gz"])
def test_gensims_files_are_read(vectors: WordVectors, tmp_path: Path, binary: bool, suffix: str) -> None:
    path = tmp_path / f"theirs{suffix}"
    gensims(vectors).save_word2vec_format(str(path), binary=binary)
    found = read_word2vec(path)
    assert found.words == WORDS
    np.testing.assert_allclose(found.vectors, vectors.vectors, rtol=1e-6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "line 1.*two numbers"),
        (b"the 0.1 0.2\n", "line 1.*two numbers"),
        (b"0 5\n", "no vectors"),
        (b"2 2\na 1 2\n", "line 3: the file ends after 1 words"),
        (b"2 2\na 1 2\nb 1\n", "line 3: 1 numbers after a word"),
        (b"2 2\na 1 2\nb 1 x\n", "line 3: .*x"),
        (b"2 2\na 1 2\n\xff 1 2\n", "line 3.*not UTF-8"),
        (b"2 2\na \x00\x00\x80\x3f\x00\x00\x80\x3fb \x00\x00", "byte .*word 2 of 2"),
        (gzip.compress(b"1 2\na 1 2\n", mtime=0)[:-12], "cut off before its end"),
    ],
)
def test_a_malformed_file_is_told_with_its_place(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "bad.vec"
    path.write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        read_word2vec(path)
    assert str(path) in str(caught.value)


def test_a_word_with_white_space_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    path = tmp_path / "mine.vec"
    with pytest.raises(DataError, match="'New York'"):
        write_word2vec(WordVectors(["New York"], np.ones((1, 2), np.float32)), path)
    assert not list(tmp_path.iterdir())
