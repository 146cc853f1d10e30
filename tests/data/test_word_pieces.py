"""Sentences of words in pieces: as the tokeniser cuts a text, with the place where each word begins."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seqloom.data.masking import MASK
from seqloom.data.word_pieces import WordPieces, at_words
from seqloom.text.characters import CharacterTokenizer
from seqloom.text.marks import MarkedTokenizer
from seqloom.text.special import BOS, EOS, UNK
from seqloom.text.subwords import BpeTokenizer, UnigramTokenizer
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.words import WordTokenizer

TEXT = ["the cats sat on the mat", "a catty dog saw the cats"] * 5
SENTENCES = [["the", "doggy", "sat"], ["cats"], ["a", "matty", "dog", "saw", "cats"]]
every_tokenizer = pytest.mark.parametrize(
    "inner",
    [
        BpeTokenizer.train(TEXT, max_size=270),
        UnigramTokenizer.train(TEXT, max_size=30),
        WordTokenizer.train(TEXT),
        CharacterTokenizer.train(TEXT),
    ],
    ids=lambda inner: inner.kind,
)


@every_tokenizer
def test_pieces_are_those_of_the_text_and_words_begin_where_they_begin(inner: Tokenizer) -> None:
    pieces = WordPieces.of(SENTENCES, MarkedTokenizer(inner, [MASK]))
    for number, words in enumerate(SENTENCES):
        row = pieces.pieces[number].tolist()
        assert row == [BOS, *inner.encode(" ".join(words)), EOS]
        begins = [len(inner.encode(" ".join(words[:place]))) + 1 if place else 1 for place in range(len(words))]
        assert pieces.firsts[number].tolist() == begins


def test_a_word_without_pieces_is_unknown() -> None:
    pieces = WordPieces.of([["", "cat", " "]], MarkedTokenizer(WordTokenizer.train(TEXT), [MASK]))
    assert pieces.pieces[0].tolist() == [BOS, UNK, UNK, UNK, EOS]
    assert pieces.firsts[0].tolist() == [1, 2, 3]


@every_tokenizer
def test_vectors_of_words_are_those_at_their_places(inner: Tokenizer) -> None:
    pieces = WordPieces.of(SENTENCES, MarkedTokenizer(inner, [MASK]))
    batch = pieces.batch(np.array([2, 0]))
    vectors = torch.randn(3, *batch.pieces.shape, 5)
    found = at_words(vectors, batch.firsts)
    assert found.shape == (3, 2, 5, 5)
    for row, number in enumerate((2, 0)):
        firsts = pieces.firsts[number]
        assert torch.equal(found[:, row, : len(firsts)], vectors[:, row, firsts])
    assert torch.equal(found[1], at_words(vectors[1], batch.firsts))
