"""Counting on Apache Spark, for text that one machine would not read in time: the same counts as `count` gives.

The workers encode lines, cut them into windows and sort these in blocks. Windows are then dealt out to *buckets*, each
of which takes a stretch of their order: sorted bucket by bucket, one bucket after the other, they are sorted. Only the
distinct windows come back.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import add
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlsplit

import numpy as np
from numpy.typing import NDArray

from seqloom.config.schema.text import CharacterText, TextConfig, WhitespaceText, WordText
from seqloom.data.corpora import resolve
from seqloom.errors import ConfigError, DataError, SeqloomError, UserError
from seqloom.models.ngram.counting import Counts, counts_of_windows, sorted_windows
from seqloom.text.characters import CharacterTokenizer
from seqloom.text.chunks import in_chunks
from seqloom.text.kinds import KINDS, train_tokenizer
from seqloom.text.reading import conversion, read_lines
from seqloom.text.special import EOS, SPECIALS
from seqloom.text.tokenizer import Tokenizer, VocabularyTokenizer
from seqloom.text.words import WhitespaceTokenizer, WordTokenizer

if TYPE_CHECKING:
    from pyspark import RDD, Accumulator
    from pyspark.sql import DataFrame, SparkSession

CHUNK = 1 << 20  # characters that a worker encodes at a time
BUCKET = 1 << 20  # windows that a worker sorts at a time
SAMPLED = 1 << 10  # one token of so many tells how windows are spread
DISTINCT = 1 << 20  # different tokens that a worker counts before it passes them on

Block = tuple[NDArray[np.int32], NDArray[np.int64]]
"""Distinct windows in order, and how often each was seen."""

COUNTED: dict[str, type[VocabularyTokenizer]] = {
    kind.kind: kind for kind in (WordTokenizer, WhitespaceTokenizer, CharacterTokenizer)
}


# ------------------------------------------------------------------------------------------------------- session


@contextmanager
def spark_session(master: str | None = None) -> Iterator[SparkSession]:
    """The Spark session there is or, while the block lasts, a new one on `master`; on this machine if none is named.

    Under `spark-submit` the master, the name and the logs have been settled by it.
    """
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        raise UserError(
            "counting on Spark needs pyspark: pip install 'seqloom[spark]' (and Java 17 or newer)"
        ) from None
    running = SparkSession.getActiveSession()
    if running is not None:
        yield running
        return
    session = _start(SparkSession.builder, master or "local[*]")
    try:
        yield session
    finally:
        session.stop()


def _start(builder: SparkSession.Builder, master: str) -> SparkSession:
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if "PYSPARK_GATEWAY_PORT" not in os.environ:  # set by spark-submit
        if not _java():
            raise UserError("counting on Spark needs Java 17 or newer: install it, or set JAVA_HOME to where it is")
        builder = builder.appName("seqloom").master(master)
        builder = builder.config("spark.log.level", "ERROR").config("spark.ui.showConsoleProgress", "false")
        # One worker runs on each core already.
        builder = builder.config("spark.executorEnv.TOKENIZERS_PARALLELISM", "false")
        if master.startswith("local"):
            os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
            builder = builder.config("spark.ui.enabled", "false")
    try:
        return builder.getOrCreate()
    except _failures() as error:
        raise UserError(
            f"Spark did not start on {master}: {_reason(error)}; check engine.master, and that Java is 17 or newer"
        ) from error


def _java() -> str | None:
    """The Java that Spark will take."""
    home = os.environ.get("JAVA_HOME")
    return shutil.which("java", path=f"{home}/bin" if home else None)


@contextmanager
def _spark_errors() -> Iterator[None]:
    """What Spark raises, as one line."""
    try:
        yield
    except _failures() as error:
        unreadable = any(name in str(error) for name in ("PATH_NOT_FOUND", "FAILED_READ_FILE"))
        kind = DataError if unreadable else SeqloomError
        raise kind(f"counting on Spark failed: {_reason(error)}") from error


def _failures() -> tuple[type[Exception], ...]:
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

    return Py4JError, PySparkException


def _reason(error: Exception) -> str:
    """What happened, out of an error of a hundred lines: what Spark says in the first, and the cause of the causes."""
    messages = []
    java = getattr(error, "java_exception", None)
    while java is not None:
        messages.append(_telling_line(java.getMessage() or java.toString()))
        java = java.getCause()
    messages = messages or [_telling_line(str(error))]
    return messages[0] if messages[-1] in messages[0] else f"{messages[0]} ({messages[-1]})"


def _telling_line(message: str) -> str:
    lines = re.sub(r"SQLSTATE: \w+", "", message).strip().splitlines() or [message]
    line = lines[-1] if "Traceback (most recent call last)" in message else lines[0]
    return line.strip().removesuffix(".")


# ---------------------------------------------------------------------------------------------------------- text


@dataclass(frozen=True)
class SparkText:
    """Text files that Spark reads. Each line is one unit."""

    session: SparkSession
    paths: tuple[str, ...]
    """As Spark is given them."""

    @classmethod
    @contextmanager
    def open(cls, files: str | Sequence[str], unit: str = "line", master: str | None = None) -> Iterator[SparkText]:
        """Files by path, or by an address such as hdfs://... or s3a://..., which may be a folder or a pattern."""
        if unit != "line":
            raise ConfigError(
                f"Spark counts text by lines, not by {unit}: set data.unit=line, or leave engine=spark out"
            )
        paths = tuple(map(_location, [files] if isinstance(files, str) else files))
        with spark_session(master) as session:
            yield cls(session, paths)

    def train_tokenizer(self, config: TextConfig) -> Tokenizer:
        """The tokeniser that `config` describes, learnt from these lines.

        Words and characters are counted by the workers. Subwords are learnt here, from all lines one after the other.
        """
        with _spark_errors():
            if isinstance(config, WordText | WhitespaceText | CharacterText):
                return self._counted(config)
            return train_tokenizer(config, self._stream())

    def _stream(self) -> Iterator[str]:
        broken = self._counter()
        yield from self._lines(broken).toLocalIterator()
        self._refuse(broken)

    def _counted(self, config: WordText | WhitespaceText | CharacterText) -> Tokenizer:
        broken = self._counter()
        kind, lowercase, min_count = COUNTED[config.kind], config.lowercase, config.min_count
        counts = (
            self._lines(broken)
            .mapPartitions(lambda lines: _count_tokens(lines, kind.split, lowercase))
            .reduceByKey(add)
        )
        frequent = counts.filter(lambda pair: pair[1] >= min_count)
        if config.max_size is None:
            pairs = frequent.collect()
        else:
            pairs = frequent.takeOrdered(config.max_size + len(SPECIALS), _most_frequent_first)
        self._refuse(broken)
        # Where none is frequent enough, one that is not makes the error say how frequent it is.
        pairs = pairs or counts.takeOrdered(1, _most_frequent_first)
        return kind.of_counts(dict(pairs), lowercase, min_count, config.max_size)

    def count_ngrams(self, tokenizer: Tokenizer, order: int) -> Counts:
        """Count the n-grams of up to `order` tokens: what `count` gives for the same lines."""
        broken = self._counter()
        document = tokenizer.to_json()
        with (
            _spark_errors(),
            _kept(self._lines(broken).mapPartitions(lambda lines: _encode(lines, document))) as encoded,
        ):
            samples = encoded.map(lambda tokens: (len(tokens), _sample(tokens, order))).collect()
            self._refuse(broken)
            if not samples:
                raise DataError(f"{', '.join(self.paths)}: the corpus is empty: there is no text to learn from")
            borders = _borders(sum(length for length, _ in samples), [sample for _, sample in samples])
            dealt = encoded.flatMap(lambda tokens: _deal(*sorted_windows(tokens, order), borders))
            appearance = self._appearance(document, tokenizer.size)
            with _kept(dealt.partitionBy(len(borders) + 1, int).mapPartitions(_merge)) as buckets:
                return counts_of_windows(*_gather(buckets, order), tokenizer.size, appearance)

    def _appearance(self, document: dict[str, Any], vocabulary_size: int) -> NDArray[np.int64]:
        """The tokens numbered as they are first seen, the files read in the order in which they were named."""
        rows = self._table().select("value", "_metadata.file_path", "_metadata.file_block_start").rdd
        named = [_plain(re.sub(r"\\(.)", r"\1", path)) for path in self.paths]  # without the marks against patterns
        first_seen = rows.mapPartitions(lambda rows: _first_seen(rows, document, named)).reduceByKey(min).collect()
        first_seen.sort(key=lambda pair: pair[1])
        appearance = np.full(vocabulary_size, -1)
        appearance[[token for token, _ in first_seen]] = np.arange(len(first_seen))
        return appearance

    def _table(self) -> DataFrame:
        # Spark takes a byte order mark off. Of itself it would end lines at a lone "\r", too.
        return self.session.read.option("lineSep", "\n").text(list(self.paths))

    def _lines(self, broken: Accumulator[int]) -> RDD[str]:
        """The lines, as `read_lines` gives them (but for a "\\r" that is the last character of a file).

        A line that is not UTF-8 is counted in `broken`. It raises nothing, since every attempt of every worker would
        print pages about it.
        """
        from pyspark.sql.functions import try_validate_utf8

        return self._table().select(try_validate_utf8("value")).rdd.mapPartitions(lambda rows: _texts(rows, broken))

    def _counter(self) -> Accumulator[int]:
        return self.session.sparkContext.accumulator(0)

    def _refuse(self, broken: Accumulator[int]) -> None:
        """An error that names the file if a line was not UTF-8."""
        if not broken.value:
            return
        row = self._table().filter("not is_valid_utf8(value)").select("_metadata.file_path").head()
        address = row[0] if row else ", ".join(self.paths)
        if address.startswith("file:"):
            deque(read_lines(Path(unquote(urlsplit(address).path))), maxlen=0)  # its error names the line and the byte
        raise DataError(f"{address}: not UTF-8; {conversion(address)} (and the name of a gzipped file must end in .gz)")


