"""BLEU against sacreBLEU, NLTK, and examples worked by hand."""

from __future__ import annotations

import gzip
import math
import random
import subprocess
import sys
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
from seqloom.metrics import ngram_counts
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


@pytest.mark.parametrize("weights", [(0.5, 0.3, 0.2), (1.0,), (0.0, 0.0, 1.0), (0.1, 0.2, 0.3, 0.2, 0.2)])
def test_weights_of_ones_own_equal_nltk(real_sets: Sets, weights):
    """NLTK smooths nothing here, and takes an order without a match for 1e-308, where the score is 0."""
    orders, scored = len(weights), 0
    for hypotheses, references in real_sets[::3]:
        if all(len(tokens) >= orders for tokens in hypotheses):
            ours = bleu(hypotheses, references, weights=weights)
            matched = all(match for match, weight in zip(ours.matches, weights, strict=True) if weight)
            theirs = nltk_corpus_bleu(references, hypotheses, weights=weights) if matched else 0
            assert ours.score == pytest.approx(theirs, abs=1e-9)
            scored += ours.score > 0
    assert scored > 50


@pytest.mark.parametrize("effective_order", [False, True])
def test_equal_weights_are_no_weights(real_sets: Sets, effective_order):
    for hypotheses, references in real_sets[::20]:
        options = {"smoothing": "exp", "effective_order": effective_order}
        weighted = bleu(hypotheses, references, weights=[1 / 3] * 3, **options)
        assert weighted.score == pytest.approx(bleu(hypotheses, references, max_order=3, **options).score, abs=1e-12)


# ------------------------------------------------------------------------------------------------- worked by hand


def test_bigrams_of_the_cat_on_the_mat():
    assert bleu([CAT], [[CAT]], max_order=2).precisions == (1, 1)
    found = bleu([CAT], [[THERE]], max_order=2)
    assert found.matches == (5, 2)  # the, cat, is, on, mat: one "the" is one too many; on the, the mat
    assert found.precisions == pytest.approx((5 / 6, 2 / 5))
    assert found.brevity_penalty == pytest.approx(math.exp(1 - 7 / 6))
    assert found.score == pytest.approx(math.exp(1 - 7 / 6) * math.sqrt(5 / 6 * 2 / 5))
    assert bleu([CAT], [[CAT, THERE]]).score == 1


def test_weights_of_words_and_bigrams_of_the_cat_on_the_mat():
    found = bleu([CAT], [[THERE]], weights=(0.25, 0.75))
    assert found.score == pytest.approx(math.exp(1 - 7 / 6) * (5 / 6) ** 0.25 * (2 / 5) ** 0.75)
    assert bleu([CAT], [[THERE]], weights=(0, 1)).score == pytest.approx(math.exp(1 - 7 / 6) * 2 / 5)


def test_orders_that_a_sentence_lacks_leave_their_weight_to_the_others():
    short, longer = ["the", "dog"], ["the", "cat", "sat"]
    found = sentence_bleu(short, [longer], weights=(0.5, 0.3, 0.2)).score  # one of two words; half a bigram of one
    assert found == pytest.approx(math.exp(1 - 3 / 2) * (1 / 2) ** (0.5 / 0.8) * (1 / 2) ** (0.3 / 0.8))
    assert sentence_bleu(["the"], [longer], weights=(0, 1)).score == 0  # it has nothing that counts


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


# --------------------------------------------------------------------------------------------------------- in use


def test_many_sentences_are_counted_together_and_score_as_each_by_itself(real_sets: Sets, monkeypatch):
    """One sort of n-grams for each order, however many sentences: a reward for a whole batch."""
    hypotheses = [text for pair in real_sets[:40] for text in pair[0]]
    references = [several for pair in real_sets[:40] for several in pair[1]]
    alone = [sentence_bleu(*pair).score for pair in zip(hypotheses, references, strict=True)]
    numbered, sorts = ngram_counts._numbered, []
    monkeypatch.setattr(ngram_counts, "_numbered", lambda keys: (sorts.append(1), numbered(keys))[1])
    assert sentence_bleus(hypotheses, references).tolist() == pytest.approx(alone)
    assert len(sorts) == 4
    assert len(hypotheses) > 100


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
    with pytest.raises(ConfigError, match="max_order is 4 and there are 2 weights"):
        bleu([CAT], [[CAT]], max_order=4, weights=(0.5, 0.5))
    for weights in ((), (0.5, 0.4), (1.5, -0.5), (float("nan"), 1.0), (float("inf"),)):
        with pytest.raises(ConfigError, match=r"weights of BLEU are .* that sum to 1"):
            bleu([CAT], [[CAT]], weights=weights)
    with pytest.raises(ConfigError, match="order is 0"):
        repeated_ngrams([CAT], order=0)
