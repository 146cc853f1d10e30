"""Text that comes token by token: together the pieces are what decoding all tokens at once gives."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import TypeAdapter

from seqloom.config.schema.text import TextConfig
from seqloom.text.kinds import train_tokenizer
from seqloom.text.special import EOS
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.unfolding import Unfolding

MARKS = """ a , . ... ; : ! ? % ) ] } … ” ’ » ( [ { “ ‘ « $ # - -- – — / @ " '
。 「 <unk> 我 我们 3.14 don't हिन्दी 🙂 ｗ """
TEXTS = [" ".join(MARKS.split() * 2), "the cat sat on a well-known mat", "时间机器 e\u0301 🙂🙃"] * 2
OPTIONS = {"bpe": {"max_size": 300}, "unigram": {"max_size": 120}}
KINDS = ("words", "whitespace", "characters", "bpe", "unigram")


def tokenizer(kind: str) -> Tokenizer:
    config = TypeAdapter(TextConfig).validate_python({"kind": kind, **OPTIONS.get(kind, {})})
    return train_tokenizer(config, TEXTS)


TOKENIZERS = {kind: tokenizer(kind) for kind in KINDS}


def whole(made: Tokenizer, before: list[int], tokens: list[int]) -> str:
    """What comes after the text before it, where that stays as it was; else by itself."""
    first, together = made.decode(before), made.decode([*before, *tokens])
    return together[len(first) :] if together.startswith(first) else made.decode(tokens)


@pytest.mark.parametrize("kind", KINDS)
@given(data=st.data())
@settings(max_examples=150, deadline=None)
def test_the_pieces_are_the_whole_text(kind: str, data: st.DataObject) -> None:
    made = TOKENIZERS[kind]
    ids = st.sampled_from([0, *range(4, made.size)])
    before, tokens = data.draw(st.lists(ids, max_size=6)), data.draw(st.lists(ids, max_size=25))
    text = Unfolding(made, before)
    assert "".join([*(text.add([token]) for token in [*tokens, EOS]), text.end()]) == whole(made, before, tokens)


def test_quotes_dashes_and_characters_in_parts_are_shown_when_they_are_whole() -> None:
    words = TOKENIZERS["words"]
    text = Unfolding(words)
    spoken = [text.add([token]) for token in words.encode("a ' cat ' - the mat . ' sat")]
    assert spoken == ["a", "", "", "", "", " 'cat'-the", " mat", "", "", ""]
    assert text.end() == ". ' sat"
    pieces = TOKENIZERS["bpe"]
    parts = Unfolding(pieces)
    *first, last = pieces.encode("é")
    assert [parts.add([byte]) for byte in first] == [""] * len(first)
    assert parts.add([last]) == "é"
    assert parts.add(first[:1]) + parts.end() == "\N{REPLACEMENT CHARACTER}"  # cut in the middle of a character


@pytest.mark.parametrize("kind", KINDS)
def test_the_window_does_not_grow_with_the_text(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = TOKENIZERS[kind]
    tokens = made.encode(" the cat sat on a mat" * 200)
    decoded: list[int] = []
    decode = made.decode
    monkeypatch.setattr(made, "decode", lambda ids: (decoded.append(len(ids)), decode(ids))[1])
    text = Unfolding(made, tokens[:600])
    for token in tokens[600:]:
        text.add([token])
    assert max(decoded) <= 4
