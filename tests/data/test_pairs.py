"""Pairs from aligned files, TSV, JSONL and the bundled corpora, and the part that is held out."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.pairs import Pair, PairCorpus
from seqloom.errors import DataError

PAIRS = [Pair("one", ("eins",)), Pair("two", ("zwei",)), Pair("three", ("drei",))]


def written(folder: Path, **files: str) -> list[str]:
    """The paths of files written with these contents; `a_txt` is a.txt."""
    paths = []
    for name, content in files.items():
        path = folder / name.replace("_", ".")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(gzip.compress(content.encode()) if path.suffix == ".gz" else content.encode())
        paths.append(str(path))
    return paths


# ------------------------------------------------------------------------------------------------------------ reading


@pytest.mark.parametrize("end", ["", "_gz"])
def test_aligned_files_are_read_line_by_line(end: str, tmp_path: Path) -> None:
    source, target = written(tmp_path, **{f"a_en{end}": "one\ntwo\nthree\n", f"a_de{end}": "eins\r\nzwei\r\ndrei"})
    assert list(PairCorpus.open(f"{source},{target}")) == PAIRS
    assert list(PairCorpus.open(f"{source}, {target}")) == PAIRS
    assert list(PairCorpus.open([source, target])) == PAIRS


@pytest.mark.parametrize("name", ["a_tsv", "a_tsv_gz", "a_txt", "a"])
def test_a_table_has_source_tab_target_and_more_references(name: str, tmp_path: Path) -> None:
    (path,) = written(tmp_path, **{name: "one\teins\ntwo\tzwei\tzwo\t\n"})
    assert list(PairCorpus.open(path)) == [Pair("one", ("eins",)), Pair("two", ("zwei", "zwo"))]


@pytest.mark.parametrize("name", ["a_jsonl", "a_jsonl_gz"])
def test_records_have_a_target_or_a_list_of_references(name: str, tmp_path: Path) -> None:
    records = [{"source": "one", "target": "eins", "id": 4}, {"source": "two", "target": ["zwei", "zwo"]}]
    (path,) = written(tmp_path, **{name: "\n\n".join(map(json.dumps, records))})
    assert list(PairCorpus.open(path)) == [Pair("one", ("eins",)), Pair("two", ("zwei", "zwo"))]


def test_the_keys_of_records_can_be_chosen(tmp_path: Path) -> None:
    (path,) = written(tmp_path, a_jsonl='{"dialogue": "one", "summary": "eins"}\n')
    assert list(PairCorpus.open(path, "dialogue", "summary")) == PAIRS[:1]


def test_more_aligned_files_are_more_references(tmp_path: Path) -> None:
    paths = written(tmp_path, src="one\ntwo\n", ref0="eins\n\n", ref1="1\nzwei\n")
    assert list(PairCorpus.open(",".join(paths))) == [Pair("one", ("eins", "1")), Pair("two", ("zwei",))]


def test_several_files_follow_one_another_however_they_are_named(tmp_path: Path) -> None:
    source, target, table, records = written(
        tmp_path, a_en="one\n", a_de="eins\n", b_tsv="two\tzwei\n", c_jsonl='{"source": "three", "target": "drei"}\n'
    )
    assert list(PairCorpus.open([f"{source},{target}", table, records])) == PAIRS
    assert list(PairCorpus.open([source, target, f"{table},{records}"])) == PAIRS
    assert list(PairCorpus.open([source, target, source, target])) == PAIRS[:1] * 2


def test_a_file_whose_name_has_a_comma_is_that_file(tmp_path: Path) -> None:
    path = tmp_path / "a,b.tsv"
    path.write_text("one\teins\n")
    assert list(PairCorpus.open(str(path))) == PAIRS[:1]


def test_the_bundled_pairs_are_there_without_their_credits() -> None:
    sizes = []
    for part in ("train", "valid", "test"):
        pairs = list(PairCorpus.open(f"tatoeba-en-zh:{part}"))
        assert all(len(pair.targets) == 1 and "CC-BY" not in pair.targets[0] for pair in pairs)
        sizes.append(len(pairs))
    assert sum(sizes) == 29_155
    assert next(iter(PairCorpus.open("tatoeba-en-zh"))) == Pair("Run.", ("你用跑的。",))


def test_a_word_with_several_pronunciations_has_as_many_references() -> None:
    pronunciations = dict(PairCorpus.open(["cmudict", "cmudict:valid", "cmudict:test"]))
    assert pronunciations["t h e"] == ("DH AH0", "DH AH1", "DH IY0")
    assert len(pronunciations) == 30_000


def test_the_fields_of_a_bundled_corpus_of_records_make_pairs() -> None:
    corpus = PairCorpus.open("tang-poems", source_field="text", target_field="title")
    poem = next(iter(corpus))
    assert poem.source.startswith("秦川雄帝宅，函谷壯皇居。")
    assert poem.targets == ("帝京篇十首 一",)
    assert len(list(corpus)) == 5745
    assert sum(pair.blank for pair in corpus.records()) == 16  # poems whose title is not known
    train, valid = corpus.hold_out(0.1)
    assert not set(train.sources()) & set(valid.sources())
    with pytest.raises(DataError, match=r"no key 'source' \(its keys: 'text', 'title', 'author'\); set data\.source_f"):
        list(PairCorpus.open("tang-poems"))


def test_lists_of_lines_are_joined_and_lists_of_references_are_not(tmp_path: Path) -> None:
    records = [{"title": ["Night", "thoughts"], "paragraphs": ["床前明月光，", "疑是地上霜。"]}]
    (path,) = written(tmp_path, a_jsonl="\n".join(map(json.dumps, records)))
    corpus = PairCorpus.open(path, "title", "paragraphs", "lines")
    assert list(corpus) == [Pair("Night thoughts", ("床前明月光，疑是地上霜。",))]
    as_references = PairCorpus.open(path, "title", "paragraphs")
    assert next(iter(as_references)).targets == ("床前明月光，", "疑是地上霜。")
    assert corpus.fingerprint != as_references.fingerprint


def test_blank_pairs_are_dropped_and_can_be_counted(tmp_path: Path) -> None:
    (path,) = written(tmp_path, a_tsv="one\teins\n\t \n  \tx\ny\t \n\ntwo\tzwei\n")
    corpus = PairCorpus.open(path)
    assert list(corpus) == PAIRS[:2]
    assert sum(pair.blank for pair in corpus.records()) == 4


def test_both_sides_can_be_had_on_their_own(tmp_path: Path) -> None:
    corpus = PairCorpus.open(written(tmp_path, a_en="one\n\ntwo\n", a_de="eins\nx\nzwei\n"))
    assert list(corpus.sources()) == ["one", "two"]
    assert list(corpus.targets()) == ["eins", "zwei"]
    assert list(corpus.texts()) == ["one", "eins", "two", "zwei"]


# ------------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(("source", "target"), [(3, 5), (5, 3), (0, 2)])
def test_misaligned_files_are_an_error_with_both_counts(source: int, target: int, tmp_path: Path) -> None:
    paths = written(tmp_path, a_en="x\n" * source, a_de="y\n" * target)
    with pytest.raises(DataError, match=rf"a\.en has {source} lines and .*a\.de has {target} lines"):
        list(PairCorpus.open(paths))


def test_a_line_without_a_tab_is_named(tmp_path: Path) -> None:
    (path,) = written(tmp_path, a_tsv="one\teins\n\ntwo zwei\n")
    with pytest.raises(DataError, match=r"a\.tsv, line 3: no tab"):
        list(PairCorpus.open(path))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ("{", "not a JSON record"),
        ('["one", "eins"]', r"an object such as \{\"source\": \"\.\.\.\", \"target\": \"\.\.\.\"\}"),
        ('{"source": "one", "summary": "x"}', r"no key 'target' \(its keys: 'source', 'summary'\); set data\.target_f"),
        ('{"target": "one"}', r"no key 'source' \(its keys: 'target'\)"),
        ('{"source": 1, "target": "x"}', "the value of 'source' is a number, not a text"),
        ('{"source": "x", "target": ["x", null]}', "the value of 'target' is null, not a text"),
        ('{"source": "x", "target": ["ok", "a\\ud83d"]}', r"'target' holds \\ud83d, half of a surrogate pair.*1"),
    ],
)
def test_a_record_that_is_no_pair_is_named(record: str, message: str, tmp_path: Path) -> None:
    (path,) = written(tmp_path, a_jsonl='{"source": "one", "target": "eins"}\n' + record + "\n")
    with pytest.raises(DataError, match=rf"a\.jsonl, line 2: .*{message}"):
        list(PairCorpus.open(path))


def test_bytes_that_are_not_utf8_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_bytes(b"one\teins\nfive\tf\xfcnf\n")
    with pytest.raises(DataError, match=r"a\.tsv, line 2: not UTF-8 \(byte 0xfc"):
        list(PairCorpus.open(str(tmp_path / "a.tsv")))


@pytest.mark.parametrize(
    ("names", "message"),
    [
        ("missing.en,missing.de", r"missing\.en: no such file"),
        ("tatoeba-en-zh,", "lacks the name of a file"),
        ("tatoeba-en-zh:dev", "no part 'dev'"),
        (
            "shakespeare",
            r"'shakespeare' holds text, not pairs \(of pairs: operations, chitchat, tatoeba-en-zh, cmudict; of records "
            r"with data\.source_field and data\.target_field to choose: tang-poems, tatoeba-en, blimp\)",
        ),
        ("digits", "'digits' holds images, not pairs"),
        ([], "no files of pairs"),
    ],
)
def test_names_that_lead_nowhere_are_errors(names: str | list[str], message: str) -> None:
    with pytest.raises(DataError, match=message):
        PairCorpus.open(names)


def test_an_odd_number_of_aligned_files_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"c\.txt has no partner"):
        PairCorpus.open(written(tmp_path, a_txt="a", b_txt="b", c_txt="c"))


# -------------------------------------------------------------------------------------------------------- fingerprint


def test_the_fingerprint_follows_the_content_and_how_it_is_read(tmp_path: Path) -> None:
    source, target = written(tmp_path, a_en="one\ntwo\n", a_de="eins\nzwei\n")
    copy_source, copy_target = written(tmp_path / "copy", b_en="one\ntwo\n", b_de="eins\nzwei\n")
    original = PairCorpus.open([source, target])
    assert PairCorpus.open([copy_source, copy_target]).fingerprint == original.fingerprint
    others = [
        PairCorpus.open([target, source]),
        PairCorpus.open([source, target], source_field="text"),
        PairCorpus.open([source, target, source, target]),
        *original.hold_out(0.5),
    ]
    written(tmp_path, a_de="eins\nzwo\n")
    others.append(PairCorpus.open([source, target]))
    assert len({corpus.fingerprint for corpus in [original, *others]}) == len(others) + 1


# ----------------------------------------------------------------------------------------------------------- hold out


def held_out(pairs: list[Pair], fraction: float) -> set[str]:
    """The sources to hold out, one after the other from the one that is new last, but never the first."""
    held: set[str] = set()
    for source in reversed(list(dict.fromkeys(pair.source for pair in pairs))[1:]):
        if sum(pair.source in held for pair in pairs) >= max(1, round(fraction * len(pairs))):
            break
        held.add(source)
    return held


@settings(deadline=None, max_examples=60)
@given(
    sources=st.lists(st.sampled_from(["", *"abcdefghijklmnop"]), max_size=60),
    fraction=st.floats(0.01, 0.6),
)
def test_holding_out_splits_the_pairs_and_shares_no_source(
    sources: list[str], fraction: float, tmp_path_factory: pytest.TempPathFactory
) -> None:
    (path,) = written(tmp_path_factory.mktemp("pairs"), a_tsv="".join(f"{s}\t{n}\n" for n, s in enumerate(sources)))
    corpus = PairCorpus.open(path)
    pairs = list(corpus)
    held = held_out(pairs, fraction)
    if not held:
        with pytest.raises(DataError):
            corpus.hold_out(fraction)
        return
    train, valid = corpus.hold_out(fraction)
    assert list(train) == [pair for pair in pairs if pair.source not in held]
    assert list(valid) == [pair for pair in pairs if pair.source in held]
    assert sum(pair.blank for part in (train, valid) for pair in part.records()) == len(sources) - len(pairs)


def test_without_repetitions_the_last_pairs_are_held_out(tmp_path: Path) -> None:
    (path,) = written(tmp_path, a_tsv="".join(f"source {n}\ttarget {n}\n" for n in range(100)))
    train, valid = PairCorpus.open(path).hold_out(0.07)
    assert list(valid.sources()) == [f"source {n}" for n in range(93, 100)]
    assert len(list(train)) == 93


def test_a_source_seen_again_stays_where_it_was_seen_first(tmp_path: Path) -> None:
    (path,) = written(tmp_path, a_tsv="a\t0\nb\t1\nc\t2\nd\t3\na\t4\ne\t5\nd\t6\nf\t7\n")
    train, valid = PairCorpus.open(path).hold_out(0.5)
    assert "".join(valid.targets()) == "3567"
    assert "".join(train.targets()) == "0124"


def test_no_source_of_the_bundled_pairs_is_on_both_sides() -> None:
    train, valid = PairCorpus.open("tatoeba-en-zh").hold_out(0.1)
    assert not set(train.sources()) & set(valid.sources())
    held = len(list(valid))
    assert 0.1 <= held / (held + len(list(train))) < 0.101


def test_one_source_alone_cannot_be_split(tmp_path: Path) -> None:
    (path,) = written(tmp_path, a_tsv="a\t1\na\t2\na\t3\n")
    with pytest.raises(DataError, match=r"a\.tsv: all 3 pairs have the same source.*data\.valid"):
        PairCorpus.open(path).hold_out(0.1)


def test_nothing_can_be_held_out_of_nothing(tmp_path: Path) -> None:
    (path,) = written(tmp_path, a_tsv="")
    with pytest.raises(DataError, match=r"a\.tsv: there are no pairs"):
        PairCorpus.open(path).hold_out(0.1)


def test_a_part_is_not_cut_again(tmp_path: Path) -> None:
    (path,) = written(tmp_path, a_tsv="a\t1\nb\t2\nc\t3\n")
    with pytest.raises(ValueError, match="whole corpus"):
        PairCorpus.open(path).hold_out(0.4)[0].hold_out(0.4)
