"""The page of attention heat maps."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from outline import Outline, assert_self_contained

from seqloom.errors import DataError
from seqloom.reports.attention import AttentionMap, write_attention

MAP = AttentionMap(
    source=["the", "dog", "barks"],
    target=["der", "Hund", "bellt", "."],
    weights=np.array([[0.9, 0.1, 0.0], [0.2, 0.75, 0.05], [0.001, 0.019, 0.98], [0.0, 0.0, 0.0]]),
    log_prob=-2.5,
    source_text="The dog barks.",
    target_text="Der Hund bellt.",
)


class HeatMaps(HTMLParser):
    """Reads back the maps of a page: `rows[map][row]` holds the attributes of its cells, the words not counted."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[list[dict[str, str | None]]]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.rows.append([])
        elif tag == "tr":
            self.rows[-1].append([])
        elif tag == "td":
            self.rows[-1][-1].append(dict(attrs))


def written(tmp_path: Path, *maps: AttentionMap, title: str = "Attention") -> str:
    write_attention(tmp_path / "attention.html", maps, title)
    return (tmp_path / "attention.html").read_text(encoding="utf-8")


def cells(text: str, index: int = 0) -> list[list[dict[str, str | None]]]:
    _words, *rows = HeatMaps(text).rows[index]
    return rows


def evenly(source: list[str], target: list[str]) -> AttentionMap:
    return AttentionMap(source, target, np.full((len(target), len(source)), 1 / len(source), dtype=np.float32))


def test_words_read_stand_along_the_top_and_words_written_down_the_side(tmp_path: Path):
    (table,) = Outline(written(tmp_path, MAP)).tables
    assert table[0] == ["", *MAP.source]
    assert [row[0] for row in table[1:]] == MAP.target


def test_a_cell_is_as_strong_as_its_weight_and_tells_it(tmp_path: Path):
    rows = cells(written(tmp_path, MAP))
    for row, weights, target in zip(rows, MAP.weights, MAP.target, strict=True):
        for cell, weight, source in zip(row, weights, MAP.source, strict=True):
            if weight < 0.005:
                assert not cell
            else:
                assert float((cell["style"] or "").removeprefix("--w:")) == pytest.approx(weight, abs=0.005)
                title = (cell["title"] or "").replace("\N{LEFT-TO-RIGHT MARK}", "")
                assert title == f"{weight:.2f}  {source} → {target}"


def test_a_weight_of_one_is_the_full_colour(tmp_path: Path):
    ((cell,),) = cells(written(tmp_path, evenly(["one"], ["eins"])))
    assert cell["style"] == "--w:1.00"


def test_the_strongest_cell_of_each_row_is_marked_and_none_in_a_row_of_nothing(tmp_path: Path):
    marked = [[cell.get("class") == "most" for cell in row] for row in cells(written(tmp_path, MAP))]
    assert marked == [[True, False, False], [False, True, False], [False, False, True], [False] * 3]


def test_both_sentences_and_the_score_stand_above_the_map(tmp_path: Path):
    text = written(tmp_path, MAP)
    assert "The dog barks." in text[: text.index("<table")]
    assert "Der Hund bellt." in text[: text.index("<table")]
    assert "log-probability -2.50, -0.625 per token" in text


def test_without_texts_the_tokens_are_the_sentence_and_no_score_is_invented(tmp_path: Path):
    text = written(tmp_path, evenly(["a", "b"], ["c", "d"]))
    assert ">a b</p>" in text
    assert ">c d</p>" in text
    assert "log-probability" not in text


def test_the_page_needs_nothing_from_outside(tmp_path: Path):
    assert_self_contained(written(tmp_path, MAP))


tokens = st.lists(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), min_size=1, max_size=5), min_size=1, max_size=4
)


@settings(max_examples=30, deadline=None)
@given(source=tokens, target=tokens)
def test_whatever_the_tokens_are_they_are_shown_as_they_are(
    tmp_path_factory: pytest.TempPathFactory, source: list[str], target: list[str]
):
    text = written(tmp_path_factory.mktemp("page"), evenly(source, target))
    (table,) = Outline(text).tables
    assert table[0][1:] == source
    assert [row[0] for row in table[1:]] == target


def test_markup_quotes_and_titles_do_not_break_out(tmp_path: Path):
    evil = '"></td><script>alert("x")</script>'
    shown = AttentionMap([evil], [evil], np.ones((1, 1)), source_text=evil, target_text=evil)
    text = written(tmp_path, shown, title=evil)
    assert "<script>alert" not in text
    assert sum(tag == "script" for tag, _ in Outline(text).tags) == 1
    assert cells(text)[0][0]["title"] == f"1.00  {evil} \N{LEFT-TO-RIGHT MARK}→ {evil}"


def test_latin_words_along_the_top_are_turned_and_chinese_stays_upright(tmp_path: Path):
    text = written(tmp_path, evenly(["dog", "狗", "T恤", "كلب"], ["x"]))
    turned = {"dog": "up", "狗": "down", "T恤": "down", "كلب": "up"}
    for word, direction in turned.items():
        assert f'<span class="{direction}">{word}</span>' in text


def test_words_written_from_the_right_keep_their_direction(tmp_path: Path):
    text = written(tmp_path, evenly(["שלום", "עולם"], ["مرحبا"]))
    assert '<p dir="auto">שלום עולם</p>' in text
    assert '<span dir="auto">مرحبا</span>' in text


def test_a_hundred_maps_stay_light(tmp_path: Path):
    random = np.random.default_rng(0)
    source, target = [f"source{n}" for n in range(14)], [f"target{n}" for n in range(14)]
    maps = [AttentionMap(source, target, random.dirichlet([0.3] * 14, size=14)) for _ in range(100)]
    text = written(tmp_path, *maps)
    assert len(HeatMaps(text).rows) == 100
    assert len(text) < 1_500_000


def test_half_precision_may_add_up_to_a_little_more_than_one(tmp_path: Path):
    weights = np.full((1, 7), 1 / 7).astype(np.float16)
    assert "0.14" in written(tmp_path, AttentionMap(list("abcdefg"), ["x"], weights))


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (np.zeros((3, 2)), r"weights are \[3, 2\].*\[2, 3\]"),
        (np.zeros(6), r"weights are \[6\]"),
        (np.full((2, 3), 0.5), "add up to 1"),
        (np.full((2, 3), -0.1), "not negative"),
        (np.full((2, 3), math.nan), "not negative"),
    ],
)
def test_weights_that_cannot_be_attention_are_refused(weights: np.ndarray, message: str):
    with pytest.raises(ValueError, match=message):
        AttentionMap(["a", "b", "c"], ["d", "e"], weights)


def test_an_empty_output_has_a_map_without_rows(tmp_path: Path):
    assert cells(written(tmp_path, AttentionMap(["a"], [], np.zeros((0, 1)), log_prob=-1.0))) == []


def test_no_map_at_all_is_refused_and_nothing_is_written(tmp_path: Path):
    with pytest.raises(DataError, match="no attention to draw"):
        write_attention(tmp_path / "attention.html", [], "Attention")
    assert not list(tmp_path.iterdir())
