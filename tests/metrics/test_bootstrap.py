"""Paired bootstrap resampling, against resampling by hand and the normal distribution."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import norm

from seqloom.errors import ConfigError, DataError
from seqloom.metrics.bleu import bleu
from seqloom.metrics.bootstrap import paired_bootstrap, paired_bootstrap_bleu
from seqloom.metrics.rouge import rouge_l

Texts = list[list[int]]


def systems(sentences: int) -> tuple[Texts, Texts, list[list[list[int]]]]:
    """Two systems that replace words: the first a third of them, the second a quarter."""
    generator = np.random.default_rng(5)
    references = [generator.integers(0, 50, generator.integers(8, 20)) for _ in range(sentences)]
    first, second = (
        [np.where(generator.random(len(text)) < rate, -1, text).tolist() for text in references]
        for rate in (1 / 3, 1 / 4)
    )
    return first, second, [[text.tolist(), text[1:].tolist()] for text in references]


def test_bleu_of_resamples_is_bleu_of_the_sentences_drawn():
    first, second, references = systems(30)
    found = paired_bootstrap_bleu(first, second, references, resamples=50, seed=3)
    assert found.first == pytest.approx(bleu(first, references).score)
    assert found.second == pytest.approx(bleu(second, references).score)
    assert found.difference == pytest.approx(found.second - found.first)
    generator, differences = np.random.default_rng(3), []
    for _ in range(50):
        drawn = generator.integers(30, size=30)
        theirs = [references[i] for i in drawn]
        differences.append(
            bleu([second[i] for i in drawn], theirs).score - bleu([first[i] for i in drawn], theirs).score
        )
    assert found.mean_difference == pytest.approx(np.mean(differences))
    assert (found.low, found.high) == pytest.approx(tuple(np.quantile(differences, [0.025, 0.975])))
    assert found.p == pytest.approx((1 + np.sum(np.array(differences) <= 0)) / 51)


def test_the_interval_and_p_of_a_mean_are_those_of_the_normal_distribution():
    generator = np.random.default_rng(0)
    first = generator.normal(0.4, 0.2, 800)
    second = first + generator.normal(0.01, 0.15, 800)
    found = paired_bootstrap(first, second, resamples=4000)
    error = np.std(second - first) / np.sqrt(800)
    assert found.mean_difference == pytest.approx(found.difference, abs=4 * error / np.sqrt(4000))
    assert (found.low, found.high) == pytest.approx(
        (found.difference - 1.96 * error, found.difference + 1.96 * error), abs=0.15 * error
    )
    assert found.p == pytest.approx(norm.cdf(-found.difference / error), abs=0.02)


def test_a_better_system_is_found_better_and_the_other_way_round():
    first, second, references = systems(200)
    there = paired_bootstrap_bleu(first, second, references)
    back = paired_bootstrap_bleu(second, first, references)
    assert there.p < 0.05
    assert there.low > 0
    assert back.p > 0.95
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low))
    rouges = [rouge_l(system, references).f for system in (first, second)]
    means = paired_bootstrap(*rouges)
    assert means.p < 0.05
    assert means.second == pytest.approx(rouges[1].mean())


def test_a_system_is_not_better_than_itself():
    first, _, references = systems(20)
    found = paired_bootstrap_bleu(first, first, references, resamples=100)
    assert (found.difference, found.low, found.high, found.p) == (0, 0, 0, 1)


def test_the_seed_decides():
    values = np.random.default_rng(0).random((2, 40))
    assert paired_bootstrap(*values, seed=1) == paired_bootstrap(*values, seed=1)
    assert paired_bootstrap(*values, seed=1) != paired_bootstrap(*values, seed=2)


def test_what_several_trainings_made_of_a_sentence_is_drawn_together():
    """Trainings that all wrote the same say no more than one of them."""
    first, second, references = systems(30)
    once = paired_bootstrap_bleu(first, second, references)
    assert paired_bootstrap_bleu(first * 3, second * 3, references * 3, trainings=3) == once
    assert paired_bootstrap_bleu(first * 3, second * 3, references * 3).p < once.p
    ours, theirs = (rouge_l(texts, references).f for texts in (first, second))
    alone = paired_bootstrap((ours + theirs) / 2, theirs)
    several = paired_bootstrap(np.concatenate([ours, theirs]), np.tile(theirs, 2), trainings=2)
    assert several.p == alone.p
    assert (several.low, several.high) == pytest.approx((alone.low, alone.high))


def test_wrong_input_is_named():
    with pytest.raises(DataError, match="not on 2 and 3"):
        paired_bootstrap([0.1, 0.2], [0.1, 0.2, 0.3])
    with pytest.raises(DataError, match="no sentences"):
        paired_bootstrap([], [])
    with pytest.raises(ConfigError, match="resamples is 0"):
        paired_bootstrap([0.1], [0.2], resamples=0)
    with pytest.raises(DataError, match="3 sentences are not those of 2 trainings"):
        paired_bootstrap([0.1, 0.2, 0.3], [0.2, 0.3, 0.4], trainings=2)
