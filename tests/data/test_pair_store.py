"""Pairs as ids on disk: what is kept, what is counted, what is dropped."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.cache import Entry, cache_folder
from seqloom.data.pair_encoders import ClosedPairs, OpenPairs, PairEncoder
from seqloom.data.pair_store import PairLimits, PairStore, PairTotals
from seqloom.data.pairs import Pair, PairCorpus
from seqloom.data.ragged import Ragged
from seqloom.data.stream import Stream
from seqloom.errors import DataError
from seqloom.text.characters import CharacterTokenizer
from seqloom.text.open_words import decode
from seqloom.text.special import EOS, UNK
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.vocabulary import Vocabulary
from seqloom.text.words import WhitespaceTokenizer, WordTokenizer

LETTERS = CharacterTokenizer.train(["ab"])
WORDS = WhitespaceTokenizer.train(["x y"])
CLOSED = ClosedPairs(LETTERS, LETTERS)


def kept(folder: Path) -> Entry:
    entry = Entry.read(folder)
    assert entry is not None
    return entry


def sides(store: PairStore) -> tuple[list[list[int]], list[list[int]]]:
    return tuple([side[number].tolist() for number in range(len(side))] for side in (store.source, store.target))


def test_a_store_holds_both_sides_with_their_ends_and_counts_them(tmp_path: Path) -> None:
    pairs = [Pair("ab", ("x y", "unused")), Pair("", ("x",)), Pair("b?", ("z",)), Pair("a", ())]
    store = PairStore.build(pairs, ClosedPairs(LETTERS, WORDS), tmp_path / "store")
    a, b, x, y = LETTERS.encode("ab") + WORDS.encode("x y")
    assert sides(store) == ([[a, b, EOS], [b, UNK, EOS]], [[x, y, EOS], [UNK, EOS]])
    assert store.totals == PairTotals(pairs=2, target_tokens=5, blank=2, too_long=0, unequal=0)
    assert sides(PairStore.open(kept(tmp_path / "store"))) == sides(store)
    assert len(store) == 2


@settings(deadline=None, max_examples=50)
@given(
    lengths=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=1, max_size=20),
    max_length=st.none() | st.integers(1, 10),
    max_ratio=st.none() | st.sampled_from([1, 1.25, 1.5, 2, 3, 4.5]),
)
def test_the_limits_keep_exactly_what_is_within_them(
    lengths: list[tuple[int, int]],
    max_length: int | None,
    max_ratio: float | None,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    pairs = [Pair("a" * source, ("b" * target,) if target else ()) for source, target in lengths]
    kept, blank, too_long, unequal = [], 0, 0, 0
    for pair, (source, target) in zip(pairs, lengths, strict=True):
        if not source or not target:
            blank += 1
        elif max_length is not None and (source + 1 > max_length or target + 1 > max_length):
            too_long += 1
        elif max_ratio is not None and max((source + 1) / (target + 1), (target + 1) / (source + 1)) > max_ratio:
            unequal += 1
        else:
            kept.append(pair)
    folder = tmp_path_factory.mktemp("store") / "store"
    limits = PairLimits(max_length, max_ratio)
    if not kept:
        with pytest.raises(DataError, match="none of the"):
            PairStore.build(pairs, CLOSED, folder, limits)
        assert not list(folder.parent.iterdir())
        return
    store = PairStore.build(pairs, CLOSED, folder, limits)
    assert (store.totals.blank, store.totals.too_long, store.totals.unequal) == (blank, too_long, unequal)
    assert sides(store) == tuple(
        [[*LETTERS.encode(text), EOS] for text in texts] for texts in zip(*((s, t[0]) for s, t in kept), strict=True)
    )


def test_what_was_dropped_is_told() -> None:
    totals = PairTotals(1200, 1, blank=3, too_long=20, unequal=1)
    assert str(totals) == "1,200 pairs; dropped 3 blank, 20 too long, 1 of unequal lengths"
    assert totals.dropped == 24
    assert str(PairTotals(5, 1, 0, 0, 0)) == "5 pairs"


def test_all_references_of_what_was_kept_are_reached_by_number(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("aa\tb\tbb\n\tb\n" + "a" * 50 + "\tb\nab\tb\tä 中\tab\nb\t b\n", encoding="utf-8")
    corpus = PairCorpus.open(str(tmp_path / "a.tsv"))
    for store in (PairStore.of(corpus, CLOSED, PairLimits(max_length=10)) for _ in ("built", "opened")):
        assert store.references(np.array([1, 0, 2])) == [("b", "ä 中", "ab"), ("b", "bb"), (" b",)]


@settings(deadline=None, max_examples=50)
@given(
    texts=st.lists(st.lists(st.text("ab\n\t\0\x7f\xff中", min_size=1), min_size=1, max_size=3), min_size=1, max_size=9)
)
def test_any_text_comes_back_as_a_reference(texts: list[list[str]], tmp_path_factory: pytest.TempPathFactory) -> None:
    pairs = [Pair("a", tuple(several)) for several in texts]
    store = PairStore.build(pairs, CLOSED, tmp_path_factory.mktemp("store") / "store")
    assert store.references(np.arange(len(pairs))) == [pair.targets for pair in pairs]


def test_the_references_of_a_batch_begin_with_its_targets() -> None:
    corpus = PairCorpus.open("cmudict:valid")
    words = WhitespaceTokenizer.train(corpus.texts())
    store = PairStore.of(corpus, ClosedPairs(words, words), PairLimits(max_length=12))
    batch = next(Stream(store, store.buckets(512), seed=4))
    several = store.references(batch.numbers)
    assert [words.decode(row[row > UNK]) for row in batch.targets] == [texts[0] for texts in several]
    assert max(map(len, several)) > 1


def test_many_chunks_give_the_same_store_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = [Pair("ab", ("a",)), Pair("b" * 9, ("?",)), Pair(" ", ("a",)), Pair("?", ("abab",))] * 30
    limits = PairLimits(max_length=8)
    whole = PairStore.build(pairs, CLOSED, tmp_path / "whole", limits)
    monkeypatch.setattr("seqloom.data.pair_store.CHUNK", 7)
    pieces = PairStore.build(iter(pairs), CLOSED, tmp_path / "pieces", limits)
    assert pieces.totals == whole.totals
    assert sides(pieces) == sides(whole)
    assert pieces.references(np.arange(60)) == whole.references(np.arange(60))


def test_a_store_is_built_once_and_again_when_anything_changes(tmp_path: Path) -> None:
    path = tmp_path / "a.tsv"
    path.write_text("ab\tba\n")
    built = set()

    def is_new(encoder: PairEncoder, limits: PairLimits | None = None) -> bool:
        PairStore.of(PairCorpus.open(str(path)), encoder, limits)
        stores = {folder.name for folder in (cache_folder() / "pairs").iterdir()}
        new = stores - built
        built.update(stores)
        return bool(new)

    other = CharacterTokenizer.train(["abc"])
    assert is_new(CLOSED)
    assert not is_new(CLOSED)
    assert not is_new(CLOSED, PairLimits())
    assert is_new(CLOSED, PairLimits(max_length=9))
    assert is_new(CLOSED, PairLimits(max_ratio=9))
    assert is_new(ClosedPairs(other, LETTERS))
    assert is_new(ClosedPairs(LETTERS, other))
    assert is_new(OpenPairs(LETTERS))
    assert not is_new(OpenPairs(LETTERS))
    assert is_new(OpenPairs(other))
    path.write_text("ab\tbb\n")
    assert is_new(CLOSED)


def test_an_empty_corpus_is_an_error_that_names_the_files_and_leaves_nothing(tmp_path: Path) -> None:
    for name in ("a.en", "a.de"):
        (tmp_path / name).write_text("")
    with pytest.raises(DataError, match=r"a\.en, .*a\.de: the corpus is empty"):
        PairStore.of(PairCorpus.open([str(tmp_path / "a.en"), str(tmp_path / "a.de")]), CLOSED)
    assert not list((cache_folder() / "pairs").glob(".writing-*"))


def test_a_corpus_that_is_dropped_altogether_says_why(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("aaaa\tb\na\t\n")
    with pytest.raises(
        DataError, match=r"a\.tsv: none of the 2 pairs .*1 are blank, 1 are longer than data\.max_length \(3\)"
    ):
        PairStore.of(PairCorpus.open(str(tmp_path / "a.tsv")), CLOSED, PairLimits(max_length=3))


def test_an_error_in_the_files_is_told_once_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "a.tsv").write_text("a\tb\nbroken\n")
    with pytest.raises(DataError) as caught:
        PairStore.of(PairCorpus.open(str(tmp_path / "a.tsv")), CLOSED)
    assert str(caught.value).count("a.tsv, line 2") == 1
    assert str(caught.value).startswith(str(tmp_path))
    assert not list((cache_folder() / "pairs").glob(".writing-*"))


def test_texts_can_be_encoded_without_a_disk() -> None:
    sources = Ragged.encoded(["ab", "", "b"], LETTERS)
    assert [sources[number].tolist() for number in range(3)] == [[*LETTERS.encode(t), EOS] for t in ("ab", "", "b")]
    assert sources.lengths.tolist() == [3, 1, 2]
    assert len(Ragged.encoded([], LETTERS)) == 0


# ----------------------------------------------------------------------------------------------------- open vocabulary


def test_an_open_vocabulary_numbers_the_unknown_words_of_each_source(tmp_path: Path) -> None:
    pairs = [Pair("x Ann Bob Ann", ("Bob y Cid",)), Pair("Cid y", ("Ann Cid Cid x",))]
    store = PairStore.build(pairs, OpenPairs(WORDS), tmp_path / "store")
    x, y = WORDS.encode("x y")
    first, second = WORDS.size, WORDS.size + 1
    assert sides(store) == (
        [[x, first, second, first, EOS], [first, y, EOS]],
        [[second, y, UNK, EOS], [UNK, first, first, x, EOS]],
    )
    assert sides(PairStore.open(kept(tmp_path / "store"))) == sides(store)


def test_sixteen_bits_are_enough_for_the_vocabulary_but_not_for_the_words_beside_it(tmp_path: Path) -> None:
    full = WhitespaceTokenizer(Vocabulary([f"w{number}" for number in range((1 << 16) - 4)]))
    pairs = [Pair("w0 Ann", ("Ann w1",))]
    closed = PairStore.build(pairs, ClosedPairs(full, full), tmp_path / "closed")
    assert closed.source.tokens.dtype == np.uint16
    store = PairStore.build(pairs, OpenPairs(full), tmp_path / "open")
    assert (store.source[0][1], store.target[0][0]) == (1 << 16, 1 << 16)


@pytest.mark.parametrize("tokenizer", [LETTERS, WORDS, WordTokenizer.train(["x y ab"])], ids=lambda given: given.kind)
def test_many_chunks_of_open_pairs_give_the_same_store_as_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tokenizer: Tokenizer
) -> None:
    pairs = [Pair("x Ann y", ("Ann, x",)), Pair("ab Bob Bob", ("Ann Bob",)), Pair("", ("x",))] * 20
    whole = PairStore.build(pairs, OpenPairs(tokenizer), tmp_path / "whole")
    monkeypatch.setattr("seqloom.data.pair_store.CHUNK", 7)
    parts = PairStore.build(iter(pairs), OpenPairs(tokenizer), tmp_path / "parts")
    assert parts.totals == whole.totals
    assert sides(parts) == sides(whole)


def test_sources_without_targets_come_with_their_unknown_words() -> None:
    texts = ["x Ann Bob", "", "y", "Bob Bob x"]
    sources, words = Ragged.encoded_openly(texts, WORDS)
    assert words == [["Ann", "Bob"], [], [], ["Bob"]]
    assert [decode(WORDS, sources[number], words[number]) for number in range(4)] == texts
    assert sources.lengths.tolist() == [4, 1, 2, 4]
    nothing, no_words = Ragged.encoded_openly([], WORDS)
    assert (len(nothing), no_words) == (0, [])
