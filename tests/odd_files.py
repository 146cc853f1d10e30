"""Odd files: damaged, lying, or something else than they are called, as people and strangers hand them over.

Each one says which reader it is for and what that reader says of it; nothing where the file is unusual, but right.
"""

from __future__ import annotations

import gzip
import io
import struct
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from PIL import Image

Reader = Literal["picture", "idx", "text", "records", "labelled", "captions", "vectors", "arpa", "yaml"]

PNG = b"\x89PNG\r\n\x1a\n"
SIDE = 8  # pixels of the pictures that are right
BOMB = 1 << 26  # bytes that small files unpack to


@dataclass(frozen=True)
class OddFile:
    """A file, its bytes made when they are wanted."""

    reader: Reader
    fact: str
    name: str
    make: Callable[[], bytes]
    said: str | None = None
    """A pattern of the error; None where there is none."""

    def write(self, folder: Path) -> Path:
        """The file in a folder."""
        path = folder / self.name
        path.write_bytes(self.make())
        return path

    def command(self, path: Path) -> list[str]:
        """The words after `seqloom` that read the file in its place; `--out` belongs after them."""
        return COMMANDS[self.reader](path)

    def __str__(self) -> str:
        return f"{self.reader}: {self.fact}"


COMMANDS: dict[str, Callable[[Path], list[str]]] = {
    "picture": lambda path: ["train", "rbm", "--set", f"data.train={path.parent}"],
    "idx": lambda path: ["train", "rbm", "--set", f"data.train={path}"],
    "text": lambda path: ["train", "ngram", "--set", f"data.train={path}"],
    "records": lambda path: ["train", "ngram", "--set", f"data.train={path}"],
    "labelled": lambda path: ["train", "classifier", "--set", f"data.train={path}"],
    "captions": lambda path: ["train", "captioner", "--set", f"data.train={path}"],
    "vectors": lambda path: ["import", str(path), "--from", "word2vec"],
    "arpa": lambda path: ["import", str(path)],
    "yaml": lambda path: ["train", str(path)],
}


def odd_files(*readers: Reader) -> list[OddFile]:
    """Those for some of the readers, for all when none is named."""
    return [file for file in ODD_FILES if not readers or file.reader in readers]


# ---------------------------------------------------------------------------------------------------------- makers


