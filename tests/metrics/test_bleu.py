"""BLEU against sacreBLEU, NLTK, and examples worked by hand."""

from __future__ import annotations

import gzip
import math
import random
import subprocess
import sys
import time
from collections import Counter

import numpy as np
import pytest
import sacrebleu
import torch
from hypothesis import given
from hypothesis import strategies as st
from nltk.translate.bleu_score import corpus_bleu as nltk_corpus_bleu

from seqloom.data.corpora import find
from seqloom.errors import ConfigError, DataError
from seqloom.metrics.bleu import bleu, sentence_bleu, sentence_bleus
from seqloom.metrics.ngram_counts import clipped_matches, repeated_ngrams

Sets = list[tuple[list[list[str]], list[list[list[str]]]]]

CAT = ["the", "cat", "is", "on", "the", "mat"]
THERE = ["there", "is", "a", "cat", "on", "the", "mat"]


def bundled_lines(name: str, part: str = "") -> list[str]:
    return gzip.decompress(find(name).path(part).read_bytes()).decode().splitlines()


def corrupted(tokens: list[str], others: list[str], rate: float, generator: random.Random) -> list[str]:
    """Some tokens dropped, some replaced, some exchanged with the next."""
    kept = [token for token in tokens if generator.random() >= rate]
    kept = [generator.choice(others) if generator.random() < rate else token for token in kept]
    for place in range(len(kept) - 1):
        if generator.random() < rate:
            kept[place : place + 2] = reversed(kept[place : place + 2])
    return kept


@pytest.fixture(scope="module")
def real_sets() -> Sets:
    """1,000 small corpora of Shakespeare's English and everyday Chinese, with one to four references a sentence."""
    generator = random.Random(0)
    english = [line.split() for line in bundled_lines("shakespeare") if line]
    chinese = [list("".join(line.split("\t")[1].split())) for line in bundled_lines("tatoeba-en-zh", "test")]
    sets: Sets = []
    for number in range(1000):
        lines = chinese if number % 5 == 0 else english
        several = 1 + number % 4
        hypotheses, references = [], []
        for tokens in generator.sample(lines, generator.randint(1, 8)):
            others = generator.choice(lines)
            hypotheses.append(corrupted(tokens, others, generator.choice([0, 0.1, 0.4]), generator))
            rates = [0, *(generator.choice([0.1, 0.3]) for _ in range(several - 1))]
            references.append([corrupted(tokens, others, rate, generator) for rate in rates])
        sets.append((hypotheses, references))
    return sets


def joined(references: list[list[list[str]]]) -> list[list[str]]:
    """As sacreBLEU wants them: all first references, all second ones, ..."""
    return [[" ".join(tokens) for tokens in stream] for stream in zip(*references, strict=True)]


# ------------------------------------------------------------------------------------------------------ sacreBLEU


@pytest.mark.parametrize("effective_order", [False, True])
@pytest.mark.parametrize(
    ("smoothing", "value"), [("none", None), ("floor", None), ("floor", 0.01), ("add-k", None), ("exp", None)]
)
def test_bleu_equals_sacrebleu_on_real_text(real_sets: Sets, smoothing, value, effective_order):
    usual = smoothing in ("none", "exp") and not effective_order
    for hypotheses, references in real_sets if usual else real_sets[::5]:
        options = {"smoothing": smoothing, "smoothing_value": value, "effective_order": effective_order}
        ours = bleu(hypotheses, references, **options)
        theirs = sacrebleu.corpus_bleu(
            [" ".join(tokens) for tokens in hypotheses],
            joined(references),
            smooth_method=smoothing,
            smooth_value=value,
            tokenize="none",
            use_effective_order=effective_order,
        )
        assert ours.score == pytest.approx(theirs.score / 100, abs=1e-9)
        assert ours.precisions == pytest.approx([p / 100 for p in theirs.precisions], abs=1e-9)
        assert ours.brevity_penalty == pytest.approx(theirs.bp, abs=1e-9)
        assert (ours.hypothesis_length, ours.reference_length) == (theirs.sys_len, theirs.ref_len)


def test_one_large_corpus_equals_sacrebleu(real_sets: Sets):
    alike = [pair for pair in real_sets if len(pair[1][0]) == 3]
    hypotheses = [tokens for pair in alike for tokens in pair[0]]
    references = [several for pair in alike for several in pair[1]]
    theirs = sacrebleu.corpus_bleu([" ".join(h) for h in hypotheses], joined(references), tokenize="none")
    ours = bleu(hypotheses, references)
    assert 0.2 < ours.score < 0.9
    assert ours.score == pytest.approx(theirs.score / 100, abs=1e-9)
    assert ours.matches == tuple(theirs.counts)
    assert ours.totals == tuple(theirs.totals)


