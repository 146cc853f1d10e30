"""N-grams counted on Spark are those counted here, whatever the files are like; and mistakes are explained."""

from __future__ import annotations

import gzip
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import chdir
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import seqloom
from seqloom.config.schema.text import BpeText, CharacterText, TextConfig, WhitespaceText, WordText
from seqloom.errors import DataError, UserError
from seqloom.models.ngram import spark
from seqloom.models.ngram.counting import Counts, count, sorted_windows
from seqloom.models.ngram.spark import SparkText, spark_session
from seqloom.text.kinds import train_tokenizer
from seqloom.text.reading import read_lines
from seqloom.text.special import EOS
from seqloom.text.tokenizer import Tokenizer

PAGE = Path(__file__).parent.parent.parent / "docs" / "spark.md"

# Every line end there is, and white space that is none; a byte order mark, twice; a last line without its end.
ODD = (
    "\ufeff\ufeffone two two\r\n"
    "\r\n"
    "\n"
    "three\x0cthree four\rfour\u2028five\u2029five\x85six six\n"
    "\u00a0six\u3000seven \t seven\x1cseven\x0beight\r\r\n"
    "日本語 日本語 😀 é é 😀\r\n"
    "<bos> <unk> <eos>\n"
    " \n"
    "one two three"
)


@pytest.fixture(scope="module")
def spark_output() -> Iterator[Path]:
    """Spark on two cores for the tests that follow, in tasks of a few bytes; the file that has its standard output."""
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'seqloom[spark]'")
    if not spark._java():
        pytest.skip("Java is not installed: Spark needs Java 17 or newer")
    with tempfile.NamedTemporaryFile() as file, pytest.MonkeyPatch.context() as patch:
        for name in ("PYSPARK_PYTHON", "SPARK_LOCAL_IP"):
            patch.delenv(name, raising=False)  # set by seqloom, and as before when the tests are over
        # For jobs so small, compiling takes longer than it saves.
        patch.setenv("PYSPARK_SUBMIT_ARGS", "--driver-java-options -XX:TieredStopAtLevel=1 pyspark-shell")
        kept = os.dup(1)
        os.dup2(file.fileno(), 1)
        try:
            session = spark_session("local[2]")
            started = session.__enter__()
        finally:
            os.dup2(kept, 1)
            os.close(kept)
        started.conf.set("spark.sql.codegen.wholeStage", "false")
        started.conf.set("spark.sql.files.maxPartitionBytes", "200")  # cuts lines in two
        started.conf.set("spark.sql.files.openCostInBytes", "1")
        yield Path(file.name)
        session.__exit__(None, None, None)


