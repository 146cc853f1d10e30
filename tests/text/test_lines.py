"""Lines that belong together: joined as their script wants it, and told from lines that end for a reason."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable
from itertools import islice
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.corpora import natural_unit, resolve, wrapping
from seqloom.data.corpus import Corpus
from seqloom.data.pairs import PairCorpus
from seqloom.text.lines import Wrapping, joined
from seqloom.text.reading import read_lines

NOVEL = [" ".join(paragraph.split()) for paragraph in Corpus.open("time-machine")]
POEMS = list(islice(Corpus.open("tang-poems"), 300))


def wrapped(paragraphs: Iterable[str], width: int) -> list[str]:
    return [line for paragraph in paragraphs for line in [*textwrap.wrap(paragraph, width, break_on_hyphens=False), ""]]


def sentences(text: str) -> list[str]:
    return re.split(r"(?<=[.!?。！？]) *", text)


# ------------------------------------------------------------------------------------------------------------ joining


@given(st.lists(st.text("abc ,.é", min_size=1).map(str.strip).filter(bool)))
def test_words_are_joined_by_spaces(lines: list[str]) -> None:
    assert joined(lines) == " ".join(lines)


@given(st.text("我你，。「」あア", min_size=1), st.integers(1, 5))
def test_ideographs_are_joined_by_nothing(text: str, width: int) -> None:
    assert joined(text[start : start + width] for start in range(0, len(text), width)) == text


@pytest.mark.parametrize(
    ("first", "second", "space"),
    [
        ("他说：", "“好”", ""),
        ("“好”", "他说", ""),
        ("学习", "Python", " "),
        ("Python", "语言", " "),
        ("안녕", "하세요", " "),
    ],
)
def test_between_scripts_a_word_keeps_its_space_and_a_mark_has_none(first: str, second: str, space: str) -> None:
    assert joined([first, second]) == first + space + second


# ----------------------------------------------------------------------------------------------------------- wrapping


@pytest.mark.parametrize("width", [48, 60, 72, 100])
def test_a_wrapped_novel_is_noticed_and_read_as_it_was_before(width: int, tmp_path: Path) -> None:
    lines = wrapped(NOVEL, width)
    found = Wrapping.of(lines)
    assert found is not None
    assert width - 4 <= found.width <= width
    path = tmp_path / "novel.txt"
    path.write_text("\r\n".join(lines), encoding="utf-8")
    assert [" ".join(text.split()) for text in Corpus.open(str(path))] == NOVEL


def test_the_bundled_novel_was_wrapped_and_so_was_chinese_at_a_width(tmp_path: Path) -> None:
    copy = tmp_path / "copy.txt"
    copy.write_text("\n".join(read_lines(resolve("time-machine"))), encoding="utf-8")
    assert natural_unit([copy]) == natural_unit([resolve("time-machine")]) == "paragraph"
    chapters = ["".join(POEMS[start : start + 10]) for start in range(0, 100, 10)]
    lines = [line for text in chapters for line in [*(text[at : at + 35] for at in range(0, len(text), 35)), ""]]
    assert Wrapping.of(lines) == Wrapping(70, True)
    (tmp_path / "zh.txt").write_text("\n".join(lines), encoding="utf-8")
    assert list(Corpus.open(str(tmp_path / "zh.txt"))) == chapters


def test_without_blank_lines_there_are_no_paragraphs_to_read(tmp_path: Path) -> None:
    path = tmp_path / "novel.txt"
    path.write_text("\n".join(line for line in wrapped(NOVEL, 70) if line), encoding="utf-8")
    found = wrapping(path)
    assert found is not None
    assert not found.in_paragraphs
    assert natural_unit([path]) == "line"
    assert "data.unit=file" in str(Corpus.open(str(path)).remark)


def test_files_of_which_one_is_not_wrapped_are_read_by_lines(tmp_path: Path) -> None:
    broken, whole = tmp_path / "broken.txt", tmp_path / "whole.txt"
    broken.write_text("\n".join(wrapped(NOVEL, 70)), encoding="utf-8")
    whole.write_text("\n\n".join(NOVEL), encoding="utf-8")
    assert natural_unit([broken]) == "paragraph"
    assert natural_unit([broken, whole]) == "line"
    assert "data.unit=paragraph" in str(Corpus.open([str(broken), str(whole)]).remark)


def with_pauses(lines: Iterable[str], every: int = 8) -> list[str]:
    """Lines with a blank one after every few, as between documents."""
    return [each for number, line in enumerate(lines) for each in ([line, ""] if number % every == 7 else [line])]


@pytest.mark.parametrize(
    "lines",
    [
        pytest.param(list(read_lines(resolve("shakespeare")))[:5000], id="plays in verse"),
        pytest.param(with_pauses(Corpus.open("tatoeba-en")), id="a sentence per line"),
        pytest.param([line for text in NOVEL for line in [*sentences(text), ""]], id="a novel, a sentence per line"),
        pytest.param([line.rstrip(".!?") for line in with_pauses(Corpus.open("tatoeba-en"))], id="no full stops"),
        pytest.param([each for text in NOVEL for each in (text, "")], id="a paragraph per line"),
        pytest.param(NOVEL, id="a paragraph per line, no blank ones"),
        pytest.param(with_pauses(pair.source for pair in PairCorpus.open("tatoeba-en-zh")), id="short lines"),
        pytest.param(with_pauses(pair.targets[0] for pair in PairCorpus.open("tatoeba-en-zh")), id="Chinese sentences"),
        pytest.param(with_pauses(p.source for p in PairCorpus.open_conversations("chitchat", 1)), id="dialogue"),
        pytest.param([line for poem in POEMS for line in [*sentences(poem), ""]], id="Chinese couplets"),
        pytest.param([POEMS[0][:24], POEMS[0][24:48], ""] * 50, id="Chinese verse of one width"),
        pytest.param(["word\tN"] * 500, id="a table"),
        pytest.param([], id="nothing"),
    ],
)
def test_lines_that_end_for_a_reason_are_left_alone(lines: list[str]) -> None:
    assert Wrapping.of(lines[:5000]) is None
