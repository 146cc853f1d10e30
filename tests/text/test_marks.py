"""Texts with marks between their words."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.errors import DataError
from seqloom.text.characters import CharacterTokenizer
from seqloom.text.kinds import load_tokenizer
from seqloom.text.marks import MarkedTokenizer
from seqloom.text.subwords import BpeTokenizer, UnigramTokenizer
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.words import WordTokenizer

TEXT = ["the cat sat on the mat.", "the dog saw the cat, and the cat saw the dog."] * 5
MARKS = ["[MASK]", "<gap_1>", "<gap_10>"]
INNER = [
    BpeTokenizer.train(TEXT, max_size=300),
    UnigramTokenizer.train(TEXT, max_size=60),
    WordTokenizer.train(TEXT),
    CharacterTokenizer.train(TEXT),
]


@pytest.fixture(params=INNER, ids=lambda inner: inner.kind)
def marked(request: pytest.FixtureRequest) -> MarkedTokenizer:
    return MarkedTokenizer(request.param, MARKS)


def test_a_mark_is_one_token_after_all_others(marked: MarkedTokenizer) -> None:
    ids = marked.encode("the cat [MASK] on<gap_10> the mat")
    assert marked.size == marked.inner.size + 3
    assert [id for id in ids if id >= marked.inner.size] == [marked.mark("[MASK]"), marked.mark("<gap_10>")]
    assert marked.decode(ids) == "the cat [MASK] on <gap_10> the mat"


def test_many_texts_are_read_as_each_of_them_is(marked: MarkedTokenizer) -> None:
    texts = ["the cat", "the [MASK] sat", "", "<gap_10>", "on the mat."]
    assert [ids.tolist() for ids in marked.encode_batch(texts)] == [marked.encode(text) for text in texts]


@pytest.mark.parametrize("text", ["the cat sat on.", "the cat, and a dog", "cat sat"])
def test_words_beside_a_mark_have_the_ids_that_they_have_elsewhere(marked: MarkedTokenizer, text: str) -> None:
    word = "cat" if text.startswith("cat") or marked.inner.kind == "characters" else " cat"
    before = marked.inner.encode(text[: text.index(word)]) if text.index(word) else []
    after = marked.inner.encode(text)[len(before) + len(marked.inner.encode("cat")) :]
    assert marked.encode(text.replace("cat", "[MASK]")) == [*before, marked.mark("[MASK]"), *after]


@given(st.sampled_from(INNER), st.sampled_from(TEXT))
def test_text_without_marks_is_read_and_written_as_ever(inner: Tokenizer, text: str) -> None:
    marked = MarkedTokenizer(inner, MARKS)
    assert marked.encode(text) == inner.encode(text)
    assert marked.decode(marked.encode(text)) == inner.decode(inner.encode(text))
    assert marked.pieces(text) == inner.pieces(text)


def test_pieces_stand_for_ids(marked: MarkedTokenizer) -> None:
    text = "[MASK] cat <gap_1><gap_1> sat [MASK]"
    pieces = marked.pieces(text)
    assert len(pieces) == len(marked.encode(text))
    assert [piece for piece in pieces if piece in MARKS] == ["[MASK]", "<gap_1>", "<gap_1>", "[MASK]"]


def test_it_comes_back_from_its_file(marked: MarkedTokenizer, tmp_path: Path) -> None:
    marked.save(tmp_path / "tokenizer.json")
    back = load_tokenizer(tmp_path / "tokenizer.json")
    assert back.encode("the [MASK] sat") == marked.encode("the [MASK] sat")


@pytest.mark.parametrize("damage", [{"marks": []}, {"marks": ["a", "a"]}, {"marks": [" a"]}, {"inner": {"kind": "x"}}])
def test_a_damaged_file_is_refused(damage: dict[str, object], tmp_path: Path) -> None:
    path = tmp_path / "tokenizer.json"
    path.write_text(json.dumps(MarkedTokenizer(INNER[2], MARKS).to_json() | damage), encoding="utf-8")
    with pytest.raises(DataError, match=str(path)):
        load_tokenizer(path)
