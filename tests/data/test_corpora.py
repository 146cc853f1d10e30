"""The bundled corpora: there, whole, and found by name."""

from __future__ import annotations

import collections
import gzip
import itertools
import json
import os
import re
import runpy
from pathlib import Path
from typing import Any

import pytest

from seqloom.data.captions import load_captions
from seqloom.data.corpora import BundledCorpus, bundled, find, resolve
from seqloom.data.corpus import Corpus
from seqloom.data.images import load_images
from seqloom.data.labelled import read_labelled
from seqloom.data.pairs import PairCorpus
from seqloom.errors import DataError

NAMES = [corpus.name for corpus in bundled()]
ROOT = Path(__file__).parents[2]


def unpacked(spec: str) -> str:
    return gzip.decompress(resolve(spec).read_bytes()).decode()


def without_braces(pattern: str) -> list[str]:
    """All that a shell makes of a pattern such as `a.{b,c}`."""
    found = re.search(r"\{([^}]*)\}", pattern)
    if not found:
        return [pattern]
    choices = (pattern[: found.start()] + choice + pattern[found.end() :] for choice in found[1].split(","))
    return [name for choice in choices for name in without_braces(choice)]


def pairs(name: str) -> dict[str, list[list[str]]]:
    """The columns of every line, by parts."""
    return {part: [line.split("\t") for line in unpacked(f"{name}:{part}").splitlines()] for part in find(name).files}


@pytest.mark.parametrize("corpus", bundled(), ids=NAMES)
def test_every_part_is_a_gzip_file_that_says_nothing_of_when_it_was_made(corpus: BundledCorpus):
    for part in corpus.files:
        header = corpus.path(part).read_bytes()[:8]
        assert header[:2] == b"\x1f\x8b"
        assert header[3] == 0  # no file name
        assert header[4:8] == bytes(4)  # no time


def test_every_bundled_file_is_described_in_the_notices():
    folder = find("digits").path().parent
    notices = (folder / "NOTICES.md").read_text(encoding="utf-8")
    headings = re.findall(r"^## (\S+)$", notices, re.MULTILINE)
    described = {name for heading in headings for name in without_braces(heading)}
    assert described == {path.name for path in folder.iterdir()} - {"NOTICES.md", "corpora.yaml"}


def test_bundled_files_stay_small():
    folder = find("digits").path().parent
    assert sum(path.stat().st_size for path in folder.iterdir()) < 10_000_000


def test_texts_are_the_ones_they_say_they_are():
    novel = unpacked("time-machine")
    assert novel.startswith("The Time Machine, by H. G. Wells")
    assert len(novel.split()) == 32_306
    plays = unpacked("shakespeare")
    assert plays.startswith("First Citizen:\n")
    assert len(plays) == 1_115_394
    assert len(set(plays)) == 65  # the well-known size of its character vocabulary


def test_poems_are_records_with_text_title_and_author():
    records = [json.loads(line) for line in unpacked("tang-poems").splitlines()]
    assert len(records) == 5761
    assert all(record.keys() == {"text", "title", "author"} and record["text"] for record in records)
    assert records[0]["text"].startswith("秦川雄帝宅，函谷壯皇居。")


def test_english_sentences_are_those_of_the_pairs_each_once_and_with_its_author():
    for part in find("tatoeba-en").files:
        records = [json.loads(line) for line in unpacked(f"tatoeba-en:{part}").splitlines()]
        sentences = [record["text"] for record in records]
        assert len(set(sentences)) == len(sentences)
        assert set(sentences) == {columns[0] for columns in pairs("tatoeba-en-zh")[part]}
        assert all(re.fullmatch(r"tatoeba\.org #\d+ \(.+\)", record["credit"]) for record in records)


def test_no_english_sentence_stands_in_two_parts():
    parts = {part: unpacked(f"tatoeba-en-zh:{part}").splitlines() for part in ("train", "valid", "test")}
    english = {part: {line.split("\t")[0] for line in lines} for part, lines in parts.items()}
    assert sum(map(len, parts.values())) == 29_155
    assert sum(map(len, english.values())) == len(set().union(*english.values())) == 27_661
    assert len(parts["valid"]) > 1000
    assert len(parts["test"]) > 1000