@pytest.fixture(scope="module")
def odd_files(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("odd")
    plain, zipped, named = folder / "odd.txt", folder / "odd.txt.gz", folder / "a [b] {c} *%20é.txt"
    plain.write_bytes(ODD.encode())
    zipped.write_bytes(gzip.compress(ODD.encode()) + gzip.compress(b"\r\n\nseven eight\n"))
    named.write_bytes(b"nine \\ ten\nten\n")
    return list(map(str, [plain, zipped, named, plain]))


def counted_here(files: list[str], tokenizer: Tokenizer, order: int) -> Counts:
    lines = [line for file in files for line in read_lines(Path(file))]
    return count(np.array([id for line in lines for id in [*tokenizer.encode(line), EOS]]), order, tokenizer.size)


def assert_same(counts: Counts, expected: Counts) -> None:
    assert counts.trie.levels == expected.trie.levels
    np.testing.assert_array_equal(counts.trie.words, expected.trie.words)
    np.testing.assert_array_equal(counts.trie.first, expected.trie.first)
    np.testing.assert_array_equal(counts.counts, expected.counts)
    assert newest_last(counts) == newest_last(expected)


def newest_last(counts: Counts) -> list[int]:
    """The words in the order in which the text first has them."""
    assert counts.appearance is not None
    words = np.flatnonzero(counts.appearance >= 0)
    return [word for word in words[counts.appearance[words].argsort()].tolist() if word != EOS]


# ---------------------------------------------------------------------------------------------------- the same counts


@pytest.mark.parametrize(
    ("config", "order"),
    [
        (WhitespaceText(min_count=2), 5),
        (WordText(lowercase=True, max_size=8), 3),
        (CharacterText(max_size=20), 4),
        (BpeText(max_size=270), 1),
    ],
    ids=lambda value: getattr(value, "kind", value),
)
def test_tokeniser_and_counts_are_those_of_the_local_engine(
    spark_output: Path, odd_files: list[str], config: TextConfig, order: int
) -> None:
    expected = train_tokenizer(config, [line for file in odd_files for line in read_lines(Path(file))])
    with SparkText.open(odd_files) as text:
        tokenizer = text.train_tokenizer(config)
        counts = text.count_ngrams(tokenizer, order)
    assert tokenizer.to_json() == expected.to_json()
    assert_same(counts, counted_here(odd_files, expected, order))


@pytest.mark.parametrize("bucket", [1, 500])
def test_counts_do_not_depend_on_the_number_of_buckets(
    spark_output: Path, corpus_file: Path, monkeypatch: pytest.MonkeyPatch, bucket: int
) -> None:
    monkeypatch.setattr(spark, "BUCKET", bucket)
    tokenizer = train_tokenizer(WhitespaceText(min_count=20), read_lines(corpus_file))
    with SparkText.open(str(corpus_file)) as text:
        counts = text.count_ngrams(tokenizer, 3)
    assert_same(counts, counted_here([str(corpus_file)], tokenizer, 3))


BLOCKS = st.lists(st.lists(st.lists(st.integers(4, 7), max_size=6), min_size=1, max_size=5), min_size=1, max_size=4)


@given(blocks=BLOCKS, order=st.integers(1, 4), data=st.data())
def test_windows_dealt_out_to_buckets_and_merged_there_are_sorted(
    blocks: list[list[list[int]]], order: int, data: st.DataObject
) -> None:
    arrays = [np.array([id for unit in block for id in [*unit, EOS]]) for block in blocks]
    windows, seen = sorted_windows(np.concatenate(arrays), order)
    borders = np.unique(spark._keys(windows[data.draw(st.lists(st.integers(0, len(windows) - 1), max_size=3))]))
    dealt = [part for array in arrays for part in spark._deal(*sorted_windows(array, order), borders)]
    assert {bucket for bucket, _ in dealt} <= set(range(len(borders) + 1))
    merged = [
        block
        for number in range(len(borders) + 1)
        for block in spark._merge(part for part in dealt if part[0] == number)
    ]
    np.testing.assert_array_equal(np.concatenate([some for some, _ in merged]), windows)
    np.testing.assert_array_equal(np.concatenate([times for _, times in merged]), seen)


def test_borders_part_the_windows_evenly(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "BUCKET", 100)
    keys = spark._keys(np.arange(1000, dtype=np.int32)[:, None])
    borders = spark._borders(400, [keys[::2], keys[1::2]])
    assert np.searchsorted(keys, borders).tolist() == [250, 500, 750]


def test_what_memory_cannot_hold_is_counted_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spark, "DISTINCT", 1)
    pairs = list(spark._count_tokens(["A b", "a", "B b"], str.split, lowercase=True))
    assert sorted(pairs) == [("a", 1), ("a", 1), ("b", 1), ("b", 2)]


# -------------------------------------------------------------------------------------------------------- the session


def test_a_session_that_runs_is_used_and_left_running(spark_output: Path, corpus_file: Path) -> None:
    with SparkText.open(str(corpus_file), master="local[1]") as text:
        context = text.session.sparkContext
    assert context.master == "local[2]"
    assert context.parallelize([1, 2]).sum() == 3


def test_workers_use_this_python(spark_output: Path, corpus_file: Path) -> None:
    with spark_session() as session:
        assert session.sparkContext.parallelize([0], 1).map(lambda _: sys.executable).collect() == [sys.executable]


def test_the_example_of_the_documentation_runs(spark_output: Path, corpus_file: Path, tmp_path: Path) -> None:
    (tmp_path / "my.txt").write_bytes(corpus_file.read_bytes())
    examples = re.findall(r"^```py\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    assert len(examples) == 1
    with chdir(tmp_path):
        exec(examples[0], {"__name__": "example"})


def test_without_pyspark_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch, corpus_file: Path) -> None:
    monkeypatch.setitem(sys.modules, "pyspark.sql", None)
    with pytest.raises(UserError, match=r"pip install 'seqloom\[spark\]'"), SparkText.open(str(corpus_file)):
        pass


