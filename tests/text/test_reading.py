from __future__ import annotations

import gzip
import json
import os
import subprocess
import tracemalloc
from pathlib import Path

import pytest

from seqloom.errors import ConfigError, DataError
from seqloom.text.reading import read_lines, read_units


def write(folder: Path, name: str, content: bytes) -> Path:
    path = folder / name
    path.write_bytes(content)
    return path


def test_lines_end_only_at_newlines_and_keep_blanks(tmp_path: Path) -> None:
    inside = "a\x0bb\x0cc\x1cd\x85e\u2028f\u2029g\rh"
    path = write(tmp_path, "a.txt", f"{inside}\n\r\n\n last".encode())
    assert list(read_units(path, "line")) == [inside, "", "", " last"]


@pytest.mark.parametrize(
    ("content", "lines"),
    [(b"", []), (b"\n", [""]), (b"a\n", ["a"]), (b"a", ["a"]), (b"a\r\n\r\n", ["a", ""]), (b"a\r", ["a\r"])],
)
def test_no_unit_after_the_final_newline(tmp_path: Path, content: bytes, lines: list[str]) -> None:
    assert list(read_lines(write(tmp_path, "a.txt", content))) == lines


def test_paragraphs_are_lines_joined_up_to_a_blank_one(tmp_path: Path) -> None:
    path = write(tmp_path, "a.md", b"\n\none\ntwo  \r\n \t\r\n\nthree\n\n\n  four\nfive")
    assert list(read_units(path, "paragraph")) == ["one two", "three", "four five"]


def test_a_whole_file_keeps_its_newlines(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "﻿één\r\n\ntwee\n".encode())
    assert list(read_units(path, "file")) == ["één\r\n\ntwee\n"]


@pytest.mark.parametrize("name", ["a.gz", "a.txt", "a.unknown"])
def test_gzip_is_known_by_its_first_bytes(tmp_path: Path, name: str) -> None:
    path = write(tmp_path, name, gzip.compress("雨\nsun\n".encode()) + gzip.compress(b"wind\n"))  # two members
    assert list(read_units(path, "line")) == ["雨", "sun", "wind"]


def test_a_plain_file_named_gz_is_read_as_it_is(tmp_path: Path) -> None:
    assert list(read_units(write(tmp_path, "a.gz", b"plain\n"), "line")) == ["plain"]


def test_byte_order_mark_is_dropped_at_the_start_only(tmp_path: Path) -> None:
    path = write(tmp_path, "a.txt", "\ufeffa\n\ufeffb\n".encode())
    assert list(read_units(path, "line")) == ["a", "\ufeffb"]


def test_a_list_of_lines_in_a_record_is_one_text(tmp_path: Path) -> None:
    poem, rhyme = ["床前明月光，", "疑是地上霜。"], ["Twinkle, twinkle,", "little star"]
    records = "".join(json.dumps({"paragraphs": lines}) + "\n" for lines in (poem, rhyme, []))
    path = write(tmp_path, "poems.jsonl", records.encode())
    expected = ["床前明月光，疑是地上霜。", "Twinkle, twinkle, little star", ""]
    assert list(read_units(path, "line", "paragraphs")) == expected
    assert list(read_units(path, "file", "paragraphs"))[:2] == ["\n".join(poem), "\n".join(rhyme)]


@pytest.mark.parametrize("name", ["a.jsonl", "a.jsonl.gz", "A.JSONL"])
@pytest.mark.parametrize("unit", ["line", "paragraph", "file"])
def test_each_json_record_is_a_unit(tmp_path: Path, name: str, unit: str) -> None:
    texts = ["one\n\ntwo", "", "三 \u2028 四"]
    content = "\n".join(json.dumps({"id": 1, "body": text}, ensure_ascii=False) for text in texts).encode() + b"\n\n"
    path = write(tmp_path, name, gzip.compress(content) if name.endswith("gz") else content)
    assert list(read_units(path, unit, field="body")) == texts  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("record", "complaint"),
    [
        (b'{"title": "x", "n": 1}', "no key 'text' .*'title', 'n'"),
        (b'{"text": 3}', "'text' is a number"),
        (b'{"text": null, "b": 1}', "'text' is null.*'text', 'b'"),
        (b'{"text": [["a"]]}', "'text' is a list"),
        (b'{"text": ["a", 1]}', "'text' is a number"),
        (b'["a"]', "must be an object.*not a list"),
        (b"{}", "keys: none"),
        (b'{"text": "a"', "not a JSON record"),
        (b'{"text": ' + b"9" * 5000 + b"}", "not a JSON record"),
        (b"[" * 100_000, "not a JSON record"),
        (b'{"text": "a\\ud83d"}', r"\\ud83d.*surrogate.*character 1"),
    ],
)
def test_a_bad_record_is_named_by_file_and_line(tmp_path: Path, record: bytes, complaint: str) -> None:
    path = write(tmp_path, "bad.jsonl", b'{"text": "fine \\ud83d\\ude00"}\n' + record + b"\n")
    units = read_units(path, "line")
    assert next(units) == "fine 😀"
    with pytest.raises(DataError, match=rf"(?s)bad\.jsonl, line 2: .*{complaint}"):
        next(units)