def test_every_pair_keeps_its_credit():
    for part in ("train", "valid", "test"):
        for line in unpacked(f"tatoeba-en-zh:{part}").splitlines():
            english, chinese, credit = line.split("\t")
            assert english
            assert chinese
            assert "tatoeba.org" in credit


def records(name: str) -> dict[str, list[dict[str, Any]]]:
    parts = ("train", "valid", "test")
    return {part: [json.loads(line) for line in unpacked(f"{name}:{part}").splitlines()] for part in parts}


def letters(text: str) -> str:
    return " ".join(re.findall("[a-z]+", text.lower()))


def test_no_summary_or_service_stands_in_two_parts():
    parts = records("operations")
    assert {part: len(found) for part, found in parts.items()} == {"train": 15_135, "valid": 738, "test": 1566}
    every = [record for found in parts.values() for record in found]
    assert len({letters(record["target"]) for record in every}) == len(every)
    services = {part: {record["service"] for record in found} for part, found in parts.items()}
    assert sum(map(len, services.values())) == len(set().union(*services.values())) == 426


def test_descriptions_of_operations_are_plain():
    for record in (record for found in records("operations").values() for record in found):
        assert 4 <= len(record["target"].split()) <= 24
        assert not re.search(r"</|&\w+;|://|\n|\t", record["source"] + record["target"]), record


def test_conversations_have_turns_of_usual_words_and_no_reply_twice_in_two_parts():
    parts = {part: [record["turns"] for record in found] for part, found in records("chitchat").items()}
    counts = {part: (len(found), sum(map(len, found))) for part, found in parts.items()}
    assert counts == {"train": (10_412, 53_523), "valid": (655, 3419), "test": (589, 3044)}
    every = [turn for found in parts.values() for turns in found for turn in turns]
    assert max(len(turn.split()) for turn in every) <= 24
    assert not any(re.search(r"\d{3}|[@#/_|]", turn) for turn in every)  # no numbers to call, no addresses
    pairs = {
        part: {(letters(turn), letters(reply)) for turns in found for turn, reply in itertools.pairwise(turns)}
        for part, found in parts.items()
    }
    assert not pairs["train"] & (pairs["valid"] | pairs["test"])


def script() -> dict[str, Any]:
    return runpy.run_path(str(ROOT / "scripts" / "make_bundled_data.py"))


def test_an_operation_becomes_what_it_takes_and_gives_and_a_sentence():
    shapes = {"In": {"members": {"TableName": {}, "DryRun": {}}}, "Out": {"members": {"TableARN": {}}}}
    text = "<p>Deletes a <code>Table</code> &amp; all in it .</p><note><p>Slow.</p></note><p>It is gone. See https://a.org.</p>"
    operation = {"name": "DeleteTable2", "documentation": text, "input": {"shape": "In"}, "output": {"shape": "Out"}}
    source = "delete table 2; takes table name, dry run; gives table arn. It is gone."
    assert script()["in_short"](operation, shapes) == (source, "Deletes a Table & all in it.")
    assert script()["in_short"](operation | {"deprecated": True}, shapes) == ("", "")
    assert script()["in_short"]({"name": "Ping", "documentation": "<p>Pings.</p>"}, shapes) == ("", "")


def test_a_chat_is_tidied_and_cut_where_a_reply_is_known():
    found = script()
    messages = [{"text": "im good :)  hahahaha"}, {"text": "what do u like"}, {"text": "\U0001f600"}]
    assert found["tidied"](messages) == "I'm good haha. What do you like?"
    pieces = found["stretches"](["a", "b", "c", "d"], {("b", "c")})
    assert pieces == [["a", "b"], ["c", "d"]]


def test_words_are_spelt_and_pronounced_in_symbols_and_stand_in_one_part():
    parts = pairs("cmudict")
    assert {part: len(lines) for part, lines in parts.items()} == {"train": 27_625, "valid": 1189, "test": 1186}
    words = [columns[0] for lines in parts.values() for columns in lines]
    assert len(set(words)) == len(words)
    assert {symbol for word in words for symbol in word.split(" ")} == set("abcdefghijklmnopqrstuvwxyz")
    phonemes = {symbol for lines in parts.values() for _, *said in lines for one in said for symbol in one.split(" ")}
    assert len({phoneme.rstrip("012") for phoneme in phonemes}) == 39  # as the dictionary says of itself
    assert ["c o u l d", "K UH1 D"] in parts["train"]


