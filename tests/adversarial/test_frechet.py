"""Distances between sets of images, against closed forms and brute force."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import sqrtm

from seqloom.metrics.frechet import (
    class_counts,
    classifier_score,
    frechet_distance,
    gaussian_distance,
    moments,
    nearest,
    precision_recall,
)


@pytest.fixture
def random() -> np.random.Generator:
    return np.random.default_rng(0)


def test_the_distance_of_gaussians_with_diagonal_covariances_has_a_closed_form(random):
    means, deviations = random.normal(size=(2, 5)), random.uniform(0.1, 2.0, (2, 5))
    expected = ((means[0] - means[1]) ** 2).sum() + ((deviations[0] - deviations[1]) ** 2).sum()
    covariances = [np.diag(each**2) for each in deviations]
    assert gaussian_distance(means[0], covariances[0], means[1], covariances[1]) == pytest.approx(expected)


def test_the_distance_of_samples_is_that_of_scipys_matrix_root(random):
    real, drawn = random.normal(size=(80, 6)), random.normal(size=(90, 6)) @ random.normal(size=(6, 6)) + 0.5
    (mean, covariance), (other_mean, other) = moments(real), moments(drawn)
    cross = sqrtm(covariance @ other).real
    expected = ((mean - other_mean) ** 2).sum() + np.trace(covariance + other - 2 * cross)
    assert frechet_distance(real, drawn) == pytest.approx(expected)
    assert frechet_distance(real, real) == pytest.approx(0.0, abs=1e-9)


def test_features_that_never_vary_do_no_harm(random):
    real = np.concatenate([random.normal(size=(30, 3)), np.zeros((30, 2))], axis=1)
    assert frechet_distance(real, real + 1) == pytest.approx(5.0)


def test_precision_and_recall_are_those_of_brute_force(random):
    real, drawn = random.normal(size=(40, 3)), 0.5 * random.normal(size=(30, 3)) + 0.3

    def covered(points, cover, k=3):
        radii = [sorted(np.linalg.norm(cover - each, axis=1))[k] for each in cover]
        return np.mean([any(np.linalg.norm(cover - point, axis=1) <= radii) for point in points])

    found = precision_recall(real, drawn)
    assert found.precision == pytest.approx(covered(drawn, real))
    assert found.recall == pytest.approx(covered(real, drawn))


def test_nearest_points_are_those_of_brute_force(random):
    points, others = random.normal(size=(1100, 3)), random.normal(size=(40, 3))
    expected = np.linalg.norm(points[:, None] - others, axis=2).min(1)
    np.testing.assert_allclose(nearest(points, others), expected)
    apart = np.linalg.norm(points[:, None] - points, axis=2) + np.diag(np.full(1100, np.inf))
    np.testing.assert_allclose(nearest(points), apart.min(1))
    np.testing.assert_allclose(nearest(np.ones((5, 2))), 0)


def test_what_draws_one_image_only_is_precise_and_recalls_nothing(random):
    real = random.normal(size=(100, 2))
    found = precision_recall(real, np.repeat(real[:1], 100, axis=0) + 1e-3 * random.normal(size=(100, 2)))
    assert found.precision > 0.99
    assert found.recall < 0.05


def test_the_classifier_score_goes_from_1_to_the_number_of_classes():
    sure = np.log(np.eye(4) * (1 - 1e-9) + 2.5e-10)
    assert classifier_score(np.tile(sure, (5, 1))) == pytest.approx(4.0, abs=1e-3)
    assert classifier_score(np.tile(sure[:1], (5, 1))) == pytest.approx(1.0)
    assert classifier_score(np.full((5, 4), np.log(0.25))) == pytest.approx(1.0)
    assert class_counts(np.tile(sure[:2], (3, 1))).tolist() == [3, 3, 0, 0]


def test_features_beyond_all_numbers_are_infinitely_far() -> None:
    mean, covariance = np.zeros(2), np.eye(2)
    assert gaussian_distance(mean, covariance, mean, np.full((2, 2), np.nan)) == np.inf