def _plain(address: str) -> str:
    """An address without what is said in different ways: file:/a and file:///a."""
    return re.sub(r"^\w+:/*", "", address)


def _location(name: str) -> str:
    """The address of a file for Spark; what Spark would refuse in its own words or pass over in silence is refused."""
    if "://" in name:
        location = name
    else:
        path = resolve(name).absolute()
        if ":" in path.name:
            raise DataError(f"{name}: Spark cannot read a file with a colon in its name; rename it")
        location = "file://" + re.sub(r"([\\*?\[\]{}])", r"\\\1", str(path))  # these would make a pattern of it
    last = location.rsplit("/", 1)[-1]
    if last.startswith(("_", ".")):
        raise DataError(f"{name}: Spark passes over files whose names begin with {last[0]!r}; rename it")
    if last.lower().endswith((".jsonl", ".jsonl.gz")):
        raise DataError(f"{name}: Spark counts plain text, one text per line, not JSON records; write out their texts")
    return location


# ------------------------------------------------------------------------------------------------ on the workers


def _texts(rows: Iterable[Any], broken: Accumulator[int]) -> Iterator[str]:
    for (line,) in rows:
        if line is None:
            broken.add(1)
        else:
            yield line.removesuffix("\r")


def _count_tokens(
    lines: Iterable[str], split: Callable[[str], list[str]], lowercase: bool
) -> Iterator[tuple[str, int]]:
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(split(line.lower() if lowercase else line))
        if len(counts) > DISTINCT:
            yield from counts.items()
            counts.clear()
    yield from counts.items()