def test_without_a_java_that_works_the_error_says_so(tmp_path: Path) -> None:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'seqloom[spark]'")
    java = tmp_path / "bin" / "java"
    java.parent.mkdir()
    java.write_text("#!/bin/sh\nexit 1\n", encoding="utf-8")
    java.chmod(0o755)
    program = (
        "import os, sys\n"
        "from seqloom.errors import UserError\n"
        "from seqloom.models.ngram.spark import spark_session\n"
        "for os.environ['PATH'], os.environ['JAVA_HOME'] in zip(sys.argv[1::2], sys.argv[2::2]):\n"
        "    try:\n"
        "        spark_session().__enter__()\n"
        "    except UserError as error:\n"
        "        print(error)\n"
    )
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK", "PYSPARK"))}
    command = [sys.executable, "-c", program, "", "", "", str(tmp_path / "none"), os.environ["PATH"], str(tmp_path)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    missing, elsewhere, failing = done.stdout.splitlines()
    assert (
        missing == elsewhere == "counting on Spark needs Java 17 or newer: install it, or set JAVA_HOME to where it is"
    )
    assert re.match(r"Spark did not start on local\[\*\]: .* Java is 17 or newer$", failing)


# ----------------------------------------------------------------------------------------------------------- mistakes


def test_broken_utf8_is_an_error_that_names_file_line_and_byte(spark_output: Path, tmp_path: Path) -> None:
    good, bad = tmp_path / "good.txt", tmp_path / "bad file.txt"
    good.write_bytes("a \ufffd b\n".encode())  # the replacement character itself is a character like others
    bad.write_bytes(b"a\n" * 100 + b"caf\xe9 b\n")
    tokenizer = train_tokenizer(WhitespaceText(), ["a b"])
    with SparkText.open([str(good), str(bad)]) as text:
        with pytest.raises(DataError, match=r"bad file\.txt, line 101: not UTF-8 \(byte 0xe9 at offset 3"):
            text.count_ngrams(tokenizer, 2)
        for config in (WhitespaceText(), BpeText(max_size=260)):
            with pytest.raises(DataError, match=r"bad file\.txt, line 101: not UTF-8"):
                text.train_tokenizer(config)


def test_a_gzipped_file_of_another_name_is_an_error(spark_output: Path, tmp_path: Path) -> None:
    file = tmp_path / "zipped.txt"
    file.write_bytes(gzip.compress(b"one two\n"))
    with SparkText.open(str(file)) as text, pytest.raises(DataError, match=r"zipped\.txt.*must end in \.gz"):
        text.train_tokenizer(WhitespaceText())


def test_a_text_to_learn_nothing_from_is_an_error(spark_output: Path, tmp_path: Path, corpus_file: Path) -> None:
    empty = tmp_path / "empty.txt"
    empty.write_bytes(b"")
    with SparkText.open(str(empty)) as text:
        with pytest.raises(DataError, match="training text is empty"):
            text.train_tokenizer(CharacterText())
        with pytest.raises(DataError, match=r"empty\.txt: the corpus is empty"):
            text.count_ngrams(train_tokenizer(WhitespaceText(), ["a b"]), 2)
    with (
        SparkText.open(str(corpus_file)) as text,
        pytest.raises(DataError, match=r"seen 1000 times \(the most frequent: \d+\); lower text\.min_count"),
    ):
        text.train_tokenizer(WhitespaceText(min_count=1000))


def test_an_address_that_leads_nowhere_is_an_error(spark_output: Path, tmp_path: Path) -> None:
    with SparkText.open(f"file://{tmp_path}/none.txt") as text, pytest.raises(DataError, match=r"none\.txt"):
        text.train_tokenizer(WhitespaceText())


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("none.txt", "no such file"),
        (".", "is a folder"),
        ("_hidden.txt", "begin with '_'"),
        (".hidden.txt", "begin with '.'"),
        ("co:lon.txt", "colon"),
        ("records.jsonl", "JSON records"),
        ("hdfs://host/records.jsonl.gz", "JSON records"),
    ],
)
def test_what_spark_would_misread_is_refused_before_it_starts(tmp_path: Path, name: str, message: str) -> None:
    with chdir(tmp_path):
        if message not in ("no such file", "is a folder") and "://" not in name:
            Path(name).write_text("one two\n", encoding="utf-8")
        with pytest.raises(DataError, match=re.escape(message)), SparkText.open(name):
            pass


def test_units_other_than_lines_are_refused(corpus_file: Path) -> None:
    with pytest.raises(UserError, match=r"set data\.unit=line"), SparkText.open(str(corpus_file), "paragraph"):
        pass


@pytest.mark.parametrize("address", ["hdfs://host:9000/folder/*.txt", "s3a://bucket/part-00000.gz"])
def test_addresses_are_passed_on_as_they_are(address: str) -> None:
    assert spark._location(address) == address


def test_a_damaged_file_is_named_and_standard_output_is_left_alone(spark_output: Path, tmp_path: Path) -> None:
    damaged = tmp_path / "damaged.gz"
    damaged.write_bytes(gzip.compress(b"one two\n" * 1000)[:-20])
    with SparkText.open(str(damaged)) as text, pytest.raises(DataError, match=r"damaged\.gz .*end of input"):
        text.train_tokenizer(WhitespaceText())
    assert spark_output.read_bytes() == b""


def test_a_run_counted_on_spark_is_the_run_counted_here(spark_output: Path, tmp_path: Path) -> None:
    text = Path(__file__).parent.parent / "fixtures" / "arpa" / "last.txt"  # where the order of the words matters
    settings = [f"data.train={text}", "text.kind=whitespace", "model.order=3"]
    for name, engine in (("spark", ["engine=spark"]), ("here", [])):
        seqloom.train("ngram", [*settings, *engine], tmp_path / name)
    for file in ("model.safetensors", "assets/tokenizer.json"):
        assert (tmp_path / "spark" / file).read_bytes() == (tmp_path / "here" / file).read_bytes()
    with pytest.raises(UserError, match=r"data\.valid"):
        seqloom.train("ngram", [*settings, "engine=spark", "data.valid_fraction=0.1"], tmp_path / "held-out")
