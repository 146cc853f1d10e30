"""What a model wrote is counted without being spelled, and comes to the same words."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.text.special import EOS, PAD
from seqloom.text.subwords import BpeTokenizer, UnigramTokenizer
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.words import WhitespaceTokenizer
from seqloom.training.written import WordNumbers, WrittenTexts

LINES = ["Ein Mann, der läuft.", "Zwei Hunde (3,5 kg) spielen im Gras-Feld!", "e.g. 1.000 & mehr ...", "日本 – naïve ▁"]
TOKENIZERS = [
    UnigramTokenizer.train(LINES, max_size=70),
    BpeTokenizer.train(LINES * 3, max_size=300),
    WhitespaceTokenizer.train(LINES),
]
KEPT = {tokenizer.kind: WordNumbers("13a") for tokenizer in TOKENIZERS}
"""Each goes through all examples: what was taken down of one is found again in another."""


def written(rows: list[list[int]], tokenizer: Tokenizer) -> WrittenTexts:
    tokens = np.full((len(rows), max(map(len, rows)) + 1), PAD)
    for row, ids in enumerate(rows):
        tokens[row, : len(ids)] = ids
        tokens[row, len(ids)] = EOS
    return WrittenTexts(tokens, tokenizer, lambda: [tokenizer.decode(row) for row in tokens.tolist()])


@pytest.mark.parametrize("tokenizer", TOKENIZERS, ids=lambda tokenizer: tokenizer.kind)
@given(st.data())
def test_words_are_those_of_the_text(tokenizer: Tokenizer, data: st.DataObject) -> None:
    ids = st.integers(0, tokenizer.size - 1)
    texts = written(data.draw(st.lists(st.lists(ids, max_size=30), min_size=1, max_size=5)), tokenizer)
    found = KEPT[tokenizer.kind].of(texts)
    assert ("spelled" in vars(texts)) == (tokenizer.openings is None)
    expected = [KEPT[tokenizer.kind].numbers.of(text) for text in texts]
    assert found.lengths.tolist() == [len(row) for row in expected]
    assert found.tokens.tolist() == [number for row in expected for number in row]


def test_where_words_have_no_spaces_texts_are_spelled() -> None:
    tokenizer = TOKENIZERS[0]
    texts = written([tokenizer.encode("日本 – naïve")], tokenizer)
    assert WordNumbers("char").of(texts).lengths.tolist() == [len("日本–naïve")]
    assert "spelled" in vars(texts)


def test_words_that_are_copied_are_spelled() -> None:
    """Their ids lie behind the vocabulary, and mean something else in every pair."""
    tokenizer = TOKENIZERS[0]
    texts = WrittenTexts(np.array([[tokenizer.size, EOS]]), tokenizer, lambda: ["a new name"])
    assert WordNumbers("13a").of(texts).lengths.tolist() == [3]