def _most_frequent_first(pair: tuple[str, int]) -> tuple[int, str]:
    token, count = pair
    return -count, token


def _encode(lines: Iterable[str], document: dict[str, Any]) -> Iterator[NDArray[np.uint32]]:
    """The tokens of the lines, each with its `<eos>`, in arrays of whole lines."""
    tokenizer = KINDS[document["kind"]].from_json(document)
    end = np.array([EOS], np.uint32)
    for chunk in in_chunks(lines, len, CHUNK):
        yield np.concatenate([part for ids in tokenizer.encode_batch(chunk) for part in (ids, end)])


def _first_seen(
    rows: Iterable[Any], document: dict[str, Any], named: list[str]
) -> Iterator[tuple[int, tuple[int, str, int, int]]]:
    """Each token with the number of the file, the file, the part of it and the place there where it is first seen."""
    tokenizer = KINDS[document["kind"]].from_json(document)
    for (address, start), lines in groupby(rows, key=lambda row: (row[1], row[2])):
        file = _plain(unquote(address))
        number = [*named, file].index(file)
        seen: set[int] = set()
        place = 0
        for chunk in in_chunks((line.removesuffix("\r") for line, *_ in lines), len, CHUNK):
            ids, _ = tokenizer.encode_flat(chunk)
            tokens, places = np.unique(ids, return_index=True)
            for token, first in zip(tokens.tolist(), places.tolist(), strict=True):
                if token not in seen:
                    seen.add(token)
                    yield token, (number, file, start, place + first)
            place += len(ids)


