"""Reading words with tags and texts with labels; what is wrong is named by file and line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from seqloom.data.corpora import find
from seqloom.data.labelled import LabelledText, TaggedSentence, hold_out, read_labelled, read_tagged
from seqloom.errors import DataError

COLUMNS = "-DOCSTART- -X- O\n\nConfidence NN B-NP\nin IN B-PP\n\n\nthe DT B-NP\n"


def written(path: Path, content: str) -> str:
    path.write_text(content, encoding="utf-8")
    return str(path)


def test_columns_become_sentences(tmp_path: Path) -> None:
    name = written(tmp_path / "a.txt", COLUMNS)
    assert read_tagged(name) == [
        TaggedSentence(["Confidence", "in"], ["B-NP", "B-PP"]),
        TaggedSentence(["the"], ["B-NP"]),
    ]
    assert read_tagged(name, tag_column=1)[1] == TaggedSentence(["the"], ["DT"])
    packed = tmp_path / "b.txt.gz"
    packed.write_bytes(gzip.compress(COLUMNS.encode()))
    assert read_tagged([name, str(packed)]) == 2 * read_tagged(name)


def test_columns_between_tabs_may_hold_spaces(tmp_path: Path) -> None:
    name = written(tmp_path / "a.tsv", "New York\tPLACE\nis\tO\n")
    assert read_tagged(name) == [TaggedSentence(["New York", "is"], ["PLACE", "O"])]


@pytest.mark.parametrize(
    ("content", "column", "message"),
    [
        ("a O\nb\n", -1, "line 2: one column only"),
        ("a O\nb O\n", 2, r"line 1: there is no column 2 among 2; set data\.tag_column"),
        ("a\tO\n\tO\n", -1, "line 2: the word is empty"),
        ("\n\n", -1, "there are no words with tags"),
    ],
)
def test_what_is_wrong_with_columns_is_said(tmp_path: Path, content: str, column: int, message: str) -> None:
    name = written(tmp_path / "bad.txt", content)
    with pytest.raises(DataError, match=message) as raised:
        read_tagged(name, tag_column=column)
    assert name in str(raised.value)


def test_labels_come_from_tables_records_and_folders(tmp_path: Path) -> None:
    expected = [LabelledText("good film", "pos"), LabelledText("bad film", "neg")]
    assert read_labelled(written(tmp_path / "a.tsv", "pos\tgood film\n\nneg\tbad film\n")) == expected
    records = [{"stars": label, "review": text} for text, label in expected]
    lines = "\n".join(map(json.dumps, records))
    assert read_labelled(written(tmp_path / "a.jsonl", lines), "stars", "review") == expected
    lines = json.dumps({"label": "pos", "text": ["good", "film"]})
    assert read_labelled(written(tmp_path / "lines.jsonl", lines)) == expected[:1]
    folder = tmp_path / "classes"
    folder.mkdir()
    written(folder / "pos.txt", "good film\n")
    (folder / "neg.gz").write_bytes(gzip.compress(b"bad film\n"))
    assert sorted(read_labelled(str(folder))) == sorted(expected)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.tsv", "pos\tgood\nbad film\n", "line 2: no tab"),
        ("a.tsv", "pos\tgood\n\tbad film\n", "line 2: no label"),
        ("a.tsv", "pos\tgood\nneg\t \n", "line 2: no text"),
        ("a.jsonl", '{"label": "a", "txt": "b"}', r"line 1: the record has no key 'text' .*data\.text_field"),
        ("a.jsonl", '{"label": null, "text": "b"}', "line 1: the value of 'label' is no label"),
        ("a.jsonl", "[1]", "line 1: a record must be an object"),
        ("a.tsv", "\n", "there are no texts with labels"),
    ],
)
def test_what_is_wrong_with_labels_is_said(tmp_path: Path, name: str, content: str, message: str) -> None:
    with pytest.raises(DataError, match=message):
        read_labelled(written(tmp_path / name, content))


def test_a_folder_of_one_class_is_refused(tmp_path: Path) -> None:
    written(tmp_path / "pos.txt", "good\n")
    with pytest.raises(DataError, match="two labels or more"):
        read_labelled(str(tmp_path))


def test_equal_texts_stand_on_one_side_of_what_is_held_out() -> None:
    texts = [LabelledText(f"text {number % 50}", "ab"[number // 50 % 2]) for number in range(200)]
    train, valid = hold_out(texts, 0.2)
    assert sorted(train + valid) == sorted(texts)
    assert not {text.text for text in train} & {text.text for text in valid}
    assert {text.label for text in valid} == {"a", "b"}
    with pytest.raises(DataError, match=r"data\.valid"):
        hold_out(texts[:1], 0.2)


def test_no_sentence_of_a_bundled_corpus_stands_in_two_parts() -> None:
    parts = [{text.text for text in read_labelled(f"sentence-polarity:{part}")} for part in ("train", "valid", "test")]
    assert len(set.union(*parts)) == sum(map(len, parts))
    tagged = [read_tagged(f"punctuation:{part}") for part in ("train", "valid", "test")]
    assert {tag for sentence in tagged[0] for tag in sentence.tags} >= {"O", "COMMA", "PERIOD", "QUESTION"}
    assert find("punctuation").kind == "tagged"
