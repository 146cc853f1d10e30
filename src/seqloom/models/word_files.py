"""Files of word2vec, which gensim, spaCy and many others read and write.

The first line says how many words there are and how long their vectors. Then follow, in the text form, lines of a word
and its numbers; in the binary form, a word, a space and its numbers as they lie in memory (float32, little-endian).
"""

from __future__ import annotations

from io import BufferedReader
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from seqloom.errors import DataError
from seqloom.files import atomic_bytes
from seqloom.models.word_vectors import WordVectors
from seqloom.text.reading import open_bytes, room_for

LONGEST_WORD = 10_000  # bytes; more without a space means that the file is something else
LONGEST_NUMBER = 100  # bytes of a number written out, more than anybody writes
HEADER = 100  # bytes that the first line may take


def write_word2vec(vectors: WordVectors, path: Path, binary: bool = False) -> None:
    """Write a word2vec file, gzipped where the name ends in .gz. In text, nine digits give back the same floats."""
    for word in vectors.words:
        if not word or word.split() != [word]:
            raise DataError(f"a word2vec file cannot hold {word!r}: words there are not empty and hold no white space")
    numbers = " ".join(["%.9g"] * vectors.size)
    with atomic_bytes(path) as file:
        file.write(f"{len(vectors)} {vectors.size}\n".encode())
        for word, row in zip(vectors.words, vectors.vectors, strict=True):
            name = word.encode("utf-8", "surrogatepass") + b" "
            if binary:
                file.write(name + row.astype("<f4").tobytes() + b"\n")
            else:
                file.write(name + (numbers % tuple(row.tolist())).encode() + b"\n")


def read_word2vec(path: Path) -> WordVectors:
    """Read a word2vec file, text or binary, gzipped or not."""
    path = Path(path)
    with open_bytes(path) as file:
        count, size = _header(path, file)
        vectors = room_for(path, (count, size), np.float32, 2 * count * size)  # of a digit and a space, at least
        words = _read_text(path, file, vectors) if _is_text(file) else _read_binary(path, file, vectors)
        if file.read(HEADER).strip():
            raise DataError(f"{path} goes on after the {count:,} words that line 1 promises; is the first line right?")
    finite = np.isfinite(vectors).all(axis=1)
    if not finite.all():
        raise DataError(f"{path}: the vector of {words[int(finite.argmin())]!r} holds a number that is not finite")
    return WordVectors(words, vectors)


def is_word2vec(path: Path) -> bool:
    """Whether a file begins as word2vec's do, with two numbers alone in their line."""
    with open_bytes(path) as file:
        return _are_two_numbers(file.readline(HEADER).split())


def _are_two_numbers(fields: list[bytes]) -> bool:
    return len(fields) == 2 and all(field.isdigit() for field in fields)


def _header(path: Path, file: BufferedReader) -> tuple[int, int]:
    fields = file.readline(HEADER).split()
    if not _are_two_numbers(fields):
        raise DataError(f"{path}, line 1: a word2vec file begins with two numbers, how many words and how long vectors")
    count, size = map(int, fields)
    if not count or not size:
        raise DataError(f"{path}, line 1: there are no vectors in it")
    return count, size


def _is_text(file: BufferedReader) -> bool:
    """Whether what follows the first word reads as a number: no byte of such is above 127, and few others are alike."""
    after = file.peek(LONGEST_WORD).lstrip(b"\n").partition(b" ")[2][:24].split(b" ")[0]
    try:
        float(after.split(b"\n")[0])
    except ValueError:
        return False
    return True


def _read_text(path: Path, file: BufferedReader, vectors: NDArray[np.float32]) -> list[str]:
    count, size = vectors.shape
    words = []
    for row in range(count):
        line = file.readline(LONGEST_WORD + LONGEST_NUMBER * size)
        where = f"{path}, line {row + 2}"
        if not line:
            raise DataError(f"{where}: the file ends after {row:,} words, and line 1 promises {count:,}")
        fields = line.split()
        if len(fields) != size + 1:
            raise DataError(f"{where}: {len(fields[1:])} numbers after a word, and line 1 promises {size}")
        try:
            with np.errstate(over="ignore"):  # what is too large becomes infinite, which is refused in the end
                vectors[row] = np.array(fields[1:], np.float32)
            words.append(fields[0].decode())
        except UnicodeDecodeError:
            raise DataError(f"{where}: the word is not UTF-8") from None
        except ValueError as error:
            raise DataError(f"{where}: {error}") from None
    return words


def _read_binary(path: Path, file: BufferedReader, vectors: NDArray[np.float32]) -> list[str]:
    count, size = vectors.shape
    words = []
    for row in range(count):
        name = bytearray()
        while (byte := file.read(1)) != b" ":
            if not byte or len(name) > LONGEST_WORD:
                raise DataError(_broken(path, row, count, file))
            name += byte
        numbers = file.read(4 * size)
        if len(numbers) < 4 * size:
            raise DataError(_broken(path, row, count, file))
        vectors[row] = np.frombuffer(numbers, "<f4")
        try:
            words.append(bytes(name).lstrip(b"\n").decode())
        except UnicodeDecodeError:
            raise DataError(f"{path}, byte {file.tell() - len(numbers)}: word {row + 1} is not UTF-8") from None
    return words


def _broken(path: Path, row: int, count: int, file: BufferedReader) -> str:
    return f"{path}, byte {file.tell()}: word {row + 1} of {count:,} does not end where it should; is the file whole?"
