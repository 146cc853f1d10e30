"""Sentences under an open vocabulary, and their spelling."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.characters import CODES, EMPTY, FIRST_BYTE, WORD_BEGINS, WORD_ENDS, spell, spell_specials
from seqloom.data.sentences import Sentences
from seqloom.data.stream import sorted_batches
from seqloom.text.special import BOS, EOS, PAD, UNK
from seqloom.text.vocabulary import Vocabulary

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
    read = batch.words[batch.word_index]
    assert read[0, 2].tolist() == read[1, 1].tolist() == spell(["ocelot"], 10)[0].tolist()
    assert read[0, 4].tolist() == spell(["on"], 10)[0].tolist()
    assert read[0, 1].tolist() == read[0, 5].tolist()
    assert len(batch.words) == 8  # every distinct word once: five words, <bos>, <eos>, <pad>


def test_without_spelling_unknown_words_share_one_id() -> None:
    batch = Sentences.of_words(SENTENCES, VOCABULARY, None).batch(np.array([1]))
    assert batch.words[batch.word_index].tolist() == batch.targets.tolist()


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
    seen = np.concatenate([batch.targets[batch.targets != PAD].numpy() for _, batch in sorted_batches(encoded, 16)])
    assert np.bincount(encoded.predicted(), minlength=9).tolist() == np.bincount(seen, minlength=9).tolist()


def test_some_rows_of_a_batch_read_the_words_that_stood_there() -> None:
    batch = Sentences.of_words(SENTENCES, VOCABULARY, characters=10).batch(np.array([1, 2, 0]))
    part = batch.rows(1, 3)
    assert part.words[part.word_index].equal(batch.words[batch.word_index][1:])
    assert part.numbers.tolist() == [2, 0]
    assert part.tokens == 2 * len(part.steps) == 2 * (2 + 4)