def _keys(windows: NDArray[np.int32]) -> NDArray[np.bytes_]:
    """Windows as strings of bytes that sort as they do."""
    return (windows + 1).astype(">u4").view(f"S{4 * windows.shape[1]}").ravel()


def _sample(tokens: NDArray[np.uint32], order: int) -> NDArray[np.bytes_]:
    return _keys(sorted_windows(tokens[: -(-len(tokens) // SAMPLED)], order)[0])


def _deal(
    windows: NDArray[np.int32], seen: NDArray[np.int64], borders: NDArray[np.bytes_]
) -> Iterator[tuple[int, Block]]:
    """The block cut at the borders, each part with the number of its bucket."""
    cuts = [0, *np.searchsorted(_keys(windows), borders).tolist(), len(windows)]
    for bucket, (begin, end) in enumerate(pairwise(cuts)):
        if begin < end:
            yield bucket, (windows[begin:end], seen[begin:end])


def _merge(parts: Iterable[tuple[int, Block]]) -> Iterator[Block]:
    """All blocks of one bucket in one."""
    blocks = [block for _, block in parts]
    if not blocks:
        return
    windows = np.concatenate([windows for windows, _ in blocks])
    seen = np.concatenate([seen for _, seen in blocks])
    keys = _keys(windows)
    places = np.argsort(keys, kind="stable")  # this kind merges what is sorted already
    keys = keys[places]
    starts = np.flatnonzero(np.append(True, keys[1:] != keys[:-1]))
    yield windows[places[starts]], np.add.reduceat(seen[places], starts)


# ------------------------------------------------------------------------------------------------- on the driver


@contextmanager
def _kept(data: RDD[Any]) -> Iterator[RDD[Any]]:
    """Data that the workers keep while the block lasts, so that using them again does not compute them again."""
    from pyspark import StorageLevel

    data.persist(StorageLevel.MEMORY_AND_DISK)
    try:
        yield data
    finally:
        data.unpersist()


def _borders(tokens: int, samples: list[NDArray[np.bytes_]]) -> NDArray[np.bytes_]:
    """Where buckets of similar size begin, but for the first."""
    keys = np.sort(np.concatenate(samples))
    buckets = -(-tokens // BUCKET)
    return np.unique(keys[len(keys) * np.arange(1, buckets) // buckets])


def _gather(buckets: RDD[Block], order: int) -> Block:
    """All buckets in one block; they come one at a time, since Spark's own memory here is small."""
    sizes = buckets.map(lambda block: len(block[0])).collect()
    windows, seen = np.empty((sum(sizes), order), np.int32), np.empty(sum(sizes), np.int64)
    end = 0
    for some, times in buckets.toLocalIterator():
        begin, end = end, end + len(some)
        windows[begin:end], seen[begin:end] = some, times
    return windows, seen
