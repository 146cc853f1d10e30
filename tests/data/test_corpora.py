"""The bundled corpora: there, whole, and found by name."""

from __future__ import annotations

import collections
import gzip
import json
import runpy
from pathlib import Path

import pytest

from seqloom.data.corpora import BundledCorpus, bundled, find, resolve
from seqloom.errors import DataError

NAMES = [corpus.name for corpus in bundled()]
ROOT = Path(__file__).parents[2]


def unpacked(spec: str) -> str:
    return gzip.decompress(resolve(spec).read_bytes()).decode()


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
    for corpus in bundled():
        stem = next(iter(corpus.files.values())).split(".")[0]
        assert f"\n## {stem}." in notices


def test_bundled_files_stay_small():
    folder = find("digits").path().parent
    assert sum(path.stat().st_size for path in folder.iterdir()) < 6_000_000


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
        ("corpus.txt", "no such file.*known: digits, fashion"),
        ("tatoeba-en-zh:tset", r"no part 'tset' \(did you mean 'test'\?\)"),
        (".", "is a folder; name a file in it"),
    ],
)
def test_what_cannot_be_found_is_explained(spec: str, message: str):
    with pytest.raises(DataError, match=message):
        resolve(spec)


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
