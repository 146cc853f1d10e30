"""Word2vec's compiled loops against the formulas, written out in numpy."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from seqloom.config.schema.word2vec import Word2VecConfig
from seqloom.errors import TrainingError
from seqloom.models.word2vec.decisions import noise_decisions, tree_decisions
from seqloom.models.word2vec.fitting import count_tokens, learn_pass, mean_loss
from seqloom.models.word2vec.model import Word2Vec
from seqloom.models.word2vec.sampling import ALL, alias_table, kept_shares
from seqloom.text.codes import huffman_codes
from seqloom.text.special import EOS, SPECIALS, UNK

FIRST = len(SPECIALS)
SEED = np.uint64(7)
Array = NDArray[Any]


def text_of(*sentences: list[int]) -> NDArray[np.int32]:
    return np.array([token for words in sentences for token in [*(FIRST + word for word in words), EOS]], np.int32)


def model_of(config: Word2VecConfig, counts: list[int]) -> Word2Vec:
    """A model whose outputs are random too, so that every gradient counts."""
    model = Word2Vec.begin(config, np.array(counts, np.int64), seed=1)
    random = np.random.default_rng(2)
    for matrix in (model.vectors, model.outputs):
        matrix[:-1, : config.size] = random.normal(0, 0.5, (len(counts), config.size))
    return model


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def expected_step(
    model: Word2Vec, windows: list[tuple[list[int], list[int], list[float]]], rate: float
) -> tuple[Array, Array, float]:
    """Vectors, outputs and loss after one step per window: (its words, rows decided on, right answers as ±1)."""
    vectors, outputs = model.vectors.astype(np.float64), model.outputs.astype(np.float64)
    loss = 0.0
    for words, rows, answers in windows:
        inputs, chosen, signs = vectors[words], outputs[rows], np.array(answers)
        hidden = inputs
        if model.config.architecture == "cbow":
            hidden = inputs.mean(0, keepdims=True) if model.config.context == "mean" else inputs.sum(0, keepdims=True)
        right = sigmoid(signs * (hidden @ chosen.T))
        loss -= np.log(right).sum()
        steps = rate * signs * (1 - right)
        np.add.at(outputs, rows, steps.T @ hidden)
        gradient = steps @ chosen
        if model.config.architecture == "cbow":
            share = 1 / len(words) if model.config.context == "mean" else 1.0
            gradient = np.repeat(gradient * share, len(words), axis=0)
        np.add.at(vectors, words, gradient)
    return vectors, outputs, loss


@pytest.mark.parametrize("size", [5, 16, 100])
@pytest.mark.parametrize("form", ["skip-gram", "mean", "sum"])
def test_a_step_on_the_tree_is_the_gradient_of_the_log_likelihood(form: str, size: int) -> None:
    settings: dict[str, Any] = {"architecture": "cbow", "context": form} if form != "skip-gram" else {}
    counts = [9, 7, 5, 4, 3, 2, 2, 1, 1]
    config = Word2VecConfig(output="tree", size=size, window=1, subsample=0, **settings)
    model = model_of(config, counts)
    sentence = [3, 8, 3, 1]  # the first and the last centre have one neighbour, and 8 has the same word on both sides
    codes = huffman_codes(np.array(counts))
    windows = []
    for place, word in enumerate(sentence):
        near = [sentence[other] for other in (place - 1, place + 1) if 0 <= other < len(sentence)]
        length = codes.lengths[word]
        signs = np.where(codes.turns[word, :length], -1.0, 1.0)
        windows.append((near, codes.nodes[word, :length].tolist(), signs.tolist()))
    vectors, outputs, loss = expected_step(model, windows, rate=0.3)
    found, predictions = model.learn(text_of(sentence), 0.3, 0.3, SEED)
    np.testing.assert_allclose(model.vectors, vectors, atol=2e-6)
    np.testing.assert_allclose(model.outputs, outputs, atol=2e-6)
    assert found == pytest.approx(loss, abs=2e-3)  # some of its parts are above 10: what is quite wrong counts in full
    assert predictions == (6 if form == "skip-gram" else 4)


@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
def test_a_step_against_noise_is_the_gradient_of_its_objective(architecture: Any) -> None:
    """Of three words only one can be noise for the others: the draws are known."""
    config = Word2VecConfig(architecture=architecture, size=20, window=1, negatives=2, subsample=0)
    model = model_of(config, [0, 0, 9])
    noise = [2, 2]
    windows = [([1], [0, *noise], [1.0, -1.0, -1.0]), ([0], [1, *noise], [1.0, -1.0, -1.0])]
    vectors, outputs, loss = expected_step(model, windows, rate=0.1)
    found, _ = model.learn(text_of([0, 1]), 0.1, 0.1, SEED)
    np.testing.assert_allclose(model.vectors, vectors, atol=1e-6)
    np.testing.assert_allclose(model.outputs, outputs, atol=1e-6)
    assert found == pytest.approx(loss, rel=1e-5)


def test_noise_that_is_the_word_itself_counts_for_nothing() -> None:
    """Word 0 is all the noise there is: in its own window nothing but itself is decided on."""
    model = model_of(Word2VecConfig(size=8, window=1, negatives=4, subsample=0), [9, 0])
    windows = [([1], [0], [1.0]), ([0], [1, 0, 0, 0, 0], [1.0, -1.0, -1.0, -1.0, -1.0])]
    vectors, outputs, loss = expected_step(model, windows, rate=0.1)
    found, _ = model.learn(text_of([0, 1]), 0.1, 0.1, SEED)
    np.testing.assert_allclose(model.vectors, vectors, atol=1e-6)
    np.testing.assert_allclose(model.outputs, outputs, atol=1e-6)
    assert found == pytest.approx(loss, rel=1e-5)


def test_windows_end_with_sentences_and_skip_unknown_words() -> None:
    config = Word2VecConfig(size=8, window=1, output="tree", subsample=0)
    counts = [4, 3, 2, 1]
    apart, together = model_of(config, counts), model_of(config, counts)
    _, predictions = apart.learn(text_of([0], [1], [2]), 0.1, 0.1, SEED)
    assert predictions == 0
    with_unknown = np.array([FIRST, UNK, FIRST + 1, EOS], np.int32)
    known = np.array([FIRST, FIRST + 1, EOS], np.int32)
    other = model_of(config, counts)
    assert together.learn(with_unknown, 0.1, 0.1, SEED) == other.learn(known, 0.1, 0.1, SEED)
    np.testing.assert_array_equal(together.vectors, other.vectors)


def test_the_rows_that_fill_up_stay_zero() -> None:
    random = np.random.default_rng(0)
    tokens = text_of(*(random.integers(0, 30, 7).tolist() for _ in range(200)))
    for config in (Word2VecConfig(size=10), Word2VecConfig(size=10, architecture="cbow", output="tree")):
        model = Word2Vec.begin(config, count_tokens(tokens, 30), seed=0)
        list(learn_pass(model, tokens, 500, (0.05, 0.01), (0,), threads=2))
        for matrix in (model.vectors, model.outputs):
            assert not matrix[-1].any()
            assert not matrix[:, 10:].any()
            assert matrix[:-1, :10].any()


def test_windows_reach_each_distance_as_often() -> None:
    """With window 4, words at distance d are predicted from with chance (5 - d)/4."""
    config = Word2VecConfig(size=2, window=4, subsample=0, output="tree")
    length = 4000
    model = Word2Vec.begin(config, np.full(50, 10, np.int64), seed=0)
    tokens = text_of(np.random.default_rng(0).integers(0, 50, length).tolist())
    _, predictions = model.learn(tokens, 0.0, 0.0, SEED)
    assert predictions / length == pytest.approx(2 * (1 + 2 + 3 + 4) / 4, rel=0.03)


@pytest.mark.parametrize("settings", [{"output": "tree"}, {"negatives": 30}])
def test_the_loss_of_wide_windows_is_finite(settings: dict[str, Any]) -> None:
    """A window of 50 words takes so many decisions that the product of their probabilities is no number any more."""
    config = Word2VecConfig(size=2, window=25, subsample=0, **settings)
    model = Word2Vec.begin(config, np.full(1 << 15, 1, np.int64), seed=0)
    tokens = text_of(np.random.default_rng(0).integers(0, 1 << 15, 200).tolist())
    loss, predictions = model.learn(tokens, 0.0, 0.0, SEED)
    decisions = 15 if "output" in settings else 31  # all outputs are 0: each decision is taken with chance ½
    assert loss / predictions == pytest.approx(decisions * math.log(2), rel=1e-3)


def test_sub_sampling_keeps_what_word2vec_keeps() -> None:
    counts = np.array([9000, 900, 100], np.int64)
    share = counts / counts.sum()
    expected = np.minimum(1, np.sqrt(1e-3 / share) + 1e-3 / share)
    np.testing.assert_allclose(kept_shares(counts, 1e-3) / ALL, expected, rtol=1e-6)
    assert (kept_shares(counts, 0.0) == ALL).all()


def test_sub_sampling_drops_words_at_that_rate() -> None:
    counts = np.array([50_000, 50_000], np.int64)
    config = Word2VecConfig(size=2, window=1, subsample=0.01, output="tree")
    model = Word2Vec.begin(config, counts, seed=0)
    tokens = text_of(np.random.default_rng(0).integers(0, 2, 9000).tolist())
    _, predictions = model.learn(tokens, 0.0, 0.0, SEED)
    kept = math.sqrt(0.02) + 0.02
    assert predictions / 2 == pytest.approx(9000 * kept, rel=0.07)


@pytest.mark.parametrize("counts", [[1], [1, 1], [5, 0, 3], [1000, 10, 10, 1], list(range(1, 300))])
def test_the_alias_table_draws_with_the_right_chances(counts: list[int]) -> None:
    weights = np.array(counts, np.float64) ** 0.75
    weights[np.array(counts) == 0] = 0
    shares, others = alias_table(weights)
    below = shares / ALL
    drawn = below.copy()
    np.add.at(drawn, others, 1 - below)
    np.testing.assert_allclose(drawn / len(counts), weights / weights.sum(), atol=1e-8)


def test_negative_sampling_decides_on_the_word_and_the_tree_on_its_path() -> None:
    counts = np.array([5, 3, 2, 1], np.int64)
    noise = noise_decisions(counts, 0.75, 5)
    assert noise.path.tolist() == [0, 1, 2, 3]
    tree = tree_decisions(counts)
    assert np.diff(tree.starts).tolist() == huffman_codes(counts).lengths.tolist()
    assert tree.negatives == 0


def test_the_loss_falls_and_held_out_loss_learns_nothing() -> None:
    random = np.random.default_rng(3)
    topics = [random.integers(10 * topic, 10 * topic + 10, 12).tolist() for topic in random.integers(0, 3, 400)]
    tokens = text_of(*topics)
    model = Word2Vec.begin(Word2VecConfig(size=16, subsample=0), count_tokens(tokens, 30), seed=0)
    before = mean_loss(model, tokens)
    assert before == pytest.approx(6 * math.log(2), rel=0.05)  # one half at every decision, noise that hits left out
    vectors = model.vectors.copy()
    assert mean_loss(model, tokens, threads=2) == before
    np.testing.assert_array_equal(model.vectors, vectors)
    for _ in range(3):
        list(learn_pass(model, tokens, 1000, (0.05, 0.05), (0,), threads=1))
    assert mean_loss(model, tokens) < 0.9 * before
    near = model.word_vectors([str(word) for word in range(30)]).neighbours("3", 9)
    assert {word for word, _ in near} == {str(word) for word in range(10)} - {"3"}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("batch", [100, 10_000])  # the loss of a single batch is that before its own steps
def test_vectors_that_diverge_are_a_failure_that_names_the_rate(batch: int, threads: int) -> None:
    tokens = text_of(*(np.random.default_rng(5).integers(0, 40, 9).tolist() for _ in range(300)))
    config = Word2VecConfig(size=8, subsample=0, learning_rate=1e6)
    model = Word2Vec.begin(config, count_tokens(tokens, 40), seed=0)
    with pytest.raises(TrainingError, match=r"Lower model.learning_rate \(now 1e\+06\)"):
        list(learn_pass(model, tokens, batch, (1e6, 1e6), (0,), threads))


def test_one_thread_gives_the_same_vectors_again() -> None:
    tokens = text_of(*(np.random.default_rng(5).integers(0, 40, 9).tolist() for _ in range(300)))
    counts = count_tokens(tokens, 40)
    found = []
    for _ in range(2):
        model = Word2Vec.begin(Word2VecConfig(size=12), counts, seed=4)
        list(learn_pass(model, tokens, 700, (0.05, 0.01), (4, 0), threads=1))
        found.append(model.vectors.tobytes())
    assert found[0] == found[1]


def test_a_saved_model_comes_back(tmp_path: Any) -> None:
    config = Word2VecConfig(size=10)
    model = model_of(config, [3, 2, 1])
    model.save(tmp_path / "model.safetensors", passes=2)
    again, passes = Word2Vec.load(config, tmp_path / "model.safetensors", words=3)
    assert passes == 2
    np.testing.assert_array_equal(again.vectors, model.vectors)
    np.testing.assert_array_equal(again.outputs, model.outputs)
    np.testing.assert_array_equal(again.counts, model.counts)