def test_sentence_bleu_equals_sacrebleu(real_sets: Sets):
    for hypotheses, references in real_sets[::4]:
        theirs = [
            sacrebleu.sentence_bleu(" ".join(h), [" ".join(r) for r in several], tokenize="none").score / 100
            for h, several in zip(hypotheses, references, strict=True)
        ]
        assert sentence_bleus(hypotheses, references) == pytest.approx(theirs, abs=1e-9)
        assert sentence_bleu(hypotheses[0], references[0]).score == pytest.approx(theirs[0], abs=1e-9)


def test_bleu_equals_nltk_where_every_sentence_has_four_words(real_sets: Sets):
    """NLTK counts one 4-gram for a sentence that has none."""
    pairs = [
        pair
        for hypotheses, references in real_sets
        for pair in zip(hypotheses, references, strict=True)
        if len(pair[0]) >= 4
    ]
    hypotheses, references = zip(*pairs, strict=True)
    assert bleu(hypotheses, references).score == pytest.approx(nltk_corpus_bleu(references, hypotheses), abs=1e-9)


# ------------------------------------------------------------------------------------------------- worked by hand


def test_bigrams_of_the_cat_on_the_mat():
    assert bleu([CAT], [[CAT]], max_order=2).precisions == (1, 1)
    found = bleu([CAT], [[THERE]], max_order=2)
    assert found.matches == (5, 2)  # the, cat, is, on, mat: one "the" is one too many; on the, the mat
    assert found.precisions == pytest.approx((5 / 6, 2 / 5))
    assert found.brevity_penalty == pytest.approx(math.exp(1 - 7 / 6))
    assert found.score == pytest.approx(math.exp(1 - 7 / 6) * math.sqrt(5 / 6 * 2 / 5))
    assert bleu([CAT], [[CAT, THERE]]).score == 1


def test_a_repeated_word_matches_as_often_as_one_reference_has_it():
    """The first example of Papineni et al. 2002: two of seven."""
    assert bleu([["the"] * 7], [[CAT, THERE]], max_order=1).precisions == (2 / 7,)


def test_the_reference_length_is_the_closest_or_the_shortest():
    hypothesis, references = list("abcd"), [list("abcdef"), list("ab"), list("abcdefgh")]
    assert bleu([hypothesis], [references]).reference_length == 2  # as far away as 6, and shorter
    assert bleu([hypothesis], [references[::2]]).reference_length == 6
    longer = list("abcdefg")
    assert bleu([longer], [references]).reference_length == 6
    assert bleu([longer], [references], reference_length="shortest").reference_length == 2


def test_without_smoothing_an_order_without_a_match_makes_the_score_zero():
    hypothesis, reference = ["a", "b", "c", "x", "d"], ["a", "b", "c", "y", "d"]
    assert bleu([hypothesis], [[reference]]).score == 0
    exp = bleu([hypothesis], [[reference]], smoothing="exp")
    assert exp.precisions == pytest.approx((4 / 5, 2 / 4, 1 / 3, 1 / 2 / 2))
    floor = bleu([hypothesis], [[reference]], smoothing="floor", smoothing_value=0.2)
    assert floor.precisions == pytest.approx((4 / 5, 2 / 4, 1 / 3, 0.2 / 2))
    added = bleu([hypothesis], [[reference]], smoothing="add-k")
    assert added.precisions == pytest.approx((4 / 5, 3 / 5, 2 / 4, 1 / 3))


def test_texts_without_words_score_zero():
    assert bleu([[]], [[["a"]]]).score == 0
    assert bleu([[]], [[["a"]]]).brevity_penalty == 0
    assert bleu([["a"]], [[[]]]).score == 0
    assert sentence_bleus([[], ["a"]], [[[]], [["a"]]]).tolist() == [0, 1]


# ----------------------------------------------------------------------------------------------------------- laws

texts = st.lists(st.integers(0, 3), max_size=12)


@given(st.lists(st.tuples(texts, st.lists(texts, min_size=1, max_size=3)), min_size=1, max_size=4), st.integers(1, 5))
def test_matches_are_clipped_as_they_are_defined(pairs, max_order):
    def counted(text: list[int], order: int) -> Counter[tuple[int, ...]]:
        return Counter(tuple(text[begin : begin + order]) for begin in range(len(text) - order + 1))

    hypotheses, references = zip(*pairs, strict=True)
    matches = clipped_matches(hypotheses, references, max_order)
    for row, (hypothesis, several) in enumerate(pairs):
        for order in range(1, max_order + 1):
            allowed: Counter[tuple[int, ...]] = Counter()
            for reference in several:
                allowed |= counted(reference, order)
            assert matches[row, order - 1] == (counted(hypothesis, order) & allowed).total()


