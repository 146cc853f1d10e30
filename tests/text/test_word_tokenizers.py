from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.text.special import UNK
from seqloom.text.words import WORD, WhitespaceTokenizer, WordTokenizer, count_words, join_words, split_words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("I don't know, he said.", ["I", "don't", "know", ",", "he", "said", "."]),
        ("five o’clock", ["five", "o’clock"]),
        ("$3.50 for 1,000 at 12:30!", ["$", "3.50", "for", "1,000", "at", "12:30", "!"]),
        ("the 1990s, mp3", ["the", "1990s", ",", "mp3"]),
        ("well-known", ["well", "-", "known"]),
        ("wait... no--yes", ["wait", "...", "no", "--", "yes"]),
        ("我用Python写3行。", ["我", "用", "Python", "写", "3", "行", "。"]),
        ("東京タワーへ", ["東", "京", "タ", "ワ", "ー", "へ"]),
        ("の <unk> N", ["の", "<unk>", "N"]),
        ("<bos>", ["<", "bos", ">"]),
        ("Ελλάδα naïve e\u0301te\u0301 हिन्दी", ["Ελλάδα", "naïve", "e\u0301te\u0301", "हिन्दी"]),
        ("dogs' 'quote'", ["dogs", "'", "'", "quote", "'"]),
        (" \t\n\u2028\x1c", []),
    ],
)
def test_words_numbers_and_marks_stand_apart(text: str, words: list[str]) -> None:
    assert split_words(text) == words


@given(st.text(st.sampled_from("a_Z09'.,:-<unk>\t \x1c\x00$")) | st.text(st.characters(codec="ascii")))
def test_ascii_is_split_as_all_text_is(text: str) -> None:
    assert split_words(text) == WORD.findall(text)


@pytest.mark.parametrize(
    "text",
    [
        "I don't know, he said: yes; no? Yes!",
        '"Well," he said (softly), "it\'s 3.50% of $40."',
        "He said 'no' and left... A well-known either/or.",
        "It was--well--late.",
        "我喜欢北京，你呢？“好。”他说。",
        "我用Python写。",
        "“Yes,” she said.",
        "the <unk> of N",
        "[see (1)]",
    ],
)
def test_decoding_writes_punctuation_as_people_do(text: str) -> None:
    tokenizer = WordTokenizer.train([text])
    assert tokenizer.decode(tokenizer.encode(text)) == text


def squeezed(text: str) -> str:
    return "".join(text.split())


prose = st.text(st.sampled_from("ab' \"’.,-()[]$%:12<>@我们の。“”！\n\t́ー") | st.characters(exclude_categories=["Cs"]))


@given(prose)
def test_words_come_back_up_to_whitespace(text: str) -> None:
    assert squeezed("".join(split_words(text))) == squeezed(text)
    assert squeezed(join_words(split_words(text))) == squeezed(text)


@given(prose)
def test_the_tokenizer_knows_all_words_it_was_trained_on(text: str) -> None:
    tokenizer = WordTokenizer.train([text, "and more"])
    ids = tokenizer.encode(text)
    assert all(id > 3 or word == "<unk>" for id, word in zip(ids, split_words(text), strict=True))
    assert squeezed(tokenizer.decode(ids)) == squeezed(text)


def test_whitespace_tokenizer_takes_words_as_they_stand() -> None:
    text = "no it was n't black <unk> , N 戦場の"
    tokenizer = WhitespaceTokenizer.train([text])
    assert tokenizer.tokens(tokenizer.encode(text)) == text.split()
    assert tokenizer.encode("<unk>") == [UNK]
    assert tokenizer.decode(tokenizer.encode(f"  {text}\n")) == text


def test_rare_words_read_unk() -> None:
    tokenizer = WordTokenizer.train(["a a b b c"], min_count=2)
    assert tokenizer.decode(tokenizer.encode("a c d")) == "a <unk> <unk>"
    assert WordTokenizer.train(["a a b b c"], max_size=1).size == 5


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), (" \n", 0), ("don't stop, now", 3), ("我爱你", 3), ("我 love 你。", 4), ("タワー", 3), ("abc我def", 3)],
)
def test_count_words(text: str, count: int) -> None:
    assert count_words(text) == count


@given(st.text(st.sampled_from("a,我のター \n\u3000")))
def test_count_words_is_the_pieces_between_spaces_and_ideographs(text: str) -> None:
    assert count_words(text) == len(re.findall(r"[我のター]|[^\s我のター]+", text))
