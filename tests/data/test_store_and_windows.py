"""Corpora, token stores on disk, and the windows cut from them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.cache import Entry, cache_folder
from seqloom.data.corpus import Corpus
from seqloom.data.store import TokenStore, Totals
from seqloom.data.stream import Stream
from seqloom.data.windows import random_windows, sequential_windows, window_batch
from seqloom.errors import DataError
from seqloom.text.characters import CharacterTokenizer
from seqloom.text.special import BOS, EOS, UNK
from seqloom.text.words import WhitespaceTokenizer


def kept(folder: Path) -> Entry:
    entry = Entry.read(folder)
    assert entry is not None
    return entry


def store_of(ids: list[int]) -> TokenStore:
    tokens = np.array(ids, dtype=np.uint16)
    return TokenStore(tokens, Totals(1, len(ids), len(ids), len(ids), 0))


# --------------------------------------------------------------------------------------------------------- corpus


@pytest.mark.parametrize("unit", ["line", "paragraph", "file"])
def test_holding_out_loses_and_repeats_nothing(unit: str, tmp_path: Path) -> None:
    text = "".join(f"line {number} of the text\n" + "\n" * (number % 3 == 0) for number in range(100))
    (tmp_path / "text.txt").write_text(text)
    corpus = Corpus.open(str(tmp_path / "text.txt"), unit)  # type: ignore[arg-type]
    train, valid = corpus.hold_out(0.1)
    joined = "" if unit == "file" else "\n"
    assert joined.join([*train, *valid]) == joined.join(corpus)
    assert 0.08 < len(joined.join(valid)) / len(joined.join(corpus)) < 0.12


def test_a_whole_file_is_cut_at_the_start_of_a_line(tmp_path: Path) -> None:
    (tmp_path / "text.txt").write_text("".join(f"{number} some words\n" for number in range(50)))
    train, valid = Corpus.open(str(tmp_path / "text.txt"), "file").hold_out(0.3)
    assert next(iter(train)).endswith("words\n")
    assert next(iter(valid))[0].isdigit()


def test_the_fingerprint_follows_the_content_not_the_name(tmp_path: Path) -> None:
    for name, content in {"a.txt": "same", "b.txt": "same", "c.txt": "other"}.items():
        (tmp_path / name).write_text(content)
    prints = [Corpus.open(str(tmp_path / name)).fingerprint for name in ("a.txt", "b.txt", "c.txt")]
    assert prints[0] == prints[1] != prints[2]
    assert Corpus.open(str(tmp_path / "a.txt"), "file").fingerprint != prints[0]


def test_several_files_are_read_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\n")
    with gzip.open(tmp_path / "b.gz", "wt") as file:
        file.write("three\n")
    assert list(Corpus.open([str(tmp_path / "a.txt"), str(tmp_path / "b.gz")])) == ["one", "two", "three"]


# ---------------------------------------------------------------------------------------------------------- store


def test_a_store_holds_each_unit_with_its_end_and_counts_it(tmp_path: Path) -> None:
    tokenizer = WhitespaceTokenizer.train(["a b a", "c"])
    store = TokenStore.build(["a b", "", "x 中文 a"], tokenizer, tmp_path / "store")
    a, b = tokenizer.encode("a b")
    assert store.tokens.tolist() == [a, b, EOS, EOS, UNK, UNK, a, EOS]
    assert store.totals == Totals(units=3, tokens=8, words=2 + 0 + 4 + 3, characters=3 + 0 + 6 + 3, unknown=2)
    assert TokenStore.open(kept(tmp_path / "store")).tokens.tolist() == store.tokens.tolist()


def test_a_store_is_built_once_and_again_when_text_or_tokenizer_change(tmp_path: Path) -> None:
    path = tmp_path / "text.txt"
    path.write_text("ab\nba\n")
    tokenizer = CharacterTokenizer.train(["ab"])

    def stores() -> set[str]:
        return {folder.name for folder in (cache_folder() / "tokens").iterdir()}

    TokenStore.of(Corpus.open(str(path)), tokenizer)
    once = stores()
    TokenStore.of(Corpus.open(str(path)), tokenizer)
    assert stores() == once
    TokenStore.of(Corpus.open(str(path)), CharacterTokenizer.train(["abc"]))
    twice = stores()
    assert len(twice - once) == 1
    path.write_text("ab\nbb\n")
    TokenStore.of(Corpus.open(str(path)), tokenizer)
    assert len(stores() - twice) == 1


def test_many_chunks_give_the_same_store_as_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    texts = ["some words", "and more", ""] * 50
    tokenizer = CharacterTokenizer.train(texts)
    whole = TokenStore.build(texts, tokenizer, tmp_path / "whole")
    monkeypatch.setattr("seqloom.data.store.CHUNK", 7)
    pieces = TokenStore.build(iter(texts), tokenizer, tmp_path / "pieces")
    assert pieces.totals == whole.totals
    assert np.array_equal(pieces.tokens, whole.tokens)


def test_an_empty_corpus_is_an_error_that_names_the_file_and_leaves_nothing(tmp_path: Path) -> None:
    (tmp_path / "empty.txt").write_text("")
    with pytest.raises(DataError, match=r"empty\.txt.*empty"):
        TokenStore.of(Corpus.open(str(tmp_path / "empty.txt")), CharacterTokenizer.train(["a"]))
    assert not list((cache_folder() / "tokens").glob(".writing-*"))


# -------------------------------------------------------------------------------------------------------- windows


def test_inputs_are_targets_shifted_and_begin_units_with_bos() -> None:
    batch = window_batch(np.array([10, 11, EOS, 12, EOS, 13]), np.array([0, 1, 3]), 3)
    assert batch.targets.tolist() == [[10, 11, EOS], [11, EOS, 12], [12, EOS, 13]]
    assert batch.inputs.tolist() == [[BOS, 10, 11], [10, 11, BOS], [BOS, 12, BOS]]
    assert batch.numbers.tolist() == [0, 1, 3]


@settings(deadline=None)
@given(st.integers(60, 300), st.integers(1, 5), st.integers(1, 8), st.integers(0, 3))
def test_an_epoch_of_random_windows_never_repeats_a_token(size: int, batch_size: int, length: int, seed: int) -> None:
    windows = random_windows(store_of(list(range(10, size + 10))), batch_size, length, seed)
    seen = [next(windows).targets.flatten().tolist() for _ in range(windows.batches_per_epoch)]
    tokens = [token for batch in seen for token in batch]
    assert len(tokens) == len(set(tokens)) == windows.batches_per_epoch * batch_size * length
    assert len(tokens) > size - (batch_size + 2) * length


@settings(deadline=None)
@given(st.integers(60, 300), st.integers(1, 5), st.integers(1, 8), st.integers(0, 3))
def test_sequential_rows_go_on_where_they_stopped(size: int, batch_size: int, length: int, seed: int) -> None:
    windows = sequential_windows(store_of(list(range(10, size + 10))), batch_size, length, seed)
    batches = [next(windows) for _ in range(windows.batches_per_epoch)]
    assert [batch.fresh.all() for batch in batches] == [True] + [False] * (len(batches) - 1)
    assert not any(batch.fresh.any() for batch in batches[1:])
    for before, after in pairwise(batches):
        assert after.inputs[:, 0].tolist() == before.targets[:, -1].tolist()
    tokens = [token for batch in batches for token in batch.targets.flatten().tolist()]
    assert len(tokens) == len(set(tokens))


@pytest.mark.parametrize("kind", [random_windows, sequential_windows])
def test_epochs_differ_and_seeds_differ(kind: Callable[..., Stream]) -> None:
    store = store_of(list(range(10, 500)))
    windows = kind(store, 4, 8, seed=0)
    first = next(windows).targets
    for _ in range(windows.batches_per_epoch - 1):
        next(windows)
    assert not next(windows).targets.equal(first)
    assert not next(kind(store, 4, 8, seed=1)).targets.equal(first)


@pytest.mark.parametrize("kind", [random_windows, sequential_windows])
def test_a_text_shorter_than_a_batch_says_what_to_lower(kind: Callable[..., Stream]) -> None:
    with pytest.raises(DataError, match=r"20 tokens.*data\.batch_size or data\.length"):
        kind(store_of([5] * 20), 4, 8)


def test_half_the_windows_of_a_whole_file_begin_with_bos() -> None:
    batch = next(random_windows(store_of(list(range(10, 210))), 4, 8, whole_file=True))
    assert (batch.inputs[:, 0] == BOS).tolist() == [True, False, True, False]


def test_rows_forget_as_often_as_asked_and_reproducibly() -> None:
    store = store_of(list(range(10, 4010)))
    windows, again = (sequential_windows(store, 10, 4, seed=2, reset=0.25) for _ in range(2))
    fresh = [next(windows).fresh for _ in range(99)][1:]
    assert 0.2 < sum(rows.sum() for rows in fresh) / 980 < 0.3
    next(again)
    assert all(np.array_equal(rows, next(again).fresh) for rows in fresh)
