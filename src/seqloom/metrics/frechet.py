"""How near drawn images come to real ones, in the features of a classifier.

Published figures rest on the features of an Inception network trained on ImageNet; these rest on whatever features are
given, and can be compared with others of the same features and the same number of images only.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Features = NDArray[np.floating]
"""[images, numbers]"""
AT_ONCE = 1000  # images whose distances to all others are in memory together


def frechet_distance(real: Features, drawn: Features) -> float:
    """The Fréchet distance between Gaussians fitted to two sets of features (Heusel et al. 2017)."""
    return gaussian_distance(*moments(real), *moments(drawn))


def moments(features: Features) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean and covariance."""
    exact = features.astype(np.float64)
    return exact.mean(0), np.atleast_2d(np.cov(exact, rowvar=False))


def gaussian_distance(
    mean: NDArray[np.float64],
    covariance: NDArray[np.float64],
    other_mean: NDArray[np.float64],
    other_covariance: NDArray[np.float64],
) -> float:
    """The squared Fréchet (2-Wasserstein) distance between two Gaussians (Dowson & Landau 1982):

        |μ₁ - μ₂|² + tr Σ₁ + tr Σ₂ - 2 tr (Σ₁ Σ₂)^½

    Σ₁ Σ₂ has the eigenvalues of Σ₁^½ Σ₂ Σ₁^½, which is symmetric: no complex numbers come up on the way. Infinite where
    features are beyond all numbers.
    """
    if not all(np.isfinite(each).all() for each in (mean, covariance, other_mean, other_covariance)):
        return math.inf
    eigenvalues, vectors = np.linalg.eigh(covariance)
    root = (vectors * np.sqrt(np.maximum(eigenvalues, 0.0))) @ vectors.T
    cross = np.sqrt(np.maximum(np.linalg.eigvalsh(root @ other_covariance @ root), 0.0)).sum()
    apart = float(((mean - other_mean) ** 2).sum())
    return max(0.0, apart + float(np.trace(covariance) + np.trace(other_covariance) - 2 * cross))


@dataclass(frozen=True)
class PrecisionRecall:
    """Fidelity and coverage."""

    precision: float
    """The share of drawn images that lie where real ones lie."""
    recall: float
    """The share of real images that lie where drawn ones lie."""


def precision_recall(real: Features, drawn: Features, neighbours: int = 3) -> PrecisionRecall:
    """Improved precision and recall (Kynkäänniemi et al. 2019).

    A set covers what lies within any of its points' distance to the `neighbours`-th nearest other point of the set;
    precision is the share of drawn points that the real ones cover, recall the share of real points that the drawn ones
    cover.
    """
    return PrecisionRecall(_covered(drawn, real, neighbours), _covered(real, drawn, neighbours))


def _covered(points: Features, cover: Features, neighbours: int) -> float:
    radii = np.concatenate([np.sort(rows, axis=1)[:, neighbours] for rows in _distances(cover, cover)])  # 0th: itself
    return float(np.concatenate([(rows <= radii).any(1) for rows in _distances(points, cover)]).mean())


def nearest(points: Features, others: Features | None = None) -> NDArray[np.float64]:
    """How far each point is from the nearest of `others`; without them, from the nearest other one of the points."""
    place = 0 if others is not None else 1  # the 0th of its own is the point itself
    squares = _distances(points, points if others is None else others)
    return np.sqrt(np.concatenate([np.partition(rows, place, axis=1)[:, place] for rows in squares]))


def _distances(points: Features, others: Features) -> list[NDArray[np.float64]]:
    """Squared distances, [some points, others] at a time."""
    exact = others.astype(np.float64)
    lengths = (exact**2).sum(1)
    distances = []
    for first in range(0, len(points), AT_ONCE):
        some = points[first : first + AT_ONCE].astype(np.float64)
        distances.append(np.maximum((some**2).sum(1)[:, None] + lengths - 2 * some @ exact.T, 0.0))
    return distances


def classifier_score(log_probs: NDArray[np.floating]) -> float:
    """exp E_x KL(p(y|x) ‖ p(y)), from 1 to the number of classes: high when the class of every image is clear and all
    classes are drawn alike. The formula of the Inception score (Salimans et al. 2016), of any classifier.
    """
    log_probs = log_probs.astype(np.float64)
    probs = np.exp(log_probs)
    divergences = (probs * (log_probs - np.log(probs.mean(0)))).sum(1)
    return float(np.exp(divergences.mean()))


def class_counts(log_probs: NDArray[np.floating]) -> NDArray[np.int64]:
    """How many images a classifier takes for each class, [classes]."""
    return np.bincount(log_probs.argmax(1), minlength=log_probs.shape[1])
