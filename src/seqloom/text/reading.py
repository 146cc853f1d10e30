"""Streams of text units from files: lines, paragraphs, whole files or JSONL records, gzipped or not.

A file is read line by line as bytes and decoded one line at a time, so that memory stays constant whatever the
size of the file, and an error can name the line and the byte where it stands. One unit stands in memory as a whole,
and may not be longer than LONGEST.
"""

from __future__ import annotations

import gzip
import io
import json
import shlex
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import ConfigError, DataError, did_you_mean, shown
from seqloom.text.lines import joined

Unit = Literal["line", "paragraph", "file"]

LONGEST = 1 << 30  # bytes of a line, characters of a unit: Wikipedia's first billion letters, on one line, are fewer
GZIP_MAGIC = b"\x1f\x8b"
GZIP_RATIO = 1032  # bytes that one byte of a gzip file can stand for, at most
USUAL = "windows-1252"  # what a text that is not UTF-8 is most often; all that people write in latin1 is the same in it
UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
BINARY = {  # how files begin that are taken for text now and then
    b"\x89PNG": "a PNG image",
    b"\xff\xd8\xff": "a JPEG image",
    b"GIF8": "a GIF image",
    b"%PDF": "a PDF document",
    b"PK\x03\x04": "a zip archive, as .docx, .epub and .xlsx files are",
    b"BZh": "packed by bzip2",
    b"\xfd7zXZ": "packed by xz",
    b"\x28\xb5\x2f\xfd": "packed by zstd",
}
BYTE_ORDER_MARK = "\ufeff"


def read_units(path: Path, unit: Unit = "line", field: str = "text") -> Iterator[str]:
    """The units of text in a file, one at a time.

    `line`: every line, blank ones too. `paragraph`: lines up to a blank one, joined. `file`: the whole text, newlines
    kept. In a file named .jsonl or .jsonl.gz each record is one unit, taken from the key `field`; a list of lines there
    is joined, for `file` by newlines.
    """
    path = Path(path)
    if is_jsonl(path):
        join = "\n".join if unit == "file" else joined
        yield from (record.joined(field, "data.field", join) for record in read_records(path, field))
    elif unit == "line":
        yield from read_lines(path)
    elif unit == "paragraph":
        yield from _paragraphs(path)
    elif unit == "file":
        yield "".join(_together(path, enumerate(_decoded_lines(path), start=1)))
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


def _paragraphs(path: Path) -> Iterator[str]:
    lines = enumerate(map(str.strip, read_lines(path)), start=1)
    for text, paragraph in groupby(lines, lambda numbered: bool(numbered[1])):
        if text:
            yield joined(_together(path, paragraph))


