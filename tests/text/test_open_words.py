"""Pieces of text one to one with ids, and the numbers that unknown words have in the pair of a copy model."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.errors import DataError
from seqloom.text import words as words_module
from seqloom.text.characters import CharacterTokenizer
from seqloom.text.open_words import (
    decode,
    encode_sources,
    encode_targets,
    tokens,
)
from seqloom.text.special import BOS, EOS, PAD, UNK
from seqloom.text.subwords import BpeTokenizer, UnigramTokenizer
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.vocabulary import Vocabulary
from seqloom.text.words import WhitespaceTokenizer, WordTokenizer, join_words, split_words

TEXTS = ["the time traveller said: do not go!", "he said (the time was late) no."]
WORDS = WordTokenizer.train(TEXTS)
TOKENIZERS = [
    WORDS,
    WordTokenizer.train(TEXTS, lowercase=True),
    WhitespaceTokenizer.train(TEXTS),
    CharacterTokenizer.train(TEXTS),
    BpeTokenizer.train(TEXTS, max_size=290),
    UnigramTokenizer.train(TEXTS, max_size=50),
    UnigramTokenizer.train(TEXTS, max_size=50, lowercase=True),
]
tokenizers = st.sampled_from(TOKENIZERS)

# Known and unknown words, marks that attach to either side, ideographs, an emoji, letters with marks, stray spaces.
PARTS = """the time said Weena Morlock's 3.14 <unk> <bos> ( ) , . " - 我 时间 龘龘 😀 e\u0301 İx"""
parts = st.sampled_from([*PARTS.split(" "), "", "  ", "\n"])
sentences = st.builds(str.join, st.sampled_from(["", " "]), st.lists(parts, max_size=12))
texts = sentences | st.text(st.characters(codec="utf-8"), max_size=20)


# ------------------------------------------------------------------------------------------------------------- pieces


@given(tokenizers, texts)
def test_there_is_one_piece_for_each_id(tokenizer: Tokenizer, text: str) -> None:
    assert len(tokenizer.pieces(text)) == len(tokenizer.encode(text))


@given(tokenizers, texts)
def test_the_piece_of_a_known_id_is_its_token(tokenizer: Tokenizer, text: str) -> None:
    ids = tokenizer.encode(text)
    for id, piece, token in zip(ids, tokenizer.pieces(text), tokenizer.tokens(ids), strict=True):
        assert id == UNK or piece == token


@given(tokenizers.filter(lambda tokenizer: tokenizer.kind != "bpe"), texts)
def test_pieces_are_the_prepared_text_without_what_divides_words(tokenizer: Tokenizer, text: str) -> None:
    divided = tokenizer.kind in ("words", "whitespace")
    prepared = "".join(tokenizer.prepare(text).split()) if divided else tokenizer.prepare(text)
    assert "".join(tokenizer.pieces(text)) == prepared


@pytest.mark.parametrize("tokenizer", TOKENIZERS[4:6], ids=lambda tokenizer: tokenizer.kind)
def test_half_a_character_has_no_subwords(tokenizer: Tokenizer) -> None:
    with pytest.raises(DataError, match="surrogate"):
        tokenizer.pieces("a\ud800")


def test_pieces_of_words_and_of_subwords() -> None:
    assert WORDS.pieces("Weena said: no.") == ["Weena", "said", ":", "no", "."]
    assert TOKENIZERS[1].pieces("Weena") == ["weena"]
    assert TOKENIZERS[5].pieces("龘龘 龘") == ["▁", "龘龘", "▁", "龘"]
    assert TOKENIZERS[4].pieces("我") == [r"\xe6", r"\x88", r"\x91"]
    assert "".join(TOKENIZERS[4].pieces("said Weena")) == "said Weena"


@given(tokenizers.filter(lambda tokenizer: tokenizer.kind != "bpe"), st.lists(st.sampled_from(TEXTS), max_size=3))
def test_known_pieces_joined_are_the_decoded_text(tokenizer: Tokenizer, some: list[str]) -> None:
    text = " ".join(some)
    assert tokenizer.join(tokenizer.pieces(text)) == tokenizer.decode(tokenizer.encode(text))


# ------------------------------------------------------------------------------------------------------------ sources


def encode_source(tokenizer: Tokenizer, text: str) -> tuple[list[int], list[str]]:
    """The ids of one source, and its unknown words."""
    ids, _, unknown = encode_sources(tokenizer, [text])
    return ids[:-1].tolist(), unknown[0]


def encode_target(tokenizer: Tokenizer, text: str, unknown: list[str]) -> list[int]:
    """The ids of one target."""
    return encode_targets(tokenizer, [text], [unknown])[0][:-1].tolist()


def test_unknown_words_are_numbered_as_they_first_appear() -> None:
    ids, unknown = encode_source(WORDS, "Weena said Morlock, Weena!")
    said, comma, mark = WORDS.encode("said, !")[0], UNK, WORDS.encode("!")[0]
    assert comma == WORDS.encode(",")[0]  # which the vocabulary does not know either
    assert unknown == ["Weena", "Morlock", ","]
    first = WORDS.size
    assert ids == [first, said, first + 1, first + 2, first, mark]


