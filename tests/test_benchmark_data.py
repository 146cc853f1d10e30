"""Files as they are published, made into those that the benchmarks read."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from benchmarks.prepare import main

TRAIN = """id,dialogue,summary,topic
1,"A: Hi.
B: Hi!",They greet.,a
2,"A: Hi.
B:  Hi!",Again.,a
3,A: No.,Refused.,b
"""
OTHERS = {
    "validation": "id,dialogue,summary,topic\n4,A: Perhaps.,Unsure.,c\n",
    "test": "id,dialogue,summary,topic\n5_1,A:  No.,No.,b\n5_2,A:  No.,He says no.,b\n",
}


def prepare(monkeypatch: pytest.MonkeyPatch, *words: object) -> None:
    monkeypatch.setattr(sys, "argv", ["prepare", *map(str, words)])
    main()


def test_dialogues_with_summaries_stand_once_and_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dialogsum_train.csv.gz").write_bytes(gzip.compress(TRAIN.encode()))
    for part, text in OTHERS.items():
        (tmp_path / f"dialogsum_{part}.csv").write_text(text)
    prepare(monkeypatch, "dialogsum", tmp_path, tmp_path / "out")
    found = {
        part: [json.loads(line) for line in (tmp_path / "out" / f"{part}.jsonl").read_text().splitlines()]
        for part in ("train", "validation", "test")
    }
    assert found == {
        "train": [{"source": "A: Hi. B: Hi!", "target": "They greet."}],
        "validation": [{"source": "A: Perhaps.", "target": "Unsure."}],
        "test": [{"source": "A: No.", "target": ["No.", "He says no."]}],
    }


def test_turns_are_lines_and_what_is_tested_is_not_learned(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "dialogues_train.txt").write_text(
        "Hi . __eou__ Hi ! __eou__\nWell ? __eou__\nHi . __eou__ Hi ! __eou__\n"
    )
    (tmp_path / "dialogues_validation.txt").write_text("Well ? __eou__\n")
    (tmp_path / "dialogues_test.txt").write_text("Bye . __eou__ Bye . __eou__\n")
    prepare(monkeypatch, "dailydialog", tmp_path, tmp_path / "out")
    texts = {file.stem: file.read_text() for file in (tmp_path / "out").iterdir()}
    assert texts == {"train": "Hi .\nHi !\n", "valid": "Well ?\n", "test": "Bye .\nBye .\n"}


def test_a_file_that_is_missing_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(SystemExit, match=r"has no wiki\.train\.tokens, gzipped or not"):
        prepare(monkeypatch, "wikitext2", tmp_path, tmp_path / "out")
    assert not list((tmp_path / "out").iterdir())
