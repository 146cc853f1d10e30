from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from seqloom.text.characters import CharacterTokenizer
from seqloom.text.special import UNK


@given(st.text(min_size=1))
def test_known_text_comes_back_exactly(text: str) -> None:
    tokenizer = CharacterTokenizer.train([text])
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == text
    assert len(ids) == len(text)
    assert min(ids) > 3


@given(st.text(min_size=1), st.text())
def test_table_agrees_with_the_vocabulary(seen: str, text: str) -> None:
    tokenizer = CharacterTokenizer.train([seen])
    assert tokenizer.encode(text) == tokenizer.vocabulary.ids(text)
    assert tokenizer.encode_batch([text])[0].tolist() == tokenizer.encode(text)


def test_characters_are_ordered_by_frequency() -> None:
    text = "the time machine 时间机器时"
    ordered = sorted(Counter(text).items(), key=lambda pair: (-pair[1], pair[0]))
    assert CharacterTokenizer.train([text]).vocabulary.ordinary == [character for character, _ in ordered]


def test_unseen_characters_are_unknown_above_and_below_the_table() -> None:
    tokenizer = CharacterTokenizer.train(["mm"])
    assert tokenizer.encode("am😀\U0010ffff\ud800n") == [UNK, 4, UNK, UNK, UNK, UNK]
    assert tokenizer.decode(tokenizer.encode("am")) == "<unk>m"
