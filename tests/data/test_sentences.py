"""Sentences under an open vocabulary, their spelling, and batches of similar length."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.characters import CODES, EMPTY, FIRST_BYTE, WORD_BEGINS, WORD_ENDS, spell, spell_specials
from seqloom.data.length_batches import LengthBatches, SharedItems, sorted_items
from seqloom.data.sentences import Sentences
from seqloom.text import Vocabulary
from seqloom.text.special import BOS, EOS, PAD, UNK

VOCABULARY = Vocabulary(["the", "cat", "sat"])
SENTENCES = [["the", "cat", "sat"], ["the", "ocelot", "sat", "on", "the", "cat"], ["ocelot"]]
word_lists = st.lists(
    st.lists(st.sampled_from(["the", "cat", "sat", "ocelot", "é"]), max_size=9), min_size=1, max_size=9
)


@given(st.text(max_size=12))
def test_a_word_is_spelled_by_its_bytes_between_two_marks(word: str) -> None:
    (codes,) = spell([word], 50)
    letters = codes[1 : codes.tolist().index(WORD_ENDS)]
    assert codes[0] == WORD_BEGINS
    assert bytes((letters - FIRST_BYTE).astype(np.uint8).tolist()) == word.encode()
    assert set(codes[len(letters) + 2 :].tolist()) <= {EMPTY}


def test_long_words_are_cut_and_keep_their_end_mark() -> None:
    assert spell(["abcdef"], 5).tolist() == [[WORD_BEGINS, *(FIRST_BYTE + ord(letter) for letter in "abc"), WORD_ENDS]]


def test_special_symbols_have_codes_that_no_word_can_have() -> None:
    specials = spell_specials(4)
    assert len({tuple(row) for row in specials.tolist()}) == 4
    assert specials[:, 1].min() > WORD_ENDS
    assert specials.max() < CODES


def test_unknown_words_are_unk_as_targets_and_spelled_as_inputs() -> None:
    sentences = Sentences.of_words(SENTENCES, VOCABULARY, characters=10)
    batch = sentences.batch(np.array([1, 2]))
    the, cat, sat = VOCABULARY.ids(["the", "cat", "sat"])
    assert batch.targets.tolist() == [
        [BOS, the, UNK, sat, UNK, the, cat, EOS],
        [BOS, UNK, EOS, PAD, PAD, PAD, PAD, PAD],
    ]
    read = batch.words[batch.places]
    assert read[0, 2].tolist() == read[1, 1].tolist() == spell(["ocelot"], 10)[0].tolist()
    assert read[0, 4].tolist() == spell(["on"], 10)[0].tolist()
    assert read[0, 1].tolist() == read[0, 5].tolist()
    assert len(batch.words) == 8  # every distinct word once: five words, <bos>, <eos>, <pad>


def test_without_spelling_unknown_words_share_one_id() -> None:
    batch = Sentences.of_words(SENTENCES, VOCABULARY, None).batch(np.array([1]))
    assert batch.words[batch.places].tolist() == batch.targets.tolist()


def test_the_steps_are_where_each_direction_predicts() -> None:
    batch = Sentences.of_words(SENTENCES, VOCABULARY, None).batch(np.array([0, 2]))
    flat = batch.targets.flatten()
    assert flat[batch.steps + 1].tolist() == [*VOCABULARY.ids(SENTENCES[0]), EOS, UNK, EOS]
    assert flat[batch.steps].tolist() == [BOS, *VOCABULARY.ids(SENTENCES[0]), BOS, UNK]
    assert batch.tokens == 2 * len(batch.steps)


@given(word_lists, st.integers(1, 5))
def test_cutting_keeps_all_words_in_order(sentences: list[list[str]], longest: int) -> None:
    whole = Sentences.of_words(sentences, VOCABULARY, None)
    cut = whole.cut(longest)
    assert cut.sizes.max() <= longest
    places = [place for start, size in zip(cut.starts, cut.sizes, strict=True) for place in range(start, start + size)]
    assert places == list(range(sum(map(len, sentences))))
    assert len(cut) == sum(max(1, -(-len(words) // longest)) for words in sentences)


@given(word_lists)
def test_what_is_predicted_is_counted_as_batches_have_it(sentences: list[list[str]]) -> None:
    encoded = Sentences.of_words(sentences, VOCABULARY, None)
    seen = np.concatenate([batch.targets[batch.targets != PAD].numpy() for _, batch in sorted_items(encoded, 16)])
    assert np.bincount(encoded.predicted(), minlength=9).tolist() == np.bincount(seen, minlength=9).tolist()


class Lengths:
    """Items that are nothing but lengths."""

    def __init__(self, lengths: list[int]) -> None:
        self.lengths = np.array(lengths)

    def targets(self, numbers: np.ndarray) -> int:
        return int(self.lengths[numbers].sum())

    def batch(self, numbers: np.ndarray) -> np.ndarray:
        return numbers


@given(st.lists(st.integers(1, 12), min_size=1, max_size=40), st.integers(12, 40), st.integers(0, 3))
def test_every_item_comes_once_an_epoch_within_the_budget(lengths: list[int], budget: int, seed: int) -> None:
    items = Lengths(lengths)
    batches = LengthBatches(items, budget, seed)
    for _ in range(2):
        seen = [next(batches) for _ in range(batches.batches_per_epoch)]
        assert sorted(np.concatenate(seen).tolist()) == list(range(len(lengths)))
        assert all(len(batch) * items.lengths[batch].max() <= budget for batch in seen)


def test_a_saved_position_gives_the_same_batches_again() -> None:
    items = Lengths([1, 2, 3, 4, 5, 6, 7, 8] * 3)
    batches = LengthBatches(items, 10, seed=5)
    for _ in range(batches.batches_per_epoch + 2):
        next(batches)
    position = batches.position()
    rest = [next(batches).tolist() for _ in range(5)]
    again = LengthBatches(items, 10, seed=5)
    again.seek(position)
    assert [next(again).tolist() for _ in range(5)] == rest


def test_processes_share_the_items_of_an_epoch() -> None:
    items = Lengths([3, 4, 5, 6, 7] * 5)
    batches = LengthBatches(items, 14, processes=2)
    seen = [next(batches) for _ in range(batches.batches_per_epoch)]
    assert all(isinstance(batch, SharedItems) for batch in seen)
    assert sum(batch.tokens for batch in seen) == items.lengths.sum()
    rows = np.concatenate([batch.rows(rank, rank + 1) for batch in seen for rank in (0, 1)])
    assert sorted(rows.tolist()) == list(range(25))


@pytest.mark.parametrize("budget", [1, 7, 100])
def test_for_evaluation_the_longest_come_first(budget: int) -> None:
    items = Lengths([3, 9, 1, 4])
    assert np.concatenate([numbers for numbers, _ in sorted_items(items, budget)]).tolist() == [1, 3, 0, 2]
