"""The map of words: neighbours stay neighbours, names do not lie on each other, the same vectors give the same map."""

from __future__ import annotations

import numpy as np

from seqloom.models.word_vectors import WordVectors
from seqloom.reports import word_map_section, words_picture
from seqloom.reports.word_map import PERPLEXITY, affinities, project, readable, squared_distances


def clusters(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    label = np.repeat(np.arange(4), 20)
    return random.normal(0, 1, (4, 10))[label] * 3 + random.normal(0, 0.5, (80, 10)), label


def test_what_is_near_stays_near() -> None:
    points, label = clusters()
    places = project(points)
    nearest = np.argsort(squared_distances(places) + np.diag(np.full(80, np.inf)), axis=1)[:, :5]
    assert (label[nearest] == label[:, None]).mean() > 0.98


def test_every_point_has_as_many_neighbours_as_asked_for() -> None:
    points, _ = clusters()
    shares = affinities(points)
    assert np.isclose(shares.sum(), 1.0)
    np.testing.assert_allclose(shares, shares.T)
    rows = shares / shares.sum(1, keepdims=True)
    perplexity = np.exp(-(rows * np.log(np.maximum(rows, 1e-300))).sum(1))
    assert abs(np.median(perplexity) - PERPLEXITY) < 3  # of the symmetrised shares, near that of each point


def test_the_same_vectors_give_the_same_map() -> None:
    points, _ = clusters()
    np.testing.assert_array_equal(project(points, 50), project(points, 50))


def test_names_that_would_touch_are_left_out() -> None:
    points = np.array([[0.0, 0.0], [1.0, 1.0], [500.0, 0.0]])
    assert readable(points, ["first", "second", "third"]).tolist() == [True, False, True]


def test_the_picture_names_the_words() -> None:
    points, _ = clusters()
    vectors = WordVectors([f"word{number}" for number in range(80)], points.astype(np.float32))
    section = word_map_section(vectors, vectors.words[:30])
    assert "word0" in section
    assert "30 frequent words" in section


def test_few_words_are_nothing_to_show() -> None:
    vectors = WordVectors(["a", "b"], np.eye(2, dtype=np.float32))
    (text,) = words_picture(vectors, ["a", "b"]).axes[0].texts
    assert "Nothing to show" in text.get_text()
