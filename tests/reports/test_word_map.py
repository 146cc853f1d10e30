"""The map of words: neighbours stay neighbours, names do not lie on each other, the same vectors give the same map."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from sklearn.decomposition import PCA

from seqloom.models.word_vectors import WordVectors
from seqloom.reports.html import page, writable
from seqloom.reports.style import save
from seqloom.reports.word_map import word_map_section, words_picture
from seqloom.reports.word_places import project, readable, spread


def clusters(seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    random = np.random.default_rng(seed)
    label = np.repeat(np.arange(4), 20)
    return random.normal(0, 1, (4, 10))[label] * 3 + random.normal(0, 0.5, (80, 10)), label


def test_the_map_shows_the_two_main_components() -> None:
    points, _ = clusters()
    expected = PCA(2, svd_solver="full").fit_transform(points)
    np.testing.assert_allclose(np.abs(project(points)), np.abs(expected), atol=1e-9)


def test_what_is_near_stays_near() -> None:
    points, label = clusters()
    places = spread(project(points))
    distances = np.linalg.norm(places[:, None] - places[None], axis=2) + np.diag(np.full(80, np.inf))
    nearest = np.argsort(distances, axis=1)[:, :5]
    assert (label[nearest] == label[:, None]).mean() > 0.9


def test_the_order_of_dimensions_does_not_turn_the_map_over() -> None:
    points, _ = clusters()
    np.testing.assert_allclose(project(points), project(points[:, ::-1]), atol=1e-9)


def test_vectors_of_one_number_lie_on_a_line() -> None:
    places = project(np.array([[1.0], [3.0], [2.0]]))
    np.testing.assert_allclose(places, [[-1.0, 0.0], [1.0, 0.0], [0.0, 0.0]], atol=1e-12)


def test_words_are_spread_evenly_in_their_order() -> None:
    assert spread(np.array([[0.0, 5.0], [0.1, -5.0], [9.0, 0.0]])).tolist() == [[0.0, 2.0], [1.0, 0.0], [2.0, 1.0]]


def test_names_that_would_touch_are_left_out() -> None:
    points = np.array([[0.0, 0.0], [1.0, 1.0], [500.0, 0.0]])
    assert readable(points, ["first", "second", "third"]).tolist() == [True, False, True]


def test_chinese_characters_are_wider_than_letters() -> None:
    points = np.array([[0.0, 0.0], [22.0, 0.0]])
    assert readable(points, ["two", "two"]).all()
    assert not readable(points, ["三个字", "三个字"]).all()


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


@pytest.mark.parametrize("word", ["$x^$", "$$", r"$\frac$", "a\x00b", "\ud800", "\ufffe", "שלום"])
def test_a_word_of_any_signs_is_drawn_as_a_word(word: str, tmp_path: Path) -> None:
    words = [word, *"bcdef"]
    save(words_picture(WordVectors(words, np.eye(6, dtype=np.float32)), words), tmp_path / "map.svg")
    drawn = ElementTree.parse(tmp_path / "map.svg").iter("{http://www.w3.org/2000/svg}text")
    assert writable(word) in {text.text for text in drawn}


@pytest.mark.parametrize("word", ["<script>", "]]>", "$title"])
def test_a_word_stays_a_word_in_a_page(word: str) -> None:
    words = [word, *"bcdef"]
    text = page(word, word_map_section(WordVectors(words, np.eye(6, dtype=np.float32)), words), word)
    escaped = word.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    assert text.count(escaped) == 4  # title, heading, picture and paragraph
    assert text.count("<script>") == 1  # the page's own


def test_what_utf8_does_not_have_is_left_out_of_a_page() -> None:
    text = page("t", "lone \ud800 and \x00\x1b")
    assert "lone � and ��" in text
    text.encode()
