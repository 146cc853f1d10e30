"""The benchmark of word vectors reads a text once for both sides and tells speeds and scores."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("gensim")

from benchmarks.words import WordSizes, read_words, run_words

from seqloom.text.special import EOS, UNK

TEXT = "The king saw the queen.\n\nA queen, the King!\nAn apple.\n\n" * 40


@pytest.fixture
def text(tmp_path: Path) -> Path:
    path = tmp_path / "text.txt"
    path.write_text(TEXT + "once\n")
    return path


def test_a_line_is_a_sentence_of_lower_case_words(text: Path) -> None:
    found = read_words(text)
    assert found.sentences[:3] == [
        ["the", "king", "saw", "the", "queen"],
        ["a", "queen", "the", "king"],
        ["an", "apple"],
    ]
    assert found.sentences[-1] == ["once"]
    assert found.tokens[-2:].tolist() == [UNK, EOS]
    assert found.count == len(found.tokens) - len(found.sentences)


def test_gensim_is_given_no_sentence_that_it_would_cut(tmp_path: Path) -> None:
    (tmp_path / "long.txt").write_text("word " * 25_000)
    assert [len(sentence) for sentence in read_words(tmp_path / "long.txt").sentences] == [10_000, 10_000, 5_000]


def test_both_sides_have_a_row(text: Path, tmp_path: Path) -> None:
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("king\tqueen\t9\nking\tapple\t1\nsaw\tapple\t2\n")
    tables = list(run_words(text, [pairs], [], WordSizes(threads=1, passes=(1,), seeds=(1, 2)), lambda _: None))
    assert [table.title for table in tables] == [
        "skip-gram, negative-sampling",
        "cbow, negative-sampling",
        "skip-gram, tree",
    ]
    for table, own in zip(tables, ([], ["gensim, rate 0.25"], []), strict=True):
        assert [row[1] for row in table.rows] == ["seqloom", "gensim", *own]
        assert all("±" in row[-1] for row in table.rows)
