"""ROUGE against outputs of rouge-score 0.1.2, brute force, and examples worked by hand."""

from __future__ import annotations

from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.errors import ConfigError, DataError
from seqloom.metrics.rouge import common_subsequence, rouge, rouge_l, rouge_n, rouge_words

# What RougeScorer(["rouge1", "rouge2", "rougeL"]).score_multi(references, hypothesis) of rouge-score gives:
# precision, recall and F of ROUGE-1, ROUGE-2 and ROUGE-L.
PUBLISHED = [
    (
        "The quick brown dog jumps on the log.",
        ["The quick brown fox jumps over the lazy dog"],
        (0.75, 0.6666666666666666, 0.7058823529411765),
        (0.2857142857142857, 0.25, 0.26666666666666666),
        (0.625, 0.5555555555555556, 0.5882352941176471),
    ),
    (
        "The Time Traveller smiled at us, and went slowly out of the room.",
        [
            "The Time Traveller smiled round at us. Then, still smiling faintly, and with his hands deep in his "
            "trousers pockets, he walked slowly out of the room.",
            "Smiling, the Traveller left the room slowly.",
        ],
        (0.9230769230769231, 0.4444444444444444, 0.6),
        (0.6666666666666666, 0.3076923076923077, 0.42105263157894735),
        (0.9230769230769231, 0.4444444444444444, 0.6),
    ),
    (
        "We stared at each other. We stared at each other.",
        ["We stared at each other.", "They stared, and stared again, at each other; we did not."],
        (0.5, 1.0, 0.6666666666666666),
        (0.4444444444444444, 1.0, 0.6153846153846153),
        (0.5, 1.0, 0.6666666666666666),
    ),
    (
        "Now is the winter of our discontent",
        [
            "Now is the winter of our discontent made glorious summer by this sun of York",
            "Summer is here",
            "the winter of our discontent is now",
        ],
        (1.0, 1.0, 1.0),
        (0.6666666666666666, 0.6666666666666666, 0.6666666666666666),
        (0.7142857142857143, 0.7142857142857143, 0.7142857142857143),
    ),
    ("Nothing in common", ["Quite another thing"], (0, 0, 0), (0, 0, 0), (0, 0, 0)),
    ("", ["An empty hypothesis"], (0, 0, 0), (0, 0, 0), (0, 0, 0)),
    ("Word", ["Word", "Word for word"], (1, 1, 1), (0, 0, 0), (1, 1, 1)),
    (
        "It's 10 o'clock (twenty-two hundred hours)!",
        ["it s 10 o clock", "At 22:00 it is ten o'clock."],
        (0.5555555555555556, 1.0, 0.7142857142857143),
        (0.5, 1.0, 0.6666666666666666),
        (0.5555555555555556, 1.0, 0.7142857142857143),
    ),
]
HYPOTHESES = [rouge_words(case[0]) for case in PUBLISHED]
REFERENCES = [[rouge_words(text) for text in case[1]] for case in PUBLISHED]


def test_every_sentence_scores_as_in_rouge_score():
    all_found = (
        rouge_n(HYPOTHESES, REFERENCES, 1),
        rouge_n(HYPOTHESES, REFERENCES, 2),
        rouge_l(HYPOTHESES, REFERENCES),
    )
    for place, found in enumerate(all_found, start=2):
        assert np.transpose([found.precision, found.recall, found.f]) == pytest.approx(
            np.array([case[place] for case in PUBLISHED]), abs=1e-12
        )


def test_a_corpus_scores_the_mean_of_its_sentences():
    found = rouge(HYPOTHESES, REFERENCES)
    for place, score in enumerate((found.rouge1, found.rouge2, found.rougeL), start=2):
        expected = np.mean([case[place] for case in PUBLISHED], axis=0)
        assert (score.precision, score.recall, score.f) == pytest.approx(tuple(expected), abs=1e-12)


def test_words_are_those_of_rouge_score():
    words = rouge_words("ROUGE-L isn't 3.5, it's naïve_x!")
    assert words == ["rouge", "l", "isn", "t", "3", "5", "it", "s", "na", "ve", "x"]  # its tokenize(), no stemmer


def test_the_cat_on_the_mat_by_hand():
    hypothesis = ["the", "cat", "is", "on", "the", "mat"]
    first, second = hypothesis, ["there", "is", "a", "cat", "on", "the", "mat"]
    bigrams = rouge_n([hypothesis], [[second]], 2)
    assert (bigrams.precision[0], bigrams.recall[0]) == pytest.approx((2 / 5, 2 / 6))
    longest = rouge_l([hypothesis], [[second]])  # is/cat on the mat
    assert (longest.precision[0], longest.recall[0], longest.f[0]) == pytest.approx((4 / 6, 4 / 7, 8 / 13))
    pooled = rouge_n([hypothesis], [[first, second]], 2, several="pooled")
    assert pooled.recall[0] == pytest.approx((5 + 2) / (5 + 6))
    assert pooled.precision[0] == pytest.approx((5 + 2) / (5 + 5))
    assert rouge_n([hypothesis], [[second, first]], 2).f[0] == 1


def test_pooled_scores_keep_to_their_own_references():
    hypotheses = [list("ab"), list("xy")]
    references = [[list("ab"), list("cd")], [list("xz")]]
    assert rouge_n(hypotheses, references, 1, several="pooled").recall.tolist() == [2 / 4, 1 / 2]
    assert rouge_l(hypotheses, references, several="pooled").precision.tolist() == [2 / 4, 1 / 2]


texts = st.lists(st.integers(0, 3), max_size=9)


@given(texts, texts)
def test_the_common_subsequence_is_the_longest(first, second):
    def subsequences(text):
        return {picked for size in range(len(text) + 1) for picked in combinations(text, size)}

    assert common_subsequence(first, second) == max(map(len, subsequences(first) & subsequences(second)))


def test_the_common_subsequence_of_long_texts():
    generator = np.random.default_rng(0)
    first, second = generator.integers(0, 20, 700).tolist(), generator.integers(0, 20, 500).tolist()
    row = np.zeros(len(second) + 1, int)  # the usual table, row by row
    for token in first:
        before, row = row, row.copy()
        for place, other in enumerate(second, start=1):
            row[place] = before[place - 1] + 1 if token == other else max(before[place], row[place - 1])
    assert common_subsequence(first, second) == row[-1]


@given(texts, texts)
def test_exchanging_the_sides_exchanges_precision_and_recall(first, second):
    for score in (rouge_n, rouge_l):
        there, back = score([first], [[second]]), score([second], [[first]])
        assert there.precision.tolist() == back.recall.tolist()
        assert there.f == pytest.approx(back.f)
        assert 0 <= there.f[0] <= 1


def test_wrong_input_is_named():
    with pytest.raises(DataError, match="hypothesis 0 is a string"):
        rouge(["a b"], [[["a"]]])
    with pytest.raises(ConfigError, match="did you mean 'pooled'"):
        rouge([["a"]], [[["a"]]], several="pool")
    with pytest.raises(ConfigError, match="order is 0"):
        rouge_n([["a"]], [[["a"]]], order=0)