def chunk(kind: bytes, content: bytes) -> bytes:
    """A chunk of a PNG file."""
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(width: int = SIDE, height: int = SIDE, colour: int = 0, depth: int = 8, text: bytes = b"") -> bytes:
    """A black PNG file, with chunks of text before its pixels."""
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[colour]
    rows = (b"\0" + bytes(width * channels * depth // 8)) * min(height, 100)  # more are only promised
    header = struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)
    return PNG + chunk(b"IHDR", header) + text + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def saved(mode: str, colour: int | tuple[int, ...], form: str, **options: object) -> bytes:
    """A picture of one colour as Pillow writes it."""
    file = io.BytesIO()
    Image.new(mode, (SIDE, SIDE), colour).save(file, form, **options)
    return file.getvalue()


def idx(*shape: int, content: bytes = b"") -> bytes:
    """An idx file of unsigned bytes."""
    return struct.pack(f">4B{len(shape)}I", 0, 0, 8, len(shape), *shape) + content


def floats(*numbers: float) -> bytes:
    """Numbers as a binary word2vec file has them."""
    return struct.pack(f"<{len(numbers)}f", *numbers)


def bomb(start: bytes, filling: bytes = b"\0") -> bytes:
    """A small gzip file that unpacks to much."""
    return gzip.compress(start) + gzip.compress(filling * (1 << 20)) * (BOMB >> 20)


def arpa(unigrams: bytes, bigrams: bytes = b"1", first: bytes = b"-1 <s> -0.5") -> bytes:
    """An ARPA file of three unigrams and a bigram that announces other numbers."""
    head = b"\\data\\\nngram 1=%s\nngram 2=%s\n\n\\1-grams:\n%s\n" % (unigrams, bigrams, first)
    return head + b"-1 </s>\n-1 a -0.3\n\n\\2-grams:\n-0.5 <s> a\n\n\\end\\\n"


def unfolding(item: str, closed: str) -> bytes:
    """Nine times nine times nine ... values in a few lines of YAML."""
    lines = [f"v0: &v0 {item}"]
    lines += [f"v{level}: &v{level} {closed % ','.join([f'*v{level - 1}'] * 9)}" for level in range(1, 12)]
    return "\n".join(lines).encode()


def always(content: bytes) -> Callable[[], bytes]:
    """A maker of these bytes."""
    return lambda: content


UNREADABLE = "is not a readable PNG or JPEG image"
POSTSCRIPT = b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\n0 0 8 8 rectfill\nshowpage\n%%EOF\n"


def _text_bomb(kind: bytes, before: bytes) -> Callable[[], bytes]:
    return lambda: png(text=chunk(kind, before + zlib.compress(bytes(1 << 22))))


# ----------------------------------------------------------------------------------------------------------- the list

PICTURES = [
    OddFile("picture", "PostScript called PNG", "a.png", always(POSTSCRIPT), "cannot identify image file"),
    OddFile("picture", "a GIF called JPEG", "a.jpg", lambda: saved("L", 0, "GIF"), UNREADABLE),
    OddFile("picture", "zTXt that unpacks to much", "a.png", _text_bomb(b"zTXt", b"a\0\0"), UNREADABLE),
    OddFile("picture", "iTXt that unpacks to much", "a.png", _text_bomb(b"iTXt", b"a\0\1\0\0\0"), UNREADABLE),
    OddFile("picture", "a profile that unpacks to much", "a.png", _text_bomb(b"iCCP", b"a\0\0"), UNREADABLE),
    OddFile("picture", "100 million pixels", "a.png", lambda: png(10_000, 10_000, depth=1), "100000000 pixels"),
    OddFile("picture", "400 million pixels", "a.png", lambda: png(20_000, 20_000, depth=1), "400000000 pixels"),
    OddFile("picture", "no pixels", "a.png", lambda: png(0, 8), UNREADABLE),
    OddFile("picture", "a PNG cut off", "a.png", lambda: png()[:-30], UNREADABLE),
    OddFile("picture", "a JPEG cut off", "a.jpg", lambda: saved("L", 7, "JPEG")[:300], UNREADABLE),
    OddFile("picture", "an empty file", "a.png", always(b""), UNREADABLE),
    OddFile("picture", "16 bits of grey", "a.png", lambda: png(depth=16), "more than 8 bits a pixel"),
    OddFile("picture", "16 bits of colour", "a.png", lambda: png(colour=2, depth=16)),
    OddFile("picture", "CMYK", "a.jpg", lambda: saved("CMYK", (0, 255, 255, 0), "JPEG")),
    OddFile("picture", "a palette with transparency", "a.png", lambda: saved("P", 1, "PNG", transparency=b"\0\x80")),
    OddFile("picture", "an alpha channel", "a.png", lambda: saved("RGBA", (9, 8, 7, 0), "PNG")),
    OddFile(
        "picture",
        "an animation",
        "a.png",
        lambda: saved("L", 7, "PNG", save_all=True, append_images=[Image.new("L", (SIDE, SIDE), 200)]),
    ),
]

IDX = [
    OddFile("idx", "65 dimensions", "a", lambda: idx(*[1] * 65, content=b"x"), "has 65 dimensions"),
    OddFile("idx", "no dimensions", "a", lambda: idx(), "has 0 dimensions"),
    OddFile("idx", "no pixels", "a", lambda: idx(10, 0, 8), r"has the shape \(10, 0, 8\): there is nothing"),
    OddFile("idx", "sizes beyond all memory", "a", lambda: idx(*[2**32 - 1] * 3), "promises 79,.* and the file has 16"),
    OddFile("idx", "more than it promises", "a.gz", lambda: bomb(idx(2, 2, 2)), "goes on after the 8 bytes"),
    OddFile("idx", "less than it promises", "a", lambda: idx(2, 2, 2, content=b"abc"), "has 3 bytes after its header"),
]

TEXTS = [
    OddFile("text", "NUL bytes", "a.txt", always(b"a\0b c\n\0\n" * 20)),
    OddFile("text", "CRLF", "a.txt", always(b"a b\r\nc d\r\n" * 20)),
    OddFile("text", "U+2028 inside lines", "a.txt", lambda: "a\u2028b c\n".encode() * 20),
    OddFile("text", "UTF-16", "a.txt", lambda: "a b\n".encode("utf-16"), "line 1: not UTF-8 .* iconv -f utf-16"),
    OddFile("text", "Latin-1 after UTF-8", "a.txt", lambda: "é\n".encode() + b"\xe9\n", "line 2: not UTF-8"),
    OddFile("text", "a surrogate in UTF-8", "a.txt", always(b"a \xed\xa0\x80 b\n"), "line 1: not UTF-8"),
    OddFile("text", "a PNG image", "a.txt", lambda: saved("L", 7, "PNG"), r"is binary \(a PNG image\), not text"),
    OddFile("text", "a PDF document", "a.txt", always(b"%PDF-1.7\n%\xe2\xe3\n"), r"is binary \(a PDF document\)"),
    OddFile("text", "bytes of a program", "a.txt", always(b"ab\n\x7f\0\xff\n"), r"is binary \(it holds zero bytes\)"),
]

DEEP = b"[" * 100_000
RECORDS = [
    OddFile("records", "lists without end", "a.jsonl", always(DEEP), "line 1: not a JSON record"),
    OddFile("records", "5,000 digits", "a.jsonl", lambda: b'{"text": %s}' % (b"9" * 5000), "line 1: not a JSON record"),
    OddFile("records", "NaN", "a.jsonl", always(b'{"text": NaN}'), "'text' is a number"),
    OddFile("records", "half a character", "a.jsonl", always(b'{"text": "\\ud800"}'), "half of a surrogate pair"),
    OddFile("records", "half a character as a key", "a.jsonl", always(b'{"\\ud800": "a"}'), r"its keys: '\\ud800'"),
    OddFile("records", "a key of a million letters", "a.jsonl", lambda: b'{"%s": 1}' % (b"k" * 10**6), r"kkk\.\.\.kkk"),
    OddFile(
        "records",
        "ten thousand keys",
        "a.jsonl",
        lambda: b'{"0": 0%s}' % b"".join(b', "%d": 0' % number for number in range(1, 10_000)),
        r"its keys: '0', '1', .*, \.\.\.\)",
    ),
]

LABELLED = [
    OddFile("labelled", "half a character", "a.jsonl", always(b'{"text": "a", "label": "\\ud800"}'), "half of a surr"),
    OddFile("labelled", "NaN", "a.jsonl", always(b'{"text": "a", "label": NaN}'), "'label' is no label"),
    OddFile("labelled", "no tab", "a.tsv", always(b"good\ttext\nbad text\n"), "line 2: no tab"),
    OddFile("labelled", "no label", "a.tsv", always(b"good\ttext\n\ttext\n"), "line 2: no label"),
    OddFile("labelled", "newlines alone", "a.tsv", always(b"\n" * 9), "there are no texts with labels"),
]

CAPTIONS = [
    OddFile("captions", "NUL in a name", "a.jsonl", always(b'{"image": "\\u0000", "caption": "a"}'), "is no image"),
    OddFile(
        "captions",
        "a name of 5,000 letters",
        "a.jsonl",
        lambda: b'{"image": "%s", "caption": "a"}' % (b"a" * 5000),
        "line 1: there is no image aaa.*…",
    ),
    OddFile(
        "captions",
        "a quotation mark without its partner",
        "captions.txt",
        lambda: b'image,caption\na.png,"a\n' + b"a b c d\n" * 30_000,
        "does a quotation mark lack its partner",
    ),
]

VECTORS = [
    OddFile("vectors", "sizes beyond all memory", "a", always(b"1000000000 1000000000\n"), "and the file has 22"),
    OddFile("vectors", "sizes beyond all numbers", "a", lambda: b"9" * 40 + b" " + b"9" * 40, "and the file has 81"),
    OddFile("vectors", "a negative count", "a", always(b"-1 5\n"), "line 1: .*two numbers"),
    OddFile("vectors", "one number", "a", always(b"5\n"), "line 1: .*two numbers"),
    OddFile("vectors", "fewer words", "a", always(b"9 2\na 1 1\nb 1 1\n"), "line 4: the file ends after 2 words"),
    OddFile("vectors", "more words", "a", always(b"1 2\na 1 1\nb 1 1\n"), "goes on after the 1 words"),
    OddFile("vectors", "more words in binary", "a", lambda: b"1 1\na " + floats(3) + b"\nb " + floats(4), "goes on"),
    OddFile("vectors", "longer vectors", "a", always(b"2 1\na 1 1\nb 1 1\n"), "line 2: 2 numbers .* promises 1"),
    OddFile("vectors", "no word", "a", always(b"2 2\n 1 1\nb 1 1\n"), "line 2: 1 numbers .* promises 2"),
    OddFile("vectors", "NaN", "a", always(b"2 2\na 1 1\nb nan 1\n"), "vector of 'b' .* not finite"),
    OddFile(
        "vectors", "infinity in binary", "a", lambda: b"1 1\na " + floats(float("inf")), "vector of 'a' .* not fin"
    ),
    OddFile("vectors", "more than a float holds", "a", always(b"1 2\na 1e99 1\n"), "vector of 'a' .* not finite"),
    OddFile("vectors", "a word without end", "a.gz", lambda: bomb(b"1 2\n", b"a"), "word 1 of 1 does not end"),
    OddFile("vectors", "a line without end", "a.gz", lambda: bomb(b"1 2\na 1 ", b"1"), "goes on after the 1"),
]

ARPAS = [
    OddFile("arpa", "more unigrams announced", "a", lambda: arpa(b"9" * 18), "announces 999,.* and here are 3"),
    OddFile("arpa", "fewer unigrams announced", "a", lambda: arpa(b"2"), "more 1-grams than the 2"),
    OddFile("arpa", "more bigrams announced", "a", lambda: arpa(b"3", b"9" * 5), "announces 99,999 2-grams"),
    OddFile("arpa", "a count of 5,000 digits", "a", lambda: arpa(b"9" * 5000), "where ngram 1=... should"),
    OddFile(
        "arpa",
        "5,000 orders",
        "a",
        lambda: b"\\data\\" + b"".join(map(b"\nngram %d=1".__mod__, range(1, 5000))),
        "ends",
    ),
    OddFile(
        "arpa",
        "a line too long",
        "a",
        lambda: arpa(b"3", first=b"a" * (1 << 21)),
        "line 6: the line has more than 1,048,576",
    ),
    OddFile("arpa", "a long field", "a", lambda: arpa(b"3", first=b"a" * 1000), "aaa… is not a log-probability"),
    OddFile("arpa", "a line without end", "a.gz", lambda: bomb(b"", b"a"), "line 1: the line has more than 1,048,576"),
    OddFile("arpa", "another text", "a.gz", lambda: bomb(b"", b"words\n"), "line 10001: no line up to here reads"),
    OddFile("arpa", "NaN", "a", lambda: arpa(b"3", first=b"nan <s>"), "nan is not a log-probability"),
]

YAMLS = [
    OddFile("yaml", "lists that unfold", "a.yaml", lambda: unfolding("[x]", "[%s]"), "aliases unfold to so many"),
    OddFile("yaml", "merges that unfold", "a.yaml", lambda: unfolding("{x: 1}", "{<<: [%s]}"), "aliases unfold"),
    OddFile("yaml", "a list within itself", "a.yaml", always(b"a: &a [*a]"), "aliases unfold to so many"),
    OddFile("yaml", "a mapping within itself", "a.yaml", always(b"data: &a {train: *a}"), "aliases unfold to so many"),
    OddFile("yaml", "an alias", "a.yaml", always(b"description: &a time-machine\ndata: {train: *a}")),
    OddFile("yaml", "lists without end", "a.yaml", lambda: b"a: " + DEEP[:600], "nested too deeply"),
    OddFile("yaml", "17 MB", "a.yaml", lambda: b"# comment\n" * (1 << 21), "more than 16,777,216 characters"),
    OddFile("yaml", "a key twice", "a.yaml", always(b"seed: 1\ntext: {}\nseed: 2"), "line 3.*'seed' .* second time"),
    OddFile("yaml", "a number as a key", "a.yaml", always(b"1: 2"), "line 1.*key must be a text"),
    OddFile("yaml", "nothing as a key", "a.yaml", always(b"seed: 1\n~: 2"), "line 2.*key must be a text"),
    OddFile("yaml", "a list as a key", "a.yaml", always(b"[a]: 2"), "key must be a text"),
    OddFile("yaml", "a date", "a.yaml", always(b"description: 2001-01-01")),
    OddFile("yaml", "no date", "a.yaml", always(b"description: 2001-99-99")),
    OddFile("yaml", "an underscore in a number", "a.yaml", always(b"seed: 1_000")),
    OddFile("yaml", "a number without digits", "a.yaml", always(b"seed: 0x_"), "line 1.*'0x_' cannot be read"),
    OddFile("yaml", "5,000 digits", "a.yaml", lambda: b"seed: " + b"9" * 5000, r"999\.\.\.999.*cannot be read"),
    OddFile("yaml", "a tag that does not fit", "a.yaml", always(b"seed: !!int x"), "line 1.*tag .*:int' does not fit"),
    OddFile("yaml", "no truth", "a.yaml", always(b"description: !!bool x"), "tag .*:bool' does not fit"),
    OddFile("yaml", "bytes", "a.yaml", always(b"description: !!binary aGk="), "tag .*:binary' does not fit"),
    OddFile("yaml", "a set", "a.yaml", always(b"description: !!set {a, b}"), "tag .*:set' does not fit"),
    OddFile("yaml", "an object", "a.yaml", always(b"seed: !!python/object:os.system x"), "does not fit"),
    OddFile("yaml", "a control character", "a.yaml", always(b'description: "\x01"'), "character 15 is none"),
    OddFile("yaml", "a tab", "a.yaml", always(b"training:\n\tsteps: 1"), "line 2"),
    OddFile("yaml", "a long value", "a.yaml", lambda: b"seed: " + b"x" * 10**5, r"xxx\.\.\.xxx"),
    OddFile("yaml", "many mistakes", "a.yaml", lambda: b"\n".join(map(b"k%d: 1".__mod__, range(99))), "; 91 more$"),
    OddFile("yaml", "two documents", "a.yaml", always(b"seed: 1\n---\nseed: 2"), "another document"),
]

ODD_FILES = [*PICTURES, *IDX, *TEXTS, *RECORDS, *LABELLED, *CAPTIONS, *VECTORS, *ARPAS, *YAMLS]
