"""The cache: what is damaged there is made anew, and where it cannot be written to, work goes on without it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from seqloom.config.schema.text import BpeText
from seqloom.data import cache
from seqloom.data.cache import HEADER, Entry, cache_folder, cached
from seqloom.data.corpus import Corpus
from seqloom.data.materials import tokenizer_for
from seqloom.data.pair_encoders import ClosedPairs
from seqloom.data.pair_store import PairStore
from seqloom.data.pairs import PairCorpus
from seqloom.data.store import TokenStore
from seqloom.text.characters import CharacterTokenizer

LETTERS = CharacterTokenizer.train(["ab"])


def flip(file: Path, place: int = -1) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


def change_header(folder: Path) -> None:
    header = json.loads((folder / HEADER).read_text())
    header["about"]["dtype"] = "uint32"
    (folder / HEADER).write_text(json.dumps(header))


def put_file_in_place(folder: Path) -> None:
    for file in folder.iterdir():
        file.unlink()
    folder.rmdir()
    folder.write_text("no folder")


DAMAGE: dict[str, Callable[[Path], object]] = {
    "a flipped bit": lambda folder: flip(folder / "data.bin"),
    "a file cut short": lambda folder: (folder / "data.bin").write_bytes(b"so"),
    "a file that grew": lambda folder: (folder / "data.bin").write_bytes(b"some bytes and more"),
    "a missing file": lambda folder: (folder / "data.bin").unlink(),
    "a missing header": lambda folder: (folder / HEADER).unlink(),
    "an empty header": lambda folder: (folder / HEADER).write_bytes(b""),
    "a header that is no text": lambda folder: (folder / HEADER).write_bytes(b"\xff\xfe\x00"),
    "a header of another shape": lambda folder: (folder / HEADER).write_text("[1, 2]"),
    "a header of before": lambda folder: (folder / HEADER).write_text('{"dtype": "uint16", "totals": {}}'),
    "a header too deep": lambda folder: (folder / HEADER).write_text("[" * 100_000),
    "a header that was changed": change_header,
    "a folder in place of the header": lambda folder: ((folder / HEADER).unlink(), (folder / HEADER).mkdir()),
    "a file in place of the folder": put_file_in_place,
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_entry_is_made_anew(damage: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    made = []

    def fill(folder: Path) -> dict[str, str]:
        made.append(folder)
        (folder / "data.bin").write_bytes(b"some bytes")
        return {"dtype": "uint16"}

    entry = cached("things", "a recipe", fill)
    assert cached("things", "a recipe", fill) == entry
    assert len(made) == 1
    DAMAGE[damage](entry.folder)
    assert cached("things", "a recipe", fill) == entry
    assert (entry.folder / "data.bin").read_bytes() == b"some bytes"
    assert cached("things", "a recipe", fill) == entry
    assert len(made) == 2
    assert cached("other things", "a recipe", fill).folder.name != entry.folder.name


def test_no_flipped_bit_of_a_header_is_believed(tmp_path: Path) -> None:
    entry = Entry.write(tmp_path / "entry", lambda folder: {"dtype": "uint16", "tokens": 120})
    header = entry.folder / HEADER
    whole = header.read_bytes()
    for place in range(len(whole)):
        for bit in (0, 4):
            flipped = bytearray(whole)
            flipped[place] ^= 1 << bit
            header.write_bytes(flipped)
            assert Entry.read(entry.folder) in (None, entry)


def test_flipped_ids_and_tokens_do_not_come_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    (tmp_path / "text.txt").write_text("ab\nba\n" * 20)
    (tmp_path / "pairs.tsv").write_text("ab\tba\n" * 5)
    corpus, pairs = Corpus.open(str(tmp_path / "text.txt")), PairCorpus.open(str(tmp_path / "pairs.tsv"))
    text = BpeText(max_size=270)
    tokens = TokenStore.of(corpus, LETTERS).tokens.tolist()
    sources = PairStore.of(pairs, ClosedPairs(LETTERS, LETTERS)).source.tokens.tolist()
    learned = tokenizer_for(text, corpus).document
    data = [file for file in (tmp_path / "cache").rglob("*") if file.is_file() and file.name != HEADER]
    assert len(data) == 1 + 8 + 1
    for file in data:
        flip(file, 0)
    assert TokenStore.of(corpus, LETTERS).tokens.tolist() == tokens
    assert PairStore.of(pairs, ClosedPairs(LETTERS, LETTERS)).source.tokens.tolist() == sources
    assert tokenizer_for(text, corpus).document == learned


def count(folder: Path) -> dict[str, int]:
    np.arange(4).tofile(folder / "data.bin")
    return {"tokens": 4}


def test_a_cache_that_cannot_be_made_is_replaced_for_this_process_and_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    cache._substitute.cache_clear()
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "file" / "cache"))
    entry = cached("things", "a recipe", count)
    assert (entry.folder / "data.bin").stat().st_size == 32
    assert cached("things", "a recipe", lambda folder: pytest.fail("made twice")) == entry
    assert cache_folder() == entry.folder.parent
    told = f"cannot write to the cache {tmp_path / 'file' / 'cache'}: what it would keep is made anew in each run\n"
    assert capfd.readouterr().err == told
    cache._substitute.cache_clear()  # what the end of the process does
    assert not entry.folder.exists()


def test_what_a_read_only_cache_holds_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache._substitute.cache_clear()
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path))
    kept = cached("things", "a recipe", count)

    def refuse(dir: Path) -> None:
        raise PermissionError(13, "Permission denied", dir)

    monkeypatch.setattr(cache, "TemporaryFile", refuse)
    assert cached("things", "a recipe", lambda folder: pytest.fail("made twice")) == kept
    assert tmp_path not in cached("things", "another recipe", count).folder.parents
    cache._substitute.cache_clear()


def test_what_another_process_made_meanwhile_stays_for_those_who_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "entry"

    def fill(place: Path) -> cache.About:
        (place / "data.bin").write_bytes(b"some bytes")
        return {"dtype": "uint16"}

    def fill_slowly(place: Path) -> cache.About:
        Entry.write(folder, fill)  # the other one is faster
        made.append((folder / "data.bin").stat().st_ino)
        return fill(place)

    made: list[int] = []
    assert Entry.write(folder, fill_slowly) == Entry.read(folder)
    assert [(folder / "data.bin").stat().st_ino] == made
    assert [each.name for each in tmp_path.iterdir()] == ["entry"]

    def fill_beside_a_damaged_one(place: Path) -> cache.About:
        flip(folder / "data.bin")
        return fill(place)

    Entry.write(folder, fill_beside_a_damaged_one)
    assert Entry.read(folder) is not None
