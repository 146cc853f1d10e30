"""The compiled table of words: it cuts and numbers text as Python's own strings and dictionaries do."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.text import word_table
from seqloom.text.special import EOS, SPECIALS, UNK
from seqloom.text.vocabulary import Vocabulary
from seqloom.text.word_table import MIX, WordTable
from seqloom.text.words import WhitespaceTokenizer

SPACES = [chr(point) for point in range(sys.maxunicode + 1) if chr(point).isspace()]
letters = st.sampled_from([*SPACES, *"ab\0\x01\x1b\x7f", "é", "—", "”", "中", "ー", "\u200b", "\u1681", "\u3001", "𝄞"])
longer = st.integers(1, 40).map(lambda length: "long" * length)  # words on both sides of 8 and 16 bytes
texts = st.lists(letters | longer | st.sampled_from(SPECIALS)).map("".join)


def plain_ids(lines: list[str], numbers: dict[str, int]) -> list[int]:
    return [id for line in lines for id in (*(numbers.get(word, UNK) for word in line.split()), EOS)]


@given(st.lists(texts, min_size=1))
def test_words_are_numbered_in_the_order_in_which_they_come(blocks: list[str]) -> None:
    table = WordTable()
    numbers: dict[str, int] = {}
    for block in blocks:
        for word in block.split():
            numbers.setdefault(word, len(SPECIALS) + len(numbers))
        assert table.learn(f"{block}\n".encode()).tolist() == plain_ids(block.split("\n"), numbers)
    assert table.words() == list(numbers)
    assert table.size == len(SPECIALS) + len(numbers)
    counts = Counter(" ".join(blocks).split())
    assert table.seen().tolist() == [counts[word] for word in numbers]


@given(st.lists(texts), texts)
def test_words_that_are_not_in_the_table_are_unknown(known: list[str], text: str) -> None:
    words = list(dict.fromkeys(" ".join(known).split()))
    numbers = {word: id for id, word in enumerate(words, start=len(SPECIALS))}
    table = WordTable.of(words)
    assert table.look_up(f"{text}\n".encode()).tolist() == plain_ids(text.split("\n"), numbers)
    assert table.words() == words


def test_every_character_cuts_or_does_not_as_in_str_split() -> None:
    points = (point for point in range(sys.maxunicode + 1) if not 0xD800 <= point < 0xE000)
    text = "".join(f"{chr(point)}a" for point in points)
    table = WordTable()
    table.learn(f"{text}\n".encode())
    assert table.words() == list(dict.fromkeys(text.split()))


def test_a_table_grows_and_forgets_nothing() -> None:
    numbers = random.Random(1).sample(range(10**9), 50_000)
    text = " ".join(f"{number:x}" * (number % 4 + 1) for number in numbers) + "\n"
    table = WordTable()
    ids = table.learn(text.encode())
    assert ids.tolist() == [*range(len(SPECIALS), len(SPECIALS) + len(numbers)), EOS]
    assert (table.look_up(text.encode()) == ids).all()
    assert table.words() == text.split()


def same_hash() -> tuple[bytes, bytes]:
    """Two words of 17 bytes whose heads and hashes are the same: tail' = (tail ^ tail >> 32) · MIX + byte."""
    rest = (1 << 64) - 1
    inverse = pow(int(MIX), -1, 1 << 64)
    draw = random.Random(2)
    while True:
        one = bytes(draw.choices(range(ord("!"), ord("z")), k=9))
        tail = int.from_bytes(one[:8], "big")
        mixed = (tail ^ tail >> 32) + (one[8] - ord("z")) * inverse & rest
        other = (mixed ^ mixed >> 32).to_bytes(8, "big") + b"z"
        if other[0] < 0x80 and (word_table.KINDS[[*other]] == word_table.WORD).all():
            return b"beginning"[:8] + one, b"beginning"[:8] + other


def test_words_with_the_same_hash_keep_ids_of_their_own() -> None:
    one, other = same_hash()
    assert one != other
    table = WordTable()
    assert table.learn(b"%s %s %s\n" % (one, other, one)).tolist() == [4, 5, 4, EOS]
    slots = table._slots[table._slots[:, word_table.ENTRY] != 0]
    assert (slots[0, :2] == slots[1, :2]).all()  # else this would be no test


def test_a_word_may_be_very_long() -> None:
    word = b"longest " * (1 << 20)
    word = word.replace(b" ", b"-")
    table = WordTable()
    assert table.learn(b"a %s b %s\n" % (word, word)).tolist() == [4, 5, 6, 5, EOS]
    assert table.look_up(word[:-1] + b" " + word + b"\n").tolist() == [UNK, 5, EOS]


def test_what_str_split_would_cut_keeps_its_id_and_is_never_found() -> None:
    table = WordTable.of(["a b", "", "c", "\u2028", "a\n"])
    assert table.size == 9
    assert table.look_up(b"a b c a\n").tolist() == [UNK, UNK, 6, UNK, EOS]


def test_text_must_end_in_a_newline() -> None:
    with pytest.raises(ValueError, match="newline"):
        WordTable().learn(b"a b")


# ------------------------------------------------------------------------------------- the tokeniser that uses it

anything = st.lists(texts | st.text(st.characters(exclude_categories=[]), max_size=20), max_size=6)


@given(anything, anything, st.booleans(), st.integers(1, 8))
def test_a_large_batch_is_encoded_as_a_small_one(
    known: list[str], batch: list[str], lowercase: bool, max_size: int
) -> None:
    trained = WhitespaceTokenizer.train([*known, "A word"], lowercase=lowercase, max_size=max_size)
    small, large = (WhitespaceTokenizer(trained.vocabulary, lowercase) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("seqloom.text.words.LARGE_BATCH", 0)
        ids, lengths = large.encode_flat(batch)
        pieces = large.encode_batch(batch)
    assert small._table is None
    assert large._table is not None
    expected = [small.encode(text) for text in batch]
    assert [piece.tolist() for piece in pieces] == expected
    assert all(piece.dtype == np.uint32 for piece in pieces)
    assert ids.tolist() == [id for piece in expected for id in (*piece, EOS)]
    assert lengths.tolist() == [len(piece) + 1 for piece in expected]
    assert (ids.dtype, lengths.dtype) == (np.int32, np.int64)
    for plain, compiled in zip(small.encode_flat(batch), (ids, lengths), strict=True):
        assert (plain.tolist(), plain.dtype) == (compiled.tolist(), compiled.dtype)


def test_the_table_is_made_for_the_first_large_batch_and_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.text.words.LARGE_BATCH", 10)
    tokenizer = WhitespaceTokenizer(Vocabulary(["a", "b"]))
    tokenizer.encode_flat(["a b"])
    assert tokenizer._table is None
    tokenizer.encode_flat(["a b", "b b b b"])
    table = tokenizer._table
    assert table is not None
    assert tokenizer.encode_batch(["b"])[0].tolist() == [5]
    assert tokenizer._table is table


def test_small_batches_do_not_load_the_compiler() -> None:
    program = (
        "import sys, seqloom.data.word_store\n"
        "from seqloom.text.words import WhitespaceTokenizer\n"
        "tokenizer = WhitespaceTokenizer.train(['a b c'])\n"
        "tokenizer.encode_batch(['a b'] * 1000), tokenizer.encode_flat(['a b'] * 1000)\n"
        "assert 'numba' not in sys.modules\n"
        "tokenizer.encode_flat(['a b'] * 100_000)\n"
        "assert 'numba' in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
