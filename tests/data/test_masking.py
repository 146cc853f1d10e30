"""Which tokens are to be found: the laws of every draw, and the statistics of many."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from pydantic import ValidationError

from seqloom.config.schema.objectives import MaskedObjective
from seqloom.data.masking import MASK, Masking, word_beginnings
from seqloom.text.characters import CharacterTokenizer
from seqloom.text.marks import MarkedTokenizer
from seqloom.text.special import BOS, EOS, PAD, SPECIALS, UNK
from seqloom.text.subwords import BpeTokenizer, UnigramTokenizer
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.words import WordTokenizer

SIZE = 30  # ordinary ids are 4 ... 29, [MASK] is 30
TEXT = ["the cats sat on the mat.", "a catty dog saw the cats, and the cat saw the doggy"] * 5
ids = st.integers(1, 24).flatmap(
    lambda time: st.lists(
        st.lists(st.integers(0, SIZE), min_size=time, max_size=time),
        min_size=1,
        max_size=6,
    )
)


def masking(rate: float = 0.15, begins: NDArray[np.bool_] | None = None) -> Masking:
    return Masking(rate, 0.8, 0.1, SIZE, begins)


def ordinary(rows: NDArray[np.int64]) -> NDArray[np.bool_]:
    return (rows >= len(SPECIALS)) & (rows < SIZE)


@given(ids, st.floats(0.01, 0.99), st.integers(0, 1000))
def test_every_draw_keeps_the_laws(rows: list[list[int]], rate: float, seed: int) -> None:
    tokens = np.array(rows)
    read, found = masking(rate).draw(tokens, np.random.default_rng(seed))
    chosen = found != PAD
    assert not chosen[~ordinary(tokens)].any()  # special symbols and [MASK] are never chosen
    assert (found[chosen] == tokens[chosen]).all()  # what is to be found is what stood there
    assert (read[~chosen] == tokens[~chosen]).all()  # all else is read as it is
    assert ((read[chosen] == SIZE) | ordinary(read)[chosen]).all()  # as [MASK], or as an ordinary token
    for count, number in zip(ordinary(tokens).sum(1), chosen.sum(1), strict=True):
        bounds = (max(1, math.floor(rate * count)), max(1, math.ceil(rate * count))) if count else (0, 0)
        assert bounds[0] <= number <= bounds[1]


@given(ids, st.integers(0, 1000))
def test_a_draw_follows_from_its_random_numbers(rows: list[list[int]], seed: int) -> None:
    first, again = (masking().draw(np.array(rows), np.random.default_rng(seed)) for _ in range(2))
    assert all((left == right).all() for left, right in zip(first, again, strict=True))


def chi_square(observed: NDArray[np.integer], expected: NDArray[np.floating]) -> float:
    return float(((observed - expected) ** 2 / expected).sum())


def test_fifteen_in_a_hundred_are_chosen_and_four_in_five_of_these_hidden() -> None:
    random = np.random.default_rng(0)
    tokens = random.integers(len(SPECIALS), SIZE, (4000, 33))
    tokens[:, 0], tokens[:, -1] = BOS, EOS
    read, found = masking().draw(tokens, random)
    chosen = found != PAD
    # Every place as often as every other: 31 counts about 600, whose squared deviations have a mean of 0.85 · 31.
    places = chosen[:, 1:-1].sum(0)
    assert chi_square(places, np.full(31, 4000 * 0.15)) < 50
    # The mean number of a row is exactly 0.15 · 31 = 4.65, rounded up in 65 of 100 rows: within four deviations.
    assert abs(chosen.sum() / 4000 - 4.65) < 4 * math.sqrt(0.65 * 0.35 / 4000)
    assert set(chosen.sum(1)) == {4, 5}
    total = chosen.sum()
    hidden = (chosen & (read == SIZE)).sum()
    other = (chosen & (read != SIZE) & (read != found)).sum()
    same = (chosen & (read == found)).sum()
    # A token drawn at random is the same by chance in one of 26 cases. Two degrees of freedom: 13.8 is one in 1000.
    shares = np.array([0.8, 0.1 * 25 / 26, 0.1 + 0.1 / 26])
    assert chi_square(np.array([hidden, other, same]), total * shares) < 13.8
    drawn = np.bincount(read[chosen & (read != SIZE) & (read != found)], minlength=SIZE)
    assert (drawn[: len(SPECIALS)] == 0).all()
    assert chi_square(drawn[len(SPECIALS) :], np.full(26, other / 26)) < 55  # 25 degrees: 52.6 is one in 1000


def test_the_shares_of_a_configuration_hold() -> None:
    tokens = np.random.default_rng(0).integers(len(SPECIALS), SIZE, (200, 40))
    read, found = Masking(0.5, 0.0, 0.0, SIZE).draw(tokens, np.random.default_rng(1))
    assert (read == tokens).all()
    assert ((found != PAD).sum(1) == 20).all()
    read, found = Masking(0.5, 1.0, 0.0, SIZE).draw(tokens, np.random.default_rng(1))
    assert ((read == SIZE) == (found != PAD)).all()
    with pytest.raises(ValidationError, match="more than 1"):
        MaskedObjective(masked=0.8, random=0.3)


# -------------------------------------------------------------------------------------------------------- whole words


def words_of(row: NDArray[np.int64], begins: NDArray[np.bool_]) -> list[list[int]]:
    """The places of each word, by brute force."""
    words: list[list[int]] = []
    for place, id in enumerate(row):
        if not ordinary(row)[place]:
            continue
        if begins[id] or not place or not ordinary(row)[place - 1]:
            words.append([])
        words[-1].append(place)
    return words


@given(ids, st.integers(0, 1000))
def test_all_pieces_of_a_word_are_chosen_or_none(rows: list[list[int]], seed: int) -> None:
    begins = np.arange(SIZE + 1) % 3 == 0
    tokens = np.array(rows)
    _, found = masking(0.3, begins).draw(tokens, np.random.default_rng(seed))
    for row, chosen in zip(tokens, found != PAD, strict=True):
        words = words_of(row, begins)
        taken = [word for word in words if chosen[word].all()]
        assert sum(map(len, taken)) == chosen.sum()
        bounds = math.floor(0.3 * len(words)), math.ceil(0.3 * len(words))
        assert min(1, len(words)) <= len(taken) <= max(1, bounds[1])
        assert len(taken) >= bounds[0]


def test_a_piece_is_as_likely_as_any_other_whatever_the_length_of_its_word() -> None:
    begins = np.zeros(SIZE + 1, bool)
    begins[4:8] = True
    row = [4, 5, 20, 20, 20, 6, 20, 7, 5, 4, 6, 21, 21]  # words of 1, 4, 2, 1, 1, 1 and 3 pieces
    _, found = masking(0.3, begins).draw(np.array([row] * 5000), np.random.default_rng(0))
    counts = (found != PAD).sum(0)
    assert np.abs(counts / 5000 - 0.3).max() < 4 * math.sqrt(0.3 * 0.7 / 5000)


@pytest.mark.parametrize(
    "inner",
    [
        BpeTokenizer.train(TEXT, max_size=270),
        UnigramTokenizer.train(TEXT, max_size=30),
        CharacterTokenizer.train(TEXT),
    ],
    ids=lambda inner: inner.kind,
)
def test_pieces_that_begin_with_a_space_or_a_mark_begin_a_word(inner: Tokenizer) -> None:
    tokenizer = MarkedTokenizer(inner, [MASK])
    begins = word_beginnings(tokenizer)
    text = "the matty cats, doggysaw"
    encoded = tokenizer.encode(text)
    assert len(encoded) > 5  # some words have several pieces
    starts = [True, *begins[encoded[1:]].tolist()]
    pieces = [piece.replace("▁", " ") for piece in tokenizer.pieces(text)]
    words: list[str] = []
    for piece, start in zip(pieces, starts, strict=True):
        words = [*words, piece] if start else [*words[:-1], words[-1] + piece]
    assert [word.strip() for word in words] == ["the", "matty", "cats", ",", "doggysaw"]


def test_every_token_of_a_word_tokeniser_is_a_word() -> None:
    assert word_beginnings(MarkedTokenizer(WordTokenizer.train(TEXT), [MASK])).all()


def test_a_configuration_becomes_a_masking() -> None:
    tokenizer = MarkedTokenizer(WordTokenizer.train(TEXT), [MASK])
    made = Masking.of(MaskedObjective(rate=0.2, whole_words=True), tokenizer)
    assert (made.rate, made.masked, made.random, made.mask) == (0.2, 0.8, 0.1, tokenizer.mark(MASK))
    assert made.begins is not None
    assert not made.ordinary(np.array([UNK, PAD, BOS, EOS, made.mask])).any()
