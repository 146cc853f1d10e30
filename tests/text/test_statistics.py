from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from nltk.util import ngrams

from seqloom.errors import DataError
from seqloom.text import statistics
from seqloom.text.statistics import CorpusStatistics
from seqloom.text.stopwords import is_content_word, is_stop_word
from seqloom.text.words import split_words
from seqloom.text.zipf import zipf_exponent

TEXTS = ["The cat sat on the mat.", "", "the cat, the Cat!", "我们的猫在看猫。"]


def reference(texts: list[str], order: int, split=split_words) -> Counter[tuple[str, ...]]:
    return Counter(gram for text in texts for gram in ngrams(split(text), order))


def ranked(counts: Counter[tuple[str, ...]], number: int) -> list[tuple[tuple[str, ...], int]]:
    return sorted(counts.items(), key=lambda pair: (-pair[1], pair[0]))[:number]


words = st.lists(st.lists(st.sampled_from("abcd")).map(" ".join), min_size=1).filter(lambda texts: any(texts))


@given(words, st.integers(1, 10), st.integers(1, 8))
def test_ngrams_agree_with_nltk_whatever_the_chunks(texts: list[str], chunk: int, number: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "CHUNK", chunk)
        counted = CorpusStatistics.of(texts, split=str.split)
    for order in (1, 2, 3):
        expected = reference(texts, order, str.split)
        assert counted.top_ngrams(order, number) == ranked(expected, number)
        assert counted.frequencies(order).tolist() == sorted(expected.values(), reverse=True)


def test_totals() -> None:
    counted = CorpusStatistics.of(TEXTS)
    assert counted.units == 4
    assert counted.characters == sum(map(len, TEXTS))
    assert counted.words == sum(len(split_words(text)) for text in TEXTS)
    assert counted.distinct_words == len({word for text in TEXTS for word in split_words(text)})


def test_top_words_with_and_without_stop_words() -> None:
    counted = CorpusStatistics.of(TEXTS, lowercase=True)
    assert counted.top_words(2) == [("the", 4), ("cat", 3)]
    assert counted.top_words(3, stop_words=False) == [("cat", 3), ("猫", 2), ("mat", 1)]
    assert counted.top_ngrams(2, 10, stop_words=False) == [(("cat", "sat"), 1), (("看", "猫"), 1)]


def test_many_words_in_many_chunks_agree_with_a_counter() -> None:
    generator = np.random.default_rng(0)
    texts = [" ".join(map(str, generator.zipf(1.3, size=50) % 5000)) for _ in range(400)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statistics, "CHUNK", 700)
        counted = CorpusStatistics.of(texts, split=str.split)
    for order in (1, 2, 3):
        assert counted.top_ngrams(order, 10**6) == ranked(reference(texts, order, str.split), 10**6)


def test_texts_are_read_once() -> None:
    given: list[str] = []

    def stream() -> Iterator[str]:
        for text in TEXTS:
            given.append(text)
            yield text

    CorpusStatistics.of(stream())
    assert given == TEXTS


@pytest.mark.parametrize(
    ("word", "stop"),
    [(word, True) for word in ("the", "The", "don’t", ",", "。", "的", "還", "<unk>")]
    + [(word, False) for word in ("cat", "猫", "3.14")],
)
def test_stop_words(word: str, stop: bool) -> None:
    assert is_stop_word(word) is stop


@pytest.mark.parametrize(
    ("word", "content"),
    [(word, True) for word in ("cat", "ox", "c3po", "酒", "山水", "l'été")]
    + [(word, False) for word in ("the", "b", "3", "1599", "3.14", "７", "。", "的", "與", "<unk>", "é")],
)
def test_content_words_are_chosen_by_what_they_are_not_by_their_length(word: str, content: bool) -> None:
    assert is_content_word(word) is content


def test_what_cannot_be_counted_is_told() -> None:
    with pytest.raises(DataError, match="no words"):
        CorpusStatistics.of(["", " "])
    with pytest.raises(DataError, match="only 1 to 3"):
        CorpusStatistics.of(TEXTS).top_ngrams(4)


def test_trigrams_of_more_words_than_fit_are_told() -> None:
    counter = statistics._NgramCounter(3)
    limit = 1 << 21
    largest = np.array([limit - 1, 0, limit - 1])
    counter.add(largest, np.zeros(3, dtype=np.int64), limit)
    assert counter.table().words().tolist() == [largest.tolist()]
    with pytest.raises(DataError, match="2,097,152"):
        counter.add(largest, np.zeros(3, dtype=np.int64), limit + 1)


@given(st.floats(0, 3), st.floats(-2, 10), st.integers(2, 5000))
def test_an_exact_power_law_is_found_again(exponent: float, intercept: float, size: int) -> None:
    counts = np.exp(intercept) / np.arange(1, size + 1) ** exponent
    fit = zipf_exponent(np.random.default_rng(0).permutation(counts))
    assert fit.exponent == pytest.approx(exponent, abs=1e-8)
    assert fit.intercept == pytest.approx(intercept, abs=1e-7)
    if exponent > 0.01:
        assert fit.r_squared == pytest.approx(1)
    assert fit.frequency(size) == pytest.approx(counts[-1])


def test_the_fit_is_least_squares_at_its_ranks() -> None:
    counts = np.random.default_rng(1).zipf(1.5, size=3000)
    fit = zipf_exponent(counts)
    ranks = np.array(fit.ranks)
    x, y = np.log(ranks), np.log(np.sort(counts)[::-1][ranks - 1])
    slope, intercept = np.polyfit(x, y, 1)
    assert fit.exponent == pytest.approx(-slope)
    assert fit.intercept == pytest.approx(intercept)
    assert fit.r_squared == pytest.approx(np.corrcoef(x, y)[0, 1] ** 2)


def test_ranks_are_spread_evenly_over_the_decades() -> None:
    ranks = np.array(zipf_exponent(1 / np.arange(1, 100_001)).ranks)
    assert ranks[0] == 1
    assert ranks[-1] == 100_000
    assert np.sum((ranks >= 1000) & (ranks < 10_000)) == pytest.approx(np.sum(ranks >= 10_000), abs=1)


def test_one_word_has_no_law() -> None:
    with pytest.raises(DataError, match="two distinct words"):
        zipf_exponent([5])


def test_the_law_of_a_text_is_that_of_its_counts() -> None:
    counted = CorpusStatistics.of(TEXTS)
    assert counted.zipf() == zipf_exponent(reference(TEXTS, 1).values())
    assert counted.zipf(2) == zipf_exponent(reference(TEXTS, 2).values())