def test_pronunciations_come_from_the_most_frequent_words_first(tmp_path: Path):
    script = runpy.run_path(str(ROOT / "scripts" / "make_bundled_data.py"))
    entries = "A 1 AH0\nA 2 EY1\nCAT 1 K AE1 T\nCAT'S 1 K AE1 T S\nDOG 1 D AO1 G\n"
    (tmp_path / "dictionary.gz").write_bytes(gzip.compress(entries.encode()))
    parts = script["pronunciations"](tmp_path / "dictionary.gz", ["The cat's a cat.", "Cat!", "A dog’s cat"])
    assert sorted(b"".join(parts.values()).decode().splitlines()) == [
        "a\tAH0\tEY1",
        "c a t\tK AE1 T",
        "d o g\tD AO1 G",
    ]
    assert [line.split("\t")[0] for line in parts["train"].decode().splitlines()] == ["c a t", "a", "d o g"]


def test_the_bare_name_means_the_first_part():
    assert resolve("tatoeba-en-zh") == find("tatoeba-en-zh").path("train") != resolve("tatoeba-en-zh:test")


def test_a_file_of_the_users_wins_over_a_bundled_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    assert resolve("shakespeare") == find("shakespeare").path()
    (tmp_path / "shakespeare").mkdir()
    assert resolve("shakespeare") == find("shakespeare").path()  # a folder is not a file
    (tmp_path / "shakespeare").rmdir()
    (tmp_path / "shakespeare").write_text("mine")
    assert resolve("shakespeare").read_text() == "mine"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            "shakespear",
            r"shakespear: no such file, and no bundled corpus of that name \(did you mean 'shakespeare'\?\)",
        ),
        ("corpus.txt", "no such file.*known: blimp, chitchat, cmudict, digits"),
        ("tatoeba-en-zh:tset", r"no part 'tset' \(did you mean 'test'\?\)"),
        (".", "is a folder; name a file in it"),
    ],
)
def test_what_cannot_be_found_is_explained(spec: str, message: str):
    with pytest.raises(DataError, match=message):
        resolve(spec)


def test_what_is_beside_is_meant_rather_than_a_corpus_of_another_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    for name in ("my.txt", "my.en", "my.de"):
        (tmp_path / name).touch()
    with pytest.raises(DataError, match=r"did you mean '.*/my\.txt'"):
        resolve(f"{tmp_path}/my.tx")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DataError, match=r"did you mean 'my\.txt'"):
        load_images("my.tx")
    with pytest.raises(DataError, match=r"\(known: digits, fashion\)$"):
        load_images("nope")
    with pytest.raises(DataError, match=r"my\.en,my\.de are pairs, .* as texts: --data '\[my\.en, my\.de\]'$"):
        Corpus.open("my.en,my.de")


def test_what_can_be_read_only_once_is_refused(tmp_path: Path):
    os.mkfifo(tmp_path / "pipe.jsonl")
    for name in (str(tmp_path / "pipe.jsonl"), "/dev/zero"):
        for opened in (resolve, Corpus.open, PairCorpus.open, load_images, load_captions, read_labelled):
            with pytest.raises(DataError, match=f"{name} is a pipe or a device, and data is read more than once"):
                opened(name)


def test_a_misspelt_corpus_is_explained():
    with pytest.raises(DataError, match="did you mean 'fashion'"):
        find("fashoin")


def test_the_split_of_pairs_depends_on_the_english_sentence_alone(tmp_path: Path):
    script = runpy.run_path(str(ROOT / "scripts" / "make_bundled_data.py"))
    lines = [f"Sentence {number // 2}.\t句子{number}。\tcredit" for number in range(2000)]
    places = []
    for order in (lines, lines[::-1]):
        source = tmp_path / "pairs.gz"
        source.write_bytes(gzip.compress("\n".join(order).encode()))
        parts = script["split_pairs"](source)
        places.append({line: part for part, text in parts.items() for line in text.decode().splitlines()})
    assert places[0] == places[1]
    assert len(places[0]) == 2000
    together = collections.defaultdict(set)
    for line, part in places[0].items():
        together[line.split("\t")[0]].add(part)
    assert all(len(parts) == 1 for parts in together.values())
    assert 20 < sum(parts == {"valid"} for parts in together.values()) < 60  # 4 % of 1,000
