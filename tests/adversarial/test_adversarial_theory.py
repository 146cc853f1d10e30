"""What theory says of adversarial training holds on toys with known densities."""

from __future__ import annotations

import math
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

ROOT = Path(__file__).parent.parent.parent
sys.path.insert(0, str(ROOT))  # the benchmarks are not installed

from benchmarks.adversarial_theory import (  # noqa: E402
    best_discriminator,
    covering_fit,
    game_value,
    generator_gradient,
    grid_centres,
    jensen_shannon,
    mixture,
    mode_coverage,
    ring_centres,
    seeking_fit,
    train_discriminator,
)

from seqloom.models.adversarial.diagnostics import divergence_bound, jensen_shannon_of  # noqa: E402

REAL, MADE = mixture([-1.5, 1.0], 0.6), mixture([0.8], 0.9)


def test_a_discriminator_that_sees_samples_only_comes_to_p_over_p_plus_q():
    learned = train_discriminator(REAL, MADE, steps=600)
    points = torch.linspace(-2.5, 2.5, 101, dtype=torch.float64)
    assert (learned(points) - best_discriminator(REAL, MADE, points)).abs().max() < 0.05
    estimate = jensen_shannon_of(game_value(REAL, MADE, learned))
    assert estimate == pytest.approx(jensen_shannon(REAL, MADE), abs=2e-3)
    assert estimate <= jensen_shannon(REAL, MADE)  # any but the best discriminator gives a bound from below


def test_the_value_of_the_game_is_twice_the_divergence_less_log_4():
    value = game_value(REAL, MADE, lambda points: best_discriminator(REAL, MADE, points))
    assert jensen_shannon_of(value) == pytest.approx(jensen_shannon(REAL, MADE), abs=1e-9)


def test_logits_of_samples_bound_the_divergence():
    """The best discriminator's are close to it; those of another one give less."""
    torch.manual_seed(0)
    real, made = (density.sample((50_000,)) for density in (REAL, MADE))
    logits = [torch.logit(best_discriminator(REAL, MADE, points)) for points in (real, made)]
    truth = jensen_shannon(REAL, MADE)
    assert divergence_bound(*logits) == pytest.approx(truth, abs=3e-3)
    assert divergence_bound(logits[0] / 3, logits[1] / 3) < truth
    assert divergence_bound(torch.full((9,), 40.0), torch.full((9,), -40.0)) == pytest.approx(math.log(2))


def test_the_divergence_is_between_0_and_log_2():
    assert jensen_shannon(REAL, REAL) == pytest.approx(0.0, abs=1e-12)
    assert jensen_shannon(mixture([0.0]), mixture([40.0])) == pytest.approx(math.log(2), abs=1e-9)


def test_the_minimax_gradient_vanishes_where_supports_do_not_meet_and_the_other_does_not():
    assert generator_gradient(10.0, "minimax") < 1e-4
    assert generator_gradient(10.0, "non-saturating") == pytest.approx(10.0, abs=1e-3)


@pytest.mark.parametrize("distance", [0.5, 2.0, 5.0])
def test_both_gradients_together_are_the_slope_of_the_best_logit(distance: float):
    """σ(s) + (1 - σ(s)) = 1, and the logit of two normal densities has the slope distance / σ²."""
    deviation = 0.7
    both = sum(generator_gradient(distance, loss, deviation) for loss in ("minimax", "non-saturating"))
    assert both == pytest.approx(distance / deviation**2, rel=1e-6)


@pytest.mark.parametrize("distance", [0.5, 2.0, 5.0])
def test_the_non_saturating_gradient_is_that_of_the_reverse_divergence_less_twice_the_other(distance: float):
    """d/dθ E[-log D*] = d/dθ (KL(q ‖ p) - 2 JS(p ‖ q)) (Arjovsky & Bottou 2017, theorem 2.5); with D* in its place
    the minimax loss has the slope of 2 JS."""
    deviation, step = 0.7, 1e-3

    def js(at: float) -> float:
        return jensen_shannon(mixture([0.0], deviation), mixture([at], deviation))

    twice_js = (js(distance + step) - js(distance - step)) / step
    reverse_kl = distance / deviation**2  # of distance² / 2σ²
    assert generator_gradient(distance, "non-saturating", deviation) == pytest.approx(reverse_kl - twice_js, abs=1e-4)
    assert generator_gradient(distance, "minimax", deviation) == pytest.approx(twice_js, abs=1e-4)


def test_one_normal_density_covers_two_modes_or_seeks_one():
    real = mixture([-3.0, 3.0], 0.7, [0.4, 0.6])
    covering, seeking = covering_fit(real), seeking_fit(real)
    mean = -3 * 0.4 + 3 * 0.6
    assert float(covering.mean) == pytest.approx(mean, abs=1e-6)
    assert float(covering.variance) == pytest.approx(0.7**2 + 9 - mean**2, abs=1e-5)
    assert float(seeking.mean) == pytest.approx(3.0, abs=0.01)  # the heavier mode
    assert float(seeking.stddev) == pytest.approx(0.7, abs=0.01)


def test_modes_are_counted_by_points_within_three_deviations():
    centres = grid_centres()
    assert centres.shape == (25, 2)
    points = np.concatenate([np.repeat(centres[:10], 4, axis=0), [[5.0, 5.0]] * 10]) + 0.01
    found = mode_coverage(points, centres, deviation=0.02)
    assert found.covered == 10
    assert found.counts.tolist() == [4] * 10 + [0] * 15
    assert found.quality == 40 / 50
    assert np.allclose(np.linalg.norm(ring_centres(8, 0.5), axis=1), 0.5)