@given(tokenizers, texts)
def test_known_ids_are_those_of_the_tokenizer_and_the_others_stand_where_it_has_unknown(
    tokenizer: Tokenizer, text: str
) -> None:
    ids, unknown = encode_source(tokenizer, text)
    assert [id if id < tokenizer.size else UNK for id in ids] == tokenizer.encode(text)
    assert UNK not in ids
    numbers = [id - tokenizer.size for id in ids if id >= tokenizer.size]
    assert list(dict.fromkeys(numbers)) == list(range(len(unknown)))  # each is used, in order, and no other
    assert len(set(unknown)) == len(unknown)


@given(tokenizers, texts)
def test_numbers_stand_for_the_words_as_they_are_written(tokenizer: Tokenizer, text: str) -> None:
    ids, unknown = encode_source(tokenizer, text)
    assert tokens(tokenizer, ids, unknown) == tokenizer.pieces(text)


@given(sentences.filter(lambda text: "<" not in text))
def test_a_source_reads_as_if_the_vocabulary_knew_all_its_words(text: str) -> None:
    for tokenizer in TOKENIZERS:
        ids, unknown = encode_source(tokenizer, text)
        read = decode(tokenizer, [BOS, *ids, EOS, PAD], unknown)
        if isinstance(tokenizer, WordTokenizer):
            knowing = type(tokenizer)(Vocabulary(list(dict.fromkeys(tokenizer.pieces(text)))), tokenizer.lowercase)
            assert read == knowing.decode(knowing.encode(text))
        else:
            assert read == (text.lower() if tokenizer.lowercase else text)


@given(texts)
def test_marks_attach_to_unknown_words_too(text: str) -> None:
    assert decode(WORDS, *encode_source(WORDS, text)) == join_words(split_words(text))


@given(texts)
def test_byte_pairs_know_every_word(text: str) -> None:
    tokenizer = TOKENIZERS[4]
    assert encode_source(tokenizer, text) == (tokenizer.encode(text), [])
    assert decode(tokenizer, tokenizer.encode(text), []) == text


# ------------------------------------------------------------------------------------------------------------ targets


def test_a_name_that_was_never_seen_survives_from_source_to_target() -> None:
    _, unknown = encode_source(WORDS, "The time traveller said (to Weena): go!")
    ids = encode_target(WORDS, "Weena, go!", unknown)
    assert decode(WORDS, [*ids, EOS], unknown) == "Weena <unk> go!"
    assert tokens(WORDS, [BOS, *ids, EOS], unknown) == ["<bos>", "Weena", "<unk>", "go", "!", "<eos>"]
    assert decode(WORDS, np.array(ids), unknown) == "Weena <unk> go!"
    assert "Weena" not in WORDS.vocabulary


@given(tokenizers, texts, texts)
def test_a_word_has_the_same_number_in_source_and_target(tokenizer: Tokenizer, source: str, target: str) -> None:
    source_ids, unknown = encode_source(tokenizer, source)
    numbers = dict(zip(tokenizer.pieces(source), source_ids, strict=True))
    target_ids = encode_target(tokenizer, target, unknown)
    for known, id, piece in zip(tokenizer.encode(target), target_ids, tokenizer.pieces(target), strict=True):
        assert id == (numbers.get(piece, UNK) if known == UNK else known)


@given(tokenizers, texts)
def test_a_target_that_repeats_its_source_has_its_ids(tokenizer: Tokenizer, text: str) -> None:
    ids, unknown = encode_source(tokenizer, text)
    assert encode_target(tokenizer, text, unknown) == ids


# -------------------------------------------------------------------------------------------------------------- many


@given(tokenizers, st.lists(st.tuples(texts, texts), max_size=6))
def test_many_pairs_are_encoded_as_one_by_one(tokenizer: Tokenizer, pairs: list[tuple[str, str]]) -> None:
    sources, targets = [source for source, _ in pairs], [target for _, target in pairs]
    source_ids, source_lengths, unknown = encode_sources(tokenizer, sources)
    target_ids, target_lengths = encode_targets(tokenizer, targets, unknown)
    alone = [encode_source(tokenizer, source) for source in sources]
    assert unknown == [words for _, words in alone]
    assert source_ids.tolist() == [id for ids, _ in alone for id in (*ids, EOS)]
    assert source_lengths.tolist() == [len(ids) + 1 for ids, _ in alone]
    expected = [encode_target(tokenizer, target, words) for target, words in zip(targets, unknown, strict=True)]
    assert target_ids.tolist() == [id for ids in expected for id in (*ids, EOS)]
    assert target_lengths.tolist() == [len(ids) + 1 for ids in expected]


def test_large_batches_in_compiled_code_give_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    some = ["Weena said\nMorlock", "the time", "", " Morlock\u3000Weena Morlock "]
    slow = encode_sources(WhitespaceTokenizer.train(TEXTS), some)
    monkeypatch.setattr(words_module, "LARGE_BATCH", 1)
    fast = encode_sources(WhitespaceTokenizer.train(TEXTS), some)
    assert slow[2] == fast[2] == [["Weena", "Morlock"], [], [], ["Morlock", "Weena"]]
    assert np.array_equal(slow[0], fast[0])
    assert np.array_equal(slow[1], fast[1])
