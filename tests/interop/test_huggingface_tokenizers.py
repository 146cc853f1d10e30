"""Our tokenisers as the library reads them: the same ids for the same text."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st
from tokenizers import Tokenizer as LibraryTokenizer

from seqloom.errors import DataError
from seqloom.interop.huggingface.tokenizers import written_tokenizer
from seqloom.text.characters import CharacterTokenizer
from seqloom.text.huggingface import HuggingFaceTokenizer
from seqloom.text.kinds import tokenizer_of
from seqloom.text.marks import MarkedTokenizer
from seqloom.text.special import SPECIALS
from seqloom.text.subwords import BpeTokenizer, UnigramTokenizer
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.words import WhitespaceTokenizer, WordTokenizer

TEXTS = [
    "the time traveller smiled",
    "The end.\nAnd\tso on: 我们 don't",
    "naïve café — ½ of Σ… 🎉 x\x85y\x1cz",
    "a b  c   ",
] * 3
MADE: dict[str, Tokenizer] = {
    "bpe": BpeTokenizer.train(TEXTS, max_size=300),
    "bpe, lower": BpeTokenizer.train(TEXTS, max_size=300, lowercase=True),
    "unigram": UnigramTokenizer.train(TEXTS, max_size=80),
    "unigram, lower": UnigramTokenizer.train(TEXTS, max_size=80, lowercase=True),
    "whitespace": WhitespaceTokenizer.train(TEXTS),
    "whitespace, lower": WhitespaceTokenizer.train(TEXTS, lowercase=True),
    "words": WordTokenizer.train(TEXTS),
    "words, lower": WordTokenizer.train(TEXTS, lowercase=True),
    "characters": CharacterTokenizer.train(TEXTS),
    "characters, lower": CharacterTokenizer.train(TEXTS, lowercase=True),
}
WRITTEN = {name: LibraryTokenizer.from_str(written_tokenizer(made, ("<bos>", "$A"))) for name, made in MADE.items()}
# Without Σ, which Python lowers by what follows it, and characters that are not yet of every Unicode.
ALPHABET = st.characters(exclude_categories=["Cs", "Cn"], exclude_characters="Σ")


@pytest.mark.parametrize("name", MADE)
@given(
    text=st.text(ALPHABET, max_size=40) | st.text(st.sampled_from("ab eThs\n\t\r\x1c\u3000我▁Ġ<>…½'s.1"), max_size=40)
)
@example(text="")
@example(text=" ")
@example(text="▁the ▁ time  ")
@example(text="don't x\x85y\x1cz\u2028w\u200b\ufeff")
@example(text="the\ntime traveller's 🎉🎉 unseen-wörds")
@settings(max_examples=60, deadline=None)
def test_the_library_gives_a_text_our_ids(name: str, text: str) -> None:
    assume(not any(symbol in text for symbol in SPECIALS))  # which the library takes for the symbols
    assert WRITTEN[name].encode(text, add_special_tokens=False).ids == MADE[name].encode(text)


@pytest.mark.parametrize("name", MADE)
def test_the_library_decodes_as_we_do(name: str) -> None:
    for text in ["the time traveller smiled", "a b c", "The end" if "words" in name else "The end."]:
        ids = MADE[name].encode(text)
        assert WRITTEN[name].decode(ids, skip_special_tokens=False) == MADE[name].decode(ids)
        assert WRITTEN[name].decode([2, *ids, 3], skip_special_tokens=True) == MADE[name].decode(ids).replace(
            "<unk>", ""
        )


@pytest.mark.parametrize("name", MADE)
def test_symbols_are_special_and_have_the_first_ids(name: str) -> None:
    for id, symbol in enumerate(SPECIALS):
        assert WRITTEN[name].token_to_id(symbol) == id
    added = WRITTEN[name].get_added_tokens_decoder()
    assert [added[id].special for id in range(4)] == [True] * 4
    assert WRITTEN[name].get_vocab_size() == MADE[name].size
    assert WRITTEN[name].encode("the").ids[0] == 2


@pytest.mark.parametrize("name", MADE)
def test_marks_are_found_where_we_find_them(name: str) -> None:
    marked = MarkedTokenizer(MADE[name], ["[MASK]", "<extra_id_0>"])
    library = LibraryTokenizer.from_str(written_tokenizer(marked, ("<bos>", "$A", "<eos>")))
    for text in ["the [MASK] smiled", "[MASK]", "a<extra_id_0>b [MASK]", "a[MASK]\n\n<extra_id_0>  the"]:
        assert library.encode(text, add_special_tokens=False).ids == marked.encode(text)
    pair = library.encode("the", "end")
    assert pair.ids[0] == 2
    assert pair.ids[-1] == 3
    assert pair.type_ids[-1] == 1


def test_with_marks_only_the_space_that_a_text_begins_with_is_left_out() -> None:
    marked = MarkedTokenizer(MADE["unigram"], ["[MASK]"])
    library = LibraryTokenizer.from_str(written_tokenizer(marked, ("$A", "<eos>")))
    assert (
        library.encode(" the [MASK] b").ids == library.encode("the [MASK] b").ids == [*marked.encode("the [MASK] b"), 3]
    )


# ------------------------------------------------------------------------------------------------- that of a folder

LIBRARY = written_tokenizer(MADE["bpe"], ("<bos>", "$A"))
CONTENTS: dict[str, Any] = {"text": LIBRARY, "rows": 310, "symbols": [None, 1, None, 3], "lead": [2], "without": []}


def test_saving_and_loading_changes_nothing() -> None:
    made = HuggingFaceTokenizer.from_contents(CONTENTS)
    again = tokenizer_of(json.loads(made.document))
    assert isinstance(again, HuggingFaceTokenizer)
    assert again.document == made.document
    assert [again.encode(text) for text in TEXTS] == [made.encode(text) for text in TEXTS]
    assert again.size == 312
    assert again.tokens([311]) == ["<unused-309>"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("text", "{}"),
        ("text", LIBRARY[:200]),
        ("text", 3),
        ("rows", 100),
        ("rows", 10**9),
        ("rows", True),
        ("symbols", [0, 1, 2]),
        ("symbols", [0, 1, 2, None]),
        ("symbols", [0, 1, 2, 2]),
        ("symbols", [0, 1, 2, 400]),
        ("symbols", [0, 1, "2", 3]),
        ("symbols", None),
        ("lead", [1]),
        ("lead", 5),
        ("without", [-1]),
    ],
)
def test_a_damaged_one_is_refused(key: str, value: Any) -> None:
    document = {"kind": "huggingface", "version": 1, **CONTENTS, key: value}
    with pytest.raises(DataError, match="the huggingface tokeniser is damaged"):
        tokenizer_of(document)


def test_added_tokens_keep_their_ids_where_a_symbol_is_hidden_among_them() -> None:
    """Llama 3's symbols are no pieces of its model: they have ids by being added."""
    library = LibraryTokenizer.from_str(LIBRARY)
    library.add_special_tokens(["<|begin|>", "<|end|>", "<|other|>"])
    begin, end, other = (library.token_to_id(f"<|{name}|>") for name in ("begin", "end", "other"))
    made = HuggingFaceTokenizer(library.to_str(), other + 1, [None, None, begin, end])
    assert made.encode("<|other|>") == [int(made.ours[other])] == [made.mark("<|other|>")]
    ids = made.encode("the <|begin|> end <|end|>")
    assert not {1, 2, 3} & set(ids)
    assert made.decode(ids) == "the <|begin|> end <|end|>"
