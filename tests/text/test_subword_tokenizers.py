from __future__ import annotations

import math
from collections import Counter
from itertools import combinations, pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers import pre_tokenizers

from seqloom.errors import DataError
from seqloom.text import unigram as unigram_module
from seqloom.text.special import SPECIALS, UNK
from seqloom.text.subwords import BYTE_OF, BpeTokenizer, UnigramTokenizer
from seqloom.text.unigram import _best_split, _seed_lattice, learn_pieces

TEXT = """The lower the newer, the newest is the widest. 时间机器时间旅行者，时间！
low lower lowest new newer newest wide wider widest <bos> <unk> lowly newly widely"""

bpe = BpeTokenizer.train(TEXT.split("\n"), max_size=400)
unigram = UnigramTokenizer.train([TEXT], max_size=90)
fragments = [*SPECIALS, " ", "  ", "\n", "lower", "时", "▁", "<", "\r\n", "\t"]
anything = st.text() | st.lists(st.sampled_from(fragments)).map("".join)


@given(anything)
def test_bpe_gives_any_text_back_exactly(text: str) -> None:
    ids = bpe.encode(text)
    assert bpe.decode(ids) == text
    assert all(id > 3 for id in ids)


@given(st.lists(st.sampled_from([*SPECIALS, " ", "  ", "\n", "a", "x<bos>y", "时"])).map("".join))
@pytest.mark.parametrize("tokenizer", [bpe, unigram], ids=["bpe", "unigram"])
def test_typed_special_symbols_never_become_control_ids(tokenizer: BpeTokenizer | UnigramTokenizer, text: str) -> None:
    assert not {1, 2, 3} & set(tokenizer.encode(text))


def test_the_byte_alphabet_is_the_librarys() -> None:
    assert set(BYTE_OF) == set(pre_tokenizers.ByteLevel.alphabet())
    split = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False).pre_tokenize_str
    for character in map(chr, range(1, 0x250)):
        [(piece, _)] = split(character)
        assert bytes(BYTE_OF[symbol] for symbol in piece) == character.encode()
    assert sorted(BYTE_OF.values()) == list(range(256))


def test_bpe_merges_the_most_frequent_pair_first() -> None:
    # Sennrich et al. 2016: low (5), lower (2), newest (6), widest (3); "es" and "st" tie at 9, then "est".
    text = " ".join(["low"] * 5 + ["lower"] * 2 + ["newest"] * 6 + ["widest"] * 3)
    tokenizer = BpeTokenizer.train([text], max_size=4 + 256 + 2)
    assert tokenizer.size == 262
    assert tokenizer.tokens(tokenizer.encode("newest")) == ["n", "e", "w", "est"]


def test_part_of_a_character_is_shown_as_its_bytes() -> None:
    tokenizer = BpeTokenizer.train(["plain"], max_size=260)
    ids = tokenizer.encode("时")
    assert tokenizer.tokens(ids) == ["\\xe6", "\\x97", "\\xb6"]
    assert tokenizer.decode(ids[:2]) == "\ufffd"


@given(st.lists(st.sampled_from(["The", "low", "时间", "newest", " ", "  ", "\n", ",", ".", "<", ">"])).map("".join))
def test_unigram_gives_text_of_known_characters_back_exactly(text: str) -> None:
    ids = unigram.encode(text)
    assert UNK not in ids
    assert unigram.decode(ids) == text


def test_unigram_shows_unseen_characters_as_unknown() -> None:
    assert unigram.decode(unigram.encode("low Ω new")) == "low <unk> new"


def test_unigram_learns_the_repeated_parts_of_words() -> None:
    assert unigram.tokens(unigram.encode("lowest newest"))[-1].endswith("est")
    assert len(unigram.encode("the newest time 时间")) < len("the newest time 时间")


def segmentations(word: str, pieces: dict[str, float]) -> list[list[str]]:
    ways = []
    for number in range(len(word)):
        for cuts in combinations(range(1, len(word)), number):
            bounds = [0, *cuts, len(word)]
            parts = [word[a:b] for a, b in pairwise(bounds)]
            if all(part in pieces for part in parts):
                ways.append(parts)
    return ways


