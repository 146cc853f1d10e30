"""N-gram models against brute force, NLTK and their own laws."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from nltk.lm import MLE, KneserNeyInterpolated, Lidstone, Vocabulary
from nltk.lm.preprocessing import pad_both_ends
from nltk.util import everygrams

from seqloom.config.schema.ngram import NgramModelConfig
from seqloom.models.ngram import counting, estimation, scoring, suffixes, trie
from seqloom.models.ngram.counting import count
from seqloom.models.ngram.estimation import estimate
from seqloom.models.ngram.model import NgramModel
from seqloom.models.ngram.trie import NO_HISTORY
from seqloom.models.ngram.workspace import Workspace
from seqloom.text.special import BOS, EOS, PAD, UNK

SMOOTHINGS = ["modified-kneser-ney", "kneser-ney", "absolute", "laplace", "additive", "maximum-likelihood"]
Units = list[list[int]]

units_of_words = st.lists(st.lists(st.integers(4, 8), max_size=7), min_size=1, max_size=12)


def flat(units: Units) -> np.ndarray:
    return np.array([token for unit in units for token in [*unit, EOS]], np.int64)


def fitted(units: Units, size: int = 10, **options: Any) -> NgramModel:
    config = NgramModelConfig(**options)
    model = estimate(count(flat(units), config.order, size), config).model
    model.check()  # no file of such a model may be refused
    return model


def windows_of(units: Units, order: int) -> Counter[tuple[int, ...]]:
    """All n-grams of one order, counted in the plainest way."""
    found: Counter[tuple[int, ...]] = Counter()
    for unit in units:
        tokens = [BOS, *unit, EOS]
        found.update(tuple(tokens[start : start + order]) for start in range(len(tokens) - order + 1))
    return found


def log_probs_after(model: NgramModel, history: list[int]) -> np.ndarray:
    log_probs, _ = model.read(model.start(1), torch.tensor([[BOS, *history]]))
    return log_probs[0].numpy()


# -------------------------------------------------------------------------------------------------------------- counts


@settings(max_examples=60, deadline=None)
@given(units_of_words, st.integers(1, 6))
def test_counts_are_those_of_a_dictionary_whichever_way_they_are_counted(units: Units, order: int) -> None:
    for found in (
        count(flat(units), order, 10),
        counting.count_compiled(flat(units), order, 10, Workspace(math.inf)),
        counting.count_compiled(flat(units), order, 10, Workspace(0)),  # all arrays in files
    ):
        for n in range(1, order + 1):
            ngrams = [tuple(row) for row in found.trie.ngrams(n).tolist()]
            counts = found.counts[found.trie.level(n)].tolist()
            assert ngrams == sorted(ngrams)
            assert {g: c for g, c in zip(ngrams, counts, strict=True) if c} == windows_of(units, n)
        assert found.tokens == len(flat(units))


@settings(max_examples=30, deadline=None)
@given(units_of_words, st.sampled_from([*SMOOTHINGS, "stupid-backoff"]), st.sampled_from([[], [0, 0, 1]]))
def test_compiled_loops_give_the_same_model_as_numpy(units: Units, smoothing: str, prune: list[int]) -> None:
    def model() -> NgramModel:
        return fitted(units, smoothing=smoothing, order=4, prune=prune)

    plain = model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(counting, "COMPILED", 0)
        for module in (suffixes, estimation, trie):
            patch.setattr(module, "LARGE", 0)
        compiled = model()
    np.testing.assert_array_equal(compiled.trie.words, plain.trie.words)
    np.testing.assert_array_equal(compiled.trie.first, plain.trie.first)
    np.testing.assert_allclose(compiled.log_probs, plain.log_probs, rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(compiled.backoffs, plain.backoffs, rtol=1e-5, atol=1e-6)


@settings(max_examples=40, deadline=None)
@given(units_of_words, units_of_words, st.integers(1, 5), st.sampled_from(["modified-kneser-ney", "stupid-backoff"]))
def test_compiled_scores_are_those_of_numpy_and_of_the_steps(
    units: Units, others: Units, order: int, smoothing: str
) -> None:
    model = fitted(units, order=order, smoothing=smoothing)
    tokens, lengths = flat(others).astype(np.int32), np.array([len(unit) + 1 for unit in others])
    for first in (NO_HISTORY, BOS):
        inputs = np.concatenate([[first], tokens[:-1]]).astype(np.int32)
        inputs[inputs == EOS] = first
        plain, orders = model.unit_scores(tokens, lengths, first)
        scores, compiled_orders = scoring.score_compiled(model, inputs, tokens)
        np.testing.assert_allclose(scores, plain, rtol=1e-6)
        np.testing.assert_array_equal(compiled_orders, orders)
    steps = [log_probs_after(model, unit[:at])[token] for unit in others for at, token in enumerate([*unit, EOS])]
    np.testing.assert_allclose(plain, steps, rtol=1e-5, atol=1e-5)


def test_compiled_distributions_are_those_of_numpy() -> None:
    model = fitted([[4, 5, 6], [4, 5, 5], [7, 5, 6, 4]], order=3)
    plain = [log_probs_after(model, history) for history in ([], [4, 5], [9, 9], [7])]
    model._answered = 1 << 40
    for history, expected in zip(([], [4, 5], [9, 9], [7]), plain, strict=True):
        np.testing.assert_array_equal(log_probs_after(model, history), expected)


# --------------------------------------------------------------------------------------------------------------- laws


@settings(max_examples=80, deadline=None)
@given(
    units_of_words,
    st.lists(st.integers(3, 9).filter(lambda token: token != EOS), max_size=5),
    st.integers(1, 7),
    st.sampled_from(SMOOTHINGS),
    st.sampled_from([[], [0, 1], [0, 0, 1, 2]]),
)
def test_probabilities_sum_to_one_after_every_context_seen_or_not(
    units: Units, history: list[int], order: int, smoothing: str, prune: list[int]
) -> None:
    model = fitted(units, order=order, smoothing=smoothing, prune=prune)
    log_probs = log_probs_after(model, history)
    assert np.exp(log_probs.astype(np.float64)).sum() == pytest.approx(1, abs=2e-5)
    assert (log_probs[[PAD, BOS]] == -math.inf).all()


def test_an_order_larger_than_any_line_gives_the_model_of_the_longest() -> None:
    units = [[4, 5], [6], [4, 6]]
    long, enough = fitted(units, order=9), fitted(units, order=4)
    assert long.trie.sizes()[4:] == [0] * 5
    for history in ([], [4], [4, 5], [9, 9, 9]):
        np.testing.assert_allclose(log_probs_after(long, history), log_probs_after(enough, history), rtol=1e-6)


def test_maximum_likelihood_is_the_relative_frequency() -> None:
    units = [[4, 5, 6], [4, 5, 5], [4, 6]]
    model = fitted(units, order=3, smoothing="maximum-likelihood")
    assert math.exp(log_probs_after(model, [4, 5])[6]) == pytest.approx(1 / 2)
    assert math.exp(log_probs_after(model, [4])[5]) == pytest.approx(2 / 3)
    assert log_probs_after(model, [4])[8] == -math.inf
    assert math.exp(log_probs_after(model, [9, 8])[4]) == pytest.approx(3 / 11)  # never seen: the frequency of the word


def test_laplace_smoothing_adds_the_lower_order_as_in_its_formula() -> None:
    """P(x) = (n(x) + ε₁/m) / (n + ε₁),  P(x' | x) = (n(x, x') + ε₂ P(x')) / (n(x) + ε₂)"""
    units = [[4, 5, 6], [4, 5, 5]]
    model = fitted(units, order=2, smoothing="laplace", epsilon=[0.5, 2.0])
    words, total = 8, 8  # of the vocabulary, without <pad> and <bos>; of the text, with two <eos>
    unigram = {token: (n + 0.5 / words) / (total + 0.5) for token, n in {4: 2, 5: 3, 6: 1, 7: 0}.items()}
    after = log_probs_after(model, [5])
    assert math.exp(after[6]) == pytest.approx((1 + 2 * unigram[6]) / (3 + 2))
    assert math.exp(after[7]) == pytest.approx((0 + 2 * unigram[7]) / (3 + 2))


def test_absolute_discounting_is_that_of_its_recursion() -> None:
    """max(c(hw) - D, 0) / c(h) + D N(h •) / c(h) p(w | h'), D = n₁ / (n₁ + 2 n₂) of each order, uniform below words."""
    units = [[4, 5, 6], [4, 5, 5], [7, 5, 6], [4, 5, 6, 8], [7, 4], [8], [9]]
    model = fitted(units, order=3, smoothing="absolute")

    def probability(history: list[int], word: int) -> float:
        counts = {gram: c for gram, c in windows_of(units, len(history) + 1).items() if gram != (BOS,)}
        n = Counter(counts.values())
        discount = n[1] / (n[1] + 2 * n[2])
        after = {gram[-1]: c for gram, c in counts.items() if list(gram[:-1]) == history}
        lower = probability(history[1:], word) if history else 1 / 8  # all words but <pad> and <bos>
        if not after:
            return lower
        kept = max(after.get(word, 0) - discount, 0) / sum(after.values())
        return kept + discount * len(after) / sum(after.values()) * lower

    for history in ([4, 5], [7, 5], [6, 7], [5, 4], [9, 9]):
        found = log_probs_after(model, history)
        for word in (4, 5, 6, 7, 8, EOS, UNK):
            assert math.exp(found[word]) == pytest.approx(probability(history, word), rel=1e-5), (history, word)


@pytest.mark.parametrize("order", [1, 2, 3])
def test_only_the_last_words_before_count(order: int) -> None:
    """p(x_t | x_1, ..., x_{t-1}) = p(x_t | x_{t-N+1}, ..., x_{t-1})"""
    model = fitted([[4, 5, 6, 4, 5], [5, 5, 6], [6, 4, 5, 6]], order=order)
    after_many = log_probs_after(model, [6, 6, 4, 4, 5])
    for before in ([8, 7, 4, 5], [5, 6, 4, 5]):  # the same last two words
        np.testing.assert_array_equal(log_probs_after(model, before), after_many)
    others = log_probs_after(model, [6, 6, 4, 5, 6])
    assert np.array_equal(others, after_many) == (order == 1)


def test_stupid_backoff_scores_are_those_of_its_recursion() -> None:
    units = [[4, 5, 6], [4, 5, 5], [7, 5, 6]]
    model = fitted(units, order=3, smoothing="stupid-backoff", backoff=0.4)

    def score(history: list[int], word: int) -> float:
        if not history:
            return {4: 2, 5: 4, 6: 2, 7: 1, EOS: 3}[word] / 12
        seen = windows_of(units, len(history) + 1)[(*history, word)]
        if seen:
            return seen / windows_of(units, len(history))[tuple(history)]
        return 0.4 * score(history[1:], word)

    for history in ([4, 5], [7, 5], [6, 7], [5, 4]):
        found = log_probs_after(model, history)
        for word in (4, 5, 6, 7, EOS):
            assert math.exp(found[word]) == pytest.approx(score(history, word)), (history, word)


def test_pruned_ngrams_are_gone_and_their_mass_is_not() -> None:
    units = [[4, 5, 6]] * 3 + [[4, 5, 7]]
    whole, pruned = fitted(units, order=3), fitted(units, order=3, prune=[0, 0, 1])
    assert pruned.trie.sizes()[2] < whole.trie.sizes()[2]
    assert [4, 5, 7] in whole.trie.ngrams(3).tolist()
    assert [4, 5, 7] not in pruned.trie.ngrams(3).tolist()


# --------------------------------------------------------------------------------------------------------------- NLTK

SENTENCES = [
    ["the", "cat", "sat", "on", "the", "mat"],
    ["the", "dog", "sat", "on", "the", "log"],
    ["a", "cat", "and", "a", "dog", "met", "on", "the", "mat"],
    ["the", "log", "fell", "on", "the", "cat"],
]
WORDS = sorted({word for sentence in SENTENCES for word in sentence})
IDS = {word: 4 + number for number, word in enumerate(WORDS)} | {"</s>": EOS, "<UNK>": UNK}


def against_nltk(model: Any, ours: NgramModel, order: int, pad: int) -> None:
    """Every word after every context of the right length that stands in the text."""
    padded = [["<s>"] * pad + sentence for sentence in SENTENCES]
    contexts = {tuple(s[i : i + order - 1]) for s in padded for i in range(len(s) - order + 2)}
    assert len(contexts) > 10
    for context in contexts:
        history = [IDS[word] for word in context if word != "<s>"]
        if "<s>" in context:
            found = log_probs_after(ours, history)
        else:  # in the middle of a sentence: nothing shows where it began
            state = ours.start(1)
            log_probs, _ = ours.read(state, torch.tensor([history]))
            found = log_probs[0].numpy()
        for word in [*WORDS, "</s>"]:
            assert math.exp(found[IDS[word]]) == pytest.approx(model.score(word, context), abs=1e-6), (context, word)


def nltk_model(model: Any, order: int) -> Any:
    # With a vocabulary that lacks it, <s> is <UNK> to NLTK: a context, but no word that could come next.
    padded = [list(pad_both_ends(sentence, order)) for sentence in SENTENCES]
    model.fit([everygrams(sentence, max_len=order) for sentence in padded])
    return model


def our_model(order: int, **options: Any) -> NgramModel:
    units = [[IDS[word] for word in sentence] for sentence in SENTENCES]
    return fitted(units, size=4 + len(WORDS), order=order, **options)


@pytest.mark.parametrize("order", [2, 3, 4])
def test_maximum_likelihood_equals_nltk(order: int) -> None:
    nltk = nltk_model(MLE(order, vocabulary=Vocabulary([*WORDS, "</s>"])), order)
    against_nltk(nltk, our_model(order, smoothing="maximum-likelihood"), order, order - 1)


@pytest.mark.parametrize("order", [2, 3, 4])
@pytest.mark.parametrize("delta", [1.0, 0.1])
def test_additive_smoothing_equals_nltk(order: int, delta: float) -> None:
    nltk = nltk_model(Lidstone(delta, order, vocabulary=Vocabulary([*WORDS, "</s>"])), order)
    against_nltk(nltk, our_model(order, smoothing="additive", delta=delta), order, order - 1)


@pytest.mark.parametrize("order", [2, 3])
def test_interpolated_kneser_ney_equals_nltk(order: int) -> None:
    """NLTK takes one discount from all orders but the unigrams, and pads: one <s> is enough for us to compare."""
    nltk = KneserNeyInterpolated(order, discount=0.3, vocabulary=Vocabulary([*WORDS, "<s>", "</s>"]))
    nltk.fit([everygrams(["<s>", *sentence, "</s>"], max_len=order) for sentence in SENTENCES])
    against_nltk(nltk, our_model(order, smoothing="kneser-ney", discounts=[0.0, 0.3]), order, 1)