@pytest.mark.parametrize("unit", ["line", "paragraph", "file"])
def test_broken_utf8_is_named_by_line_and_offset(tmp_path: Path, unit: str) -> None:
    path = write(tmp_path, "latin.txt", "é\n".encode() + "één\nabcé\n".encode("latin1"))
    with pytest.raises(DataError, match=r"latin\.txt, line 2: .*0xe9 at offset 0.*iconv -f windows-1252 -t utf-8 .*"):
        list(read_units(path, unit))  # type: ignore[arg-type]
    path = write(tmp_path, "bom.txt", b"\xef\xbb\xbfab\xff\n")
    with pytest.raises(DataError, match=r"line 1: .*0xff at offset 5"):
        list(read_units(path, unit))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "encoding", "made"),
    [
        ("win.txt", "windows-1252", "win-utf8.txt"),
        ("my text.txt", "utf-16", "my text-utf8.txt"),
        ("w.txt.gz", "latin1", "w-utf8.txt"),
    ],
)
def test_the_command_of_the_error_makes_utf8(tmp_path: Path, name: str, encoding: str, made: str) -> None:
    text = "é says “€”" if encoding != "latin1" else "é"
    content = text.encode(encoding)
    path = write(tmp_path, name, gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(DataError) as told:
        list(read_units(path))
    subprocess.run(str(told.value).partition("e.g. ")[2], shell=True, check=True)
    assert (tmp_path / made).read_text(encoding="utf-8-sig") == text


def test_utf16_is_recognised(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="iconv -f utf-16"):
        list(read_units(write(tmp_path, "a.txt", "hello\n".encode("utf-16")), "line"))


def test_missing_file_folder_and_damaged_gzip_are_told(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"no such file: .*none\.txt"):
        list(read_units(tmp_path / "none.txt", "line"))
    with pytest.raises(DataError, match="is a folder"):
        list(read_units(tmp_path, "line"))
    with pytest.raises(DataError, match="cannot read"):
        list(read_units(write(tmp_path, "plain.txt", b"") / "below.txt", "line"))
    whole = gzip.compress(bytes(range(32)) * 500 + b"\n")
    with pytest.raises(DataError, match=r"cut\.gz: the gzip file is cut off"):
        list(read_units(write(tmp_path, "cut.gz", whole[:-9]), "line"))
    with pytest.raises(DataError, match=r"bad\.gz: the gzip file is damaged"):
        list(read_units(write(tmp_path, "bad.gz", whole[:-8] + bytes(8)), "line"))
    with pytest.raises(DataError, match=r"torn\.gz: the gzip file is damaged"):
        list(read_units(write(tmp_path, "torn.gz", whole[:10] + b"\xff" * 30), "line"))


@pytest.mark.parametrize(("unit", "line", "what"), [("line", 5, "line"), ("paragraph", 4, "text"), ("file", 3, "text")])
def test_a_unit_has_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unit: str, line: int, what: str) -> None:
    monkeypatch.setattr("seqloom.text.reading.LONGEST", 10)
    path = write(tmp_path, "a.txt.gz", gzip.compress(b"123456\n\n123456\n12345678\n1234567890A\n"))
    with pytest.raises(DataError, match=rf"a\.txt\.gz, line {line}: the {what} has more than 10 bytes here"):
        list(read_units(path, unit))  # type: ignore[arg-type]


def test_a_pipe_is_read_once(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    os.write(writing, gzip.compress(b"one\ntwo\n"))
    os.close(writing)
    assert list(read_lines(Path(f"/dev/fd/{reading}"))) == ["one", "two"]
    os.close(reading)


def test_a_name_that_is_not_utf8_is_read_and_told(tmp_path: Path) -> None:
    path = Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xff\n.txt"))
    path.write_bytes(b"one\n\xff\n")
    lines = read_lines(path)
    assert next(lines) == "one"
    with pytest.raises(DataError, match=r"\udcff\n\.txt, line 2: not UTF-8"):
        next(lines)


def test_an_unknown_unit_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'paragraph'"):
        list(read_units(write(tmp_path, "a.txt", b"a"), "paragraf"))  # type: ignore[arg-type]


@pytest.mark.parametrize("unit", ["line", "paragraph", "jsonl"])
def test_a_large_file_is_read_in_constant_memory(tmp_path: Path, unit: str) -> None:
    path = tmp_path / ("big.jsonl.gz" if unit == "jsonl" else "big.txt.gz")
    line = b'{"text": "' + b"word " * 20 + b'"}\n\n'
    with gzip.open(path, "wb", compresslevel=1) as file:
        for _ in range(100):
            file.write(line * 1000)
    tracemalloc.start()
    count = sum(1 for _ in read_units(path, "line" if unit == "jsonl" else unit))  # type: ignore[arg-type]
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == (200_000 if unit == "line" else 100_000)
    assert peak < 1_000_000  # the text is 11 MB