@settings(max_examples=40)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=6), st.integers(1, 5), min_size=1, max_size=6), st.data())
def test_expected_counts_equal_enumeration_of_all_segmentations(counts: dict[str, int], data: st.DataObject) -> None:
    lattice, pieces = _seed_lattice(counts, size=100)
    scores = np.array(data.draw(st.lists(st.floats(-9, 0), min_size=len(pieces), max_size=len(pieces))))
    known = dict(zip(pieces, scores.tolist(), strict=True))
    expected: Counter[str] = Counter()
    for word, count in counts.items():
        ways = segmentations(word, known)
        probabilities = [math.exp(sum(known[part] for part in way)) for way in ways]
        for way, probability in zip(ways, probabilities, strict=True):
            for part in way:
                expected[part] += count * probability / sum(probabilities)
    assert lattice.expected_counts(scores, len(pieces)) == pytest.approx([expected[piece] for piece in pieces])
    for piece in pieces:
        others = [way for way in segmentations(piece, known) if len(way) > 1]
        best = max((sum(known[part] for part in way) for way in others), default=-math.inf)
        assert _best_split(piece, known) == pytest.approx(best)


@settings(max_examples=40)
@given(st.dictionaries(st.text("abc", min_size=1, max_size=8), st.integers(1, 5), min_size=1, max_size=6))
def test_seeds_are_all_characters_and_all_repeated_substrings(counts: dict[str, int]) -> None:
    substrings: Counter[str] = Counter()
    for word, count in counts.items():
        for start in range(len(word)):
            for end in range(start + 1, len(word) + 1):
                substrings[word[start:end]] += count
    lattice, pieces = _seed_lattice(counts, size=1000)
    expected = {piece: count for piece, count in substrings.items() if count >= 2 or len(piece) == 1}
    assert dict(zip(pieces, lattice.frequencies, strict=True)) == expected


def test_pieces_are_a_probability_distribution_of_the_size_asked_for() -> None:
    counts = Counter(word for word in TEXT.split() for _ in range(3))
    pieces = learn_pieces(counts, size=45)
    assert len(pieces) == 45
    assert math.fsum(math.exp(score) for _, score in pieces) == pytest.approx(1)
    assert {character for word in counts for character in word} <= {piece for piece, _ in pieces}
    assert pieces == learn_pieces(Counter(dict(reversed(counts.items()))), size=45)


def test_too_many_characters_leave_the_rarest_unknown() -> None:
    tokenizer = UnigramTokenizer.train(["aab abc aab d"], max_size=4 + 3)
    assert tokenizer.size == 7
    assert tokenizer.decode(tokenizer.encode("aab d")) == "aab <unk>"


def test_of_very_many_words_the_most_frequent_are_learned_from(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unigram_module, "MOST_CHARACTERS", 8)
    pieces = dict(learn_pieces({"abab": 9, "cdcd": 5, "efef": 2, "x": 10}, size=50))
    assert "abab" in pieces
    assert "efef" not in pieces


@pytest.mark.parametrize("kind", [BpeTokenizer, UnigramTokenizer])
def test_words_are_cut_at_contractions_marks_and_spaces(kind: type[BpeTokenizer | UnigramTokenizer]) -> None:
    tokenizer = kind.train(["we'll see; you'll go  there 2024\n"] * 50, max_size=1000)
    tokens = tokenizer.tokens(tokenizer.encode("you'll go  there 2024;\n"))
    words = [token.replace("▁", " ") for token in tokens]
    first = " you" if kind is UnigramTokenizer else "you"
    assert words == [first, "'ll", " go", " ", " there", " 2024", ";", "\n"]


@pytest.mark.parametrize("kind", [BpeTokenizer, UnigramTokenizer])
def test_text_without_spaces_is_learned_in_pieces_of_bounded_length(
    kind: type[BpeTokenizer | UnigramTokenizer],
) -> None:
    text = "acgt" * 20_000  # one word of this length would take the byte-pair trainer seconds, a genome for ever
    tokenizer = kind.train([text], max_size=300)
    assert tokenizer.decode(tokenizer.encode(text)) == text
    assert max(map(len, tokenizer.tokens(range(tokenizer.size)))) <= 64


def test_a_lone_surrogate_is_told() -> None:
    for tokenizer in (bpe, unigram):
        with pytest.raises(DataError, match="surrogate"):
            tokenizer.encode("a\ud800")


def test_errors_of_the_text_pass_through_training() -> None:
    def broken():
        yield "fine"
        raise DataError("line 2 is broken")

    for kind in (BpeTokenizer, UnigramTokenizer):
        with pytest.raises(DataError, match="line 2 is broken"):
            kind.train(broken())
