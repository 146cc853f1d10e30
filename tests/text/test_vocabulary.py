from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.errors import DataError
from seqloom.text.special import BOS, EOS, PAD, SPECIALS, UNK
from seqloom.text.vocabulary import Vocabulary

COUNTS = {"b": 3, "a": 3, "c": 5, "d": 1, "e": 1}


def test_special_symbols_come_first_then_frequency_then_the_alphabet() -> None:
    vocabulary = Vocabulary.from_counts(COUNTS)
    assert vocabulary.tokens(range(len(vocabulary))) == [*SPECIALS, "c", "a", "b", "d", "e"]
    assert (UNK, PAD, BOS, EOS) == (0, 1, 2, 3)


def test_order_of_counting_does_not_matter() -> None:
    assert Vocabulary.from_counts(dict(reversed(COUNTS.items()))).ordinary == Vocabulary.from_counts(COUNTS).ordinary


def test_rare_tokens_are_unknown() -> None:
    vocabulary = Vocabulary.from_counts(COUNTS, min_count=3)
    assert vocabulary.ordinary == ["c", "a", "b"]
    assert vocabulary.ids(["a", "d", "never"]) == [5, UNK, UNK]
    assert "a" in vocabulary
    assert "d" not in vocabulary


def test_special_symbols_do_not_count_in_the_size() -> None:
    vocabulary = Vocabulary.from_counts(COUNTS | {"<unk>": 9}, max_size=2)
    assert vocabulary.ordinary == ["c", "a"]
    assert len(vocabulary) == 6


def test_special_symbols_in_text_are_unknown_and_never_control() -> None:
    vocabulary = Vocabulary.from_counts(Counter(SPECIALS * 5 + ("word",)))
    assert vocabulary.ordinary == ["word"]
    assert vocabulary.ids([*SPECIALS, "word"]) == [UNK] * 4 + [4]


def test_an_id_outside_is_an_error() -> None:
    vocabulary = Vocabulary(["a"])
    for id in (-1, 5):
        with pytest.raises(IndexError, match=str(id)):
            vocabulary.token(id)


@pytest.mark.parametrize("tokens", [["a", "a"], ["<bos>"]])
def test_a_token_has_one_id(tokens: list[str]) -> None:
    with pytest.raises(DataError):
        Vocabulary(tokens)


@given(st.dictionaries(st.text(), st.integers(1, 20)), st.integers(1, 5), st.none() | st.integers(1, 9))
def test_kept_tokens_go_to_ids_and_back(counts: dict[str, int], min_count: int, max_size: int | None) -> None:
    vocabulary = Vocabulary.from_counts(counts, min_count, max_size)
    kept = vocabulary.ordinary
    assert vocabulary.tokens(vocabulary.ids(kept)) == kept
    assert all(counts[token] >= min_count for token in kept)
    dropped = counts.keys() - set(kept)
    if kept and dropped and max_size is not None:
        assert all(counts[t] < min_count or counts[t] <= counts[kept[-1]] for t in dropped - set(SPECIALS))
