"""Streams of text units from files: lines, paragraphs, whole files or JSONL records, gzipped or not.

A file is read line by line as bytes and decoded one line at a time, so that memory stays constant whatever the
size of the file, and an error can name the line and the byte where it stands.
"""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, Literal

from seqloom.errors import ConfigError, DataError, did_you_mean

Unit = Literal["line", "paragraph", "file"]

GZIP_MAGIC = b"\x1f\x8b"
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
BYTE_ORDER_MARK = "\ufeff"


def read_units(path: Path, unit: Unit = "line", field: str = "text") -> Iterator[str]:
    """The units of text in a file, one at a time.

    `line`: every line, blank ones too. `paragraph`: lines up to a blank one, joined with a space. `file`: the whole
    text, newlines kept. In a file named .jsonl or .jsonl.gz each record is one unit, taken from the key `field`.
    """
    path = Path(path)
    name = path.name.lower()
    if name.endswith((".jsonl", ".jsonl.gz")):
        yield from (_text_of(record, field, where) for where, record in read_records(path))
    elif unit == "line":
        yield from read_lines(path)
    elif unit == "paragraph":
        yield from _paragraphs(read_lines(path))
    elif unit == "file":
        yield "".join(_decoded_lines(path))
    else:
        raise ConfigError(f"no such unit of text: {unit!r}" + did_you_mean(unit, ("line", "paragraph", "file")))


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a text file without their ends.

    Only "\\n" and "\\r\\n" end a line: `str.splitlines` would also cut at form feeds, U+2028 and others that occur
    inside sentences.
    """
    for line in _decoded_lines(Path(path)):
        if line.endswith("\n"):
            line = line[:-2] if line.endswith("\r\n") else line[:-1]
        yield line


def _paragraphs(lines: Iterable[str]) -> Iterator[str]:
    paragraph: list[str] = []
    for line in lines:
        stripped = line.strip()
        if stripped:
            paragraph.append(stripped)
        elif paragraph:
            yield " ".join(paragraph)
            paragraph = []
    if paragraph:
        yield " ".join(paragraph)


def read_records(path: Path) -> Iterator[tuple[str, Any]]:
    """The JSON values of a .jsonl file, blank lines left out, each with where it stands: the file and the line."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            yield where, json.loads(line)
        except (ValueError, RecursionError) as error:  # ValueError: broken JSON, or a number too long to be one
            raise DataError(f"{where}: not a JSON record ({error}); each line of a .jsonl file is one object") from None


def refuse_half_characters(text: str, field: str, where: str) -> None:
    """JSON can write half of a surrogate pair, \\ud83d alone, which is no character and cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        half = f"\\u{ord(text[error.start]):04x}"
        raise DataError(
            f"{where}: the value of {field!r} holds {half}, half of a surrogate pair, at character {error.start}; "
            "it stands for no character, so remove it or write its pair"
        ) from None


def _text_of(record: Any, field: str, where: str) -> str:
    if not isinstance(record, dict):
        raise DataError(f'{where}: a record must be an object such as {{"{field}": "..."}}, not {_json_type(record)}')
    keys = ", ".join(map(repr, record)) or "none"
    if field not in record:
        raise DataError(f"{where}: the record has no key {field!r} (its keys: {keys}); set data.field to the right one")
    text = record[field]
    if not isinstance(text, str):
        raise DataError(
            f"{where}: the value of {field!r} is {_json_type(text)}, not a string (keys of the record: {keys}); "
            "set data.field to the key that holds the text"
        )
    refuse_half_characters(text, field, where)
    return text


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "an object")


def _decoded_lines(path: Path) -> Iterator[str]:
    """The lines with their ends, decoded from UTF-8, without the byte order mark."""
    for number, line in enumerate(raw_lines(path), start=1):
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            encoding = "utf-16" if number == 1 and line.startswith(UTF16_MARKS) else "latin1"
            byte = f"byte 0x{line[error.start]:02x} at offset {error.start} of the line"
            raise DataError(
                f"{path}, line {number}: not UTF-8 ({byte}); "
                f"convert the file from its encoding, e.g. iconv -f {encoding} -t utf-8"
            ) from None
        yield text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text


def raw_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file as bytes, with their ends, gzipped or not."""
    try:
        with open(path, "rb") as file:
            yield from _decompressed(file)
    except FileNotFoundError:
        raise DataError(f"no such file: {path}") from None
    except IsADirectoryError:
        raise DataError(f"{path} is a folder; name the files in it") from None
    except EOFError:
        raise DataError(f"{path}: the gzip file is cut off before its end; copy or download it again") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        raise DataError(f"{path}: the gzip file is damaged ({error}); copy or download it again") from None
    except OSError as error:
        raise DataError(f"cannot read {path}: {error.strerror or error}") from None


def _decompressed(file: io.BufferedReader) -> BinaryIO:
    # `peek` and not `seek`: a pipe can be read too.
    if file.peek(2)[:2] == GZIP_MAGIC:
        return io.BufferedReader(gzip.GzipFile(fileobj=file))
    return file