def test_long_texts_are_counted_alike():
    generator = np.random.default_rng(0)
    hypothesis, reference = generator.integers(0, 9, 3000).tolist(), generator.integers(0, 9, 2500).tolist()
    matches = clipped_matches([hypothesis], [[reference]], 3)
    first = [list(zip(*(text[n:] for n in range(3)), strict=False)) for text in (hypothesis, reference)]
    assert matches[0, 2] == sum(min(first[0].count(gram), first[1].count(gram)) for gram in set(first[0]))


@given(texts, st.lists(texts, min_size=1, max_size=3))
def test_the_score_is_a_share_and_a_copy_scores_one(hypothesis, references):
    assert 0 <= sentence_bleu(hypothesis, references).score <= 1
    if hypothesis:
        assert sentence_bleu(hypothesis, [*references, hypothesis]).score == pytest.approx(1)


def test_words_ids_arrays_and_tensors_score_alike(real_sets: Sets):
    hypotheses, references = real_sets[1]
    numbers: dict[str, int] = {}
    ids = [[numbers.setdefault(token, len(numbers)) for token in tokens] for tokens in hypotheses]
    reference_ids = [
        [[numbers.setdefault(t, len(numbers)) for t in text] for text in several] for several in references
    ]
    expected = sentence_bleus(hypotheses, references).tolist()
    assert sentence_bleus(ids, reference_ids).tolist() == expected
    for make in (np.array, torch.tensor):
        assert (
            sentence_bleus([make(row) for row in ids], [[make(r) for r in s] for s in reference_ids]).tolist()
            == expected
        )


def test_repeated_trigrams():
    again = ["we", "stared", "at", "us", "we", "stared", "at", "us"]  # 6 trigrams; the last two stood there before
    assert repeated_ngrams([again, CAT, ["short"], []]).tolist() == pytest.approx([2 / 6, 0, 0, 0])
    assert repeated_ngrams([CAT], order=1).tolist() == pytest.approx([1 / 6])
    assert repeated_ngrams([np.array([1, 1, 1, 1])]).tolist() == [0.5]


# ------------------------------------------------------------------------------------------------- speed, and use


def test_ten_thousand_sentences_take_well_under_a_second():
    words = " ".join(bundled_lines("shakespeare")).split()
    references = [[words[start : start + 25]] for start in range(0, 200_000, 20)]
    hypotheses = [text[0][3:] + text[0][:3] for text in references]
    seconds = []
    for _ in range(3):
        start = time.perf_counter()
        scores = sentence_bleus(hypotheses, references)
        seconds.append(time.perf_counter() - start)
    assert len(scores) == 10_000
    assert min(seconds) < 0.7  # 0.2 on one core


def test_scores_of_tokens_do_not_wait_for_torch():
    program = "import sys\nfrom seqloom.metrics import rouge\nfrom seqloom.metrics.bleu import bleu\n"
    program += "assert bleu([[1]], [[[1]]], max_order=1).score == 1\n"
    program += "assert not {'torch', 'numba', 'sacrebleu'} & set(sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("hypotheses", "references", "message"),
    [
        ([CAT], [], "1 hypotheses but 0 lists"),
        ([], [], "no hypotheses"),
        (["the cat"], [[CAT]], "hypothesis 0 is a string"),
        ([CAT], [["the cat"]], r"references\[0\]\[0\] is a string"),
        ([CAT], ["the cat"], r"references\[0\] is 'the cat'"),
        ([CAT], [CAT], r"references\[0\]\[0\] is a string"),
        ([[1, 2]], [[1, 2]], r"references\[0\]\[0\] is 1: it must be a list"),
        ([CAT], [[]], r"references\[0\] is \[\]"),
    ],
)
def test_texts_of_the_wrong_shape_are_named(hypotheses, references, message):
    with pytest.raises(DataError, match=message):
        bleu(hypotheses, references)


def test_unknown_options_are_named():
    with pytest.raises(ConfigError, match="did you mean 'floor'"):
        bleu([CAT], [[CAT]], smoothing="flor")
    with pytest.raises(ConfigError, match="did you mean 'closest'"):
        bleu([CAT], [[CAT]], reference_length="closer")
    with pytest.raises(ConfigError, match="max_order is 0"):
        bleu([CAT], [[CAT]], max_order=0)
    with pytest.raises(ConfigError, match="order is 0"):
        repeated_ngrams([CAT], order=0)
