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
    assert sum(path.stat().st_size for path in folder.iterdir()) < 7_500_000


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


def test_dialogues_are_turns_of_the_plays_and_the_turns_after_them():
    turns = [" ".join(block.split("\n")[1:]) for block in re.split(r"\n\n+", unpacked("shakespeare").strip())]
    following = collections.defaultdict(set)
    for turn, reply in itertools.pairwise(turns):
        following[turn].add(reply)
    parts = pairs("shakespeare-dialogue")
    assert {part: len(lines) for part, lines in parts.items()} == {"train": 3816, "valid": 370, "test": 242}
    odd = [pair for lines in parts.values() for pair in lines if pair[1] not in following[pair[0]]]
    assert len(odd) == 7  # where a speaker goes on after a gap, the original has two turns for our one
    assert max(len(side.split()) for lines in parts.values() for pair in lines for side in pair) == 40


def test_no_turn_to_be_tested_is_a_source_of_training():
    def letters(text: str) -> str:
        return "".join(filter(str.isalpha, text.lower()))

    parts = pairs("shakespeare-dialogue")
    seen = {letters(source) for source, _ in parts["train"]}
    for part in ("valid", "test"):
        assert not seen & {letters(turn) for pair in parts[part] for turn in pair}


@pytest.mark.parametrize(
    ("last", "first"),
    [
        ("Lets along.", "So, your opinion is, Aufidius,"),  # Coriolanus, act 1, scene 2
        ("Have with you.", "Come, come, they are almost here."),  # Coriolanus, act 2, scene 2
        ("Pray, let us go.", "Do they still fly to the Roman?"),  # Coriolanus, act 4, scene 7
        ("We will, my noble lord.", "Why looks your grace so heavily today?"),  # Richard III, act 1, scene 4
    ],
)
def test_what_begins_a_scene_is_no_reply(last: str, first: str):
    plays = unpacked("shakespeare")
    turn = re.search(rf"{re.escape(last)}\n\n[^\n]+:\n({re.escape(first)}.*?)\n\n", plays, re.DOTALL)
    assert turn
    assert len(turn[1].split()) <= 40  # so that its length is not what leaves it out
    dialogues = [pair for lines in pairs("shakespeare-dialogue").values() for pair in lines]
    assert any(reply == last for _, reply in dialogues)
    assert not any(reply.startswith(first) for _, reply in dialogues)


def test_a_scene_ends_where_the_speakers_change():
    script = runpy.run_path(str(ROOT / "scripts" / "make_bundled_data.py"))
    talk = "ABABABCBC" + "XYXYX"  # C joins A and B; then a scene between others
    plays = "\n\n".join(f"{speaker}:\nTurn {number},\nsecond line." for number, speaker in enumerate(talk)) + "\n"
    found = script["scenes"](script["turns"](plays))
    assert [len(scene) for scene in found] == [9, 5]
    assert found[1][0] == "Turn 9, second line."


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
        ("corpus.txt", "no such file.*known: cmudict, digits"),
        ("tatoeba-en-zh:tset", r"no part 'tset' \(did you mean 'test'\?\)"),
        (".", "is a folder; name a file in it"),
    ],
)
def test_what_cannot_be_found_is_explained(spec: str, message: str):
    with pytest.raises(DataError, match=message):
        resolve(spec)


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
