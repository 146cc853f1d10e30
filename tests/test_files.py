"""Files: written whole, and known by their checksums."""

from __future__ import annotations

import hashlib
import json
import os
from pathlib import Path

import pytest

from seqloom import files
from seqloom.files import checksum, write_json


def test_the_checksum_of_one_block_is_the_sha_256(tmp_path: Path) -> None:
    file = tmp_path / "file"
    for content in (b"", b"some bytes"):
        file.write_bytes(content)
        assert checksum(file) == hashlib.sha256(content).hexdigest()


def test_the_checksum_of_several_blocks_is_that_of_theirs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "BLOCK", 4)
    file = tmp_path / "file"
    file.write_bytes(b"aaaabbbbcc")
    digests = [hashlib.sha256(block).digest() for block in (b"aaaa", b"bbbb", b"cc")]
    assert checksum(file) == hashlib.sha256(b"".join(digests)).hexdigest()
    before = checksum(file)
    for place in range(10):
        content = bytearray(b"aaaabbbbcc")
        content[place] ^= 1
        file.write_bytes(content)
        assert checksum(file) != before


def test_a_name_that_is_not_utf8_comes_back_from_json(tmp_path: Path) -> None:
    name = os.fsdecode(b"\xff \xc3\xa9.txt")
    write_json(tmp_path / "a.json", {name: name})
    assert json.loads((tmp_path / "a.json").read_text(encoding="utf-8")) == {name: name}