def _together(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[str]:
    """The lines of one unit, given with their numbers."""
    length = 0
    for number, line in lines:
        length += len(line)
        if length > LONGEST:
            raise _too_long(path, number, "text", LONGEST)
        yield line


def _too_long(path: Path, number: int, what: str, longest: int) -> DataError:
    return DataError(f"{path}, line {number}: the {what} has more than {longest:,} bytes here; break it into several")


@dataclass(frozen=True)
class Record:
    """One object of a .jsonl file. Its fields are named by settings, which an error about them says."""

    where: str
    """The file and the line."""
    values: dict[str, Any]

    def value(self, field: str, setting: str = "") -> Any:
        """The value of a field, which must be there."""
        if field not in self.values:
            raise DataError(f"{self.where}: the record has no key {field!r}{self._advice(setting)}")
        return self.values[field]

    def text(self, field: str, setting: str = "") -> str:
        """The value of a field that must be a text."""
        return self._checked(self.value(field, setting), field, setting)

    def texts(self, field: str, setting: str = "") -> list[str]:
        """The value of a field that must be a text or a list of texts."""
        value = self.value(field, setting)
        return [self._checked(each, field, setting) for each in (value if isinstance(value, list) else [value])]

    def joined(self, field: str, setting: str = "", join: Callable[[Iterable[str]], str] = joined) -> str:
        """The value of a field that must be a text, or a list of lines that make one."""
        return join(self.texts(field, setting))

    def _checked(self, value: Any, field: str, setting: str) -> str:
        if not isinstance(value, str):
            kind = _json_type(value)
            raise DataError(f"{self.where}: the value of {field!r} is {kind}, not a text{self._advice(setting)}")
        try:
            value.encode()
        except UnicodeEncodeError as error:
            # JSON can write half of a surrogate pair, \ud83d alone, which is no character and cannot be encoded.
            half = f"\\u{ord(value[error.start]):04x}"
            raise DataError(
                f"{self.where}: the value of {field!r} holds {half}, half of a surrogate pair, at character "
                f"{error.start}; it stands for no character, so remove it or write its pair"
            ) from None
        return value

    def _advice(self, setting: str) -> str:
        keys = shown(list(self.values))[1:-1] or "none"
        return f" (its keys: {keys})" + (f"; set {setting} to the right one" if setting else "")


def read_records(path: Path, *fields: str) -> Iterator[Record]:
    """The records of a .jsonl file, blank lines left out; an error shows what record has the fields."""
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        try:
            values = json.loads(line)
        except (ValueError, RecursionError) as error:  # ValueError: broken JSON, or a number too long to be one
            raise DataError(f"{where}: not a JSON record ({error}); each line of a .jsonl file is one object") from None
        if not isinstance(values, dict):
            example = ", ".join(f'"{field}": "..."' for field in fields)
            raise DataError(f"{where}: a record must be an object such as {{{example}}}, not {_json_type(values)}")
        yield Record(where, values)


def read_columns(path: Path, first: str, second: str) -> Iterator[tuple[str, str, str]]:
    """Lines of two texts with a tab between them, blank lines left out: where a line stands, and the texts.

    first, second: what the texts are, for an error to say.
    """
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        where = f"{path}, line {number}"
        one, tab, other = line.partition("\t")
        if not tab or not one.strip() or not other.strip():
            missing = "tab" if not tab else second if one.strip() else first
            raise DataError(f"{where}: no {missing}; a line is {first}, tab, {second}")
        yield where, one.strip(), other.strip()


def is_jsonl(path: Path) -> bool:
    """Whether the name of a file says that it holds records."""
    return path.name.lower().endswith((".jsonl", ".jsonl.gz"))


def _json_type(value: Any) -> str:
    if value is None:
        return "null"
    names = {bool: "true or false", int: "a number", float: "a number", str: "a string", list: "a list"}
    return names.get(type(value), "an object")


def _decoded_lines(path: Path) -> Iterator[str]:
    """The lines with their ends, decoded from UTF-8, without the byte order mark."""
    begin = b""
    for number, line in enumerate(raw_lines(path), start=1):
        begin = begin or line
        try:
            text = line.decode("utf-8")
        except UnicodeDecodeError as error:
            if binary := _binary(begin, line):
                raise DataError(f"{path} is binary ({binary}), not text: give a text file in UTF-8") from None
            encoding = "utf-16" if number == 1 and line.startswith(UTF16_MARKS) else USUAL
            byte = f"byte 0x{line[error.start]:02x} at offset {error.start} of the line"
            raise DataError(f"{path}, line {number}: not UTF-8 ({byte}); {conversion(path, encoding)}") from None
        yield text.removeprefix(BYTE_ORDER_MARK) if number == 1 else text


def conversion(path: str | Path, encoding: str = USUAL) -> str:
    """What to do with a file that is not UTF-8."""
    path = Path(path)
    command = f"iconv -f {encoding} -t utf-8"
    if path.is_file():
        packed = path.suffix.lower() == ".gz"
        plain = path.with_suffix("") if packed else path
        source, target = (shlex.quote(str(each)) for each in (path, plain.with_stem(f"{plain.stem}-utf8")))
        command = (f"gunzip -c {source} | {command}" if packed else f"{command} {source}") + f" > {target}"
    return f"convert it from its encoding, e.g. {command}"


def _binary(begin: bytes, line: bytes) -> str | None:
    """What a file of which this line is not UTF-8 is, if it is no text in another encoding."""
    known = next((name for magic, name in BINARY.items() if begin.startswith(magic)), None)
    return known or ("it holds zero bytes" if b"\0" in line and not begin.startswith(UTF16_MARKS) else None)


def raw_lines(path: Path, longest: int | None = None) -> Iterator[bytes]:
    """The lines of a file as bytes, with their ends, gzipped or not; a longer one than `longest` is an error."""
    longest = longest or LONGEST
    with open_bytes(path) as file:
        for number, line in enumerate(iter(partial(file.readline, longest + 1), b""), start=1):
            if len(line) > longest:
                raise _too_long(path, number, "line", longest)
            yield line


def room_for(path: Path, shape: tuple[int, ...], dtype: type[np.generic], least: int) -> NDArray[Any]:
    """An array for all that a header promises; an error if the file cannot hold it, or memory cannot.

    least: the bytes, not packed, that the file must have for it.
    """
    size = path.stat().st_size
    if path.is_file() and least > GZIP_RATIO * size:
        raise DataError(f"{path}: its header promises {least:,} bytes, and the file has {size:,}; fetch it again")
    try:
        return np.empty(shape, dtype)
    except (MemoryError, ValueError):  # ValueError: more than any machine can count
        promised = " × ".join(f"{length:,}" for length in shape)
        raise DataError(f"{path}: its header promises {promised} numbers, which do not fit in memory") from None


@contextmanager
def open_bytes(path: Path) -> Iterator[io.BufferedReader]:
    """A file to read bytes from, gzipped or not; what goes wrong meanwhile is an error that names the file."""
    try:
        with open(path, "rb") as file:
            # `peek` and not `seek`: a pipe can be read too.
            zipped = file.peek(2)[:2] == GZIP_MAGIC
            yield io.BufferedReader(gzip.GzipFile(fileobj=file)) if zipped else file
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
