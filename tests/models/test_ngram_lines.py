"""Single lines in compiled code: the scores of the general way, for every model and every line."""

from __future__ import annotations

import copy
import math
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.config.schema.ngram import NgramModelConfig
from seqloom.interop.arpa import read_arpa
from seqloom.models.ngram.counting import count
from seqloom.models.ngram.estimation import estimate
from seqloom.models.ngram.model import NgramModel
from seqloom.models.ngram.single import BACKOFF, BEGIN, FREE, LOG_PROB, WORD, LineScorer, rows_of
from seqloom.text.special import UNK
from seqloom.text.words import WhitespaceTokenizer

SMOOTHINGS = ["modified-kneser-ney", "kneser-ney", "absolute", "laplace", "additive", "maximum-likelihood"]
LONG = "of-more-than-sixteen-bytes"

words = st.sampled_from(["a", "b", "c", "ä", "中", LONG])
texts = st.lists(st.lists(words, max_size=7).map(" ".join), min_size=1, max_size=12).filter(lambda some: any(some))
spaces = st.sampled_from([" ", "\n", "\t ", "\u2028", "\xa0", "\x1c", "\r\n", "\u3000"])
odd = st.sampled_from(["zebra", "<eos>", "<unk>", "\0", "\ud800", "a\ud800", LONG + "s", "”", "\u200b"])
lines = st.lists(words | spaces | odd, max_size=20).map("".join) | st.lists(words | odd, max_size=12).map(" ".join)


def trained(texts: list[str], **options: object) -> tuple[NgramModel, WhitespaceTokenizer]:
    tokenizer = WhitespaceTokenizer.train(texts)
    config = NgramModelConfig(**options)
    tokens, _ = tokenizer.encode_flat(texts)
    return estimate(count(tokens, config.order, tokenizer.size), config).model, tokenizer


def generally(model: NgramModel, tokenizer: WhitespaceTokenizer, line: str) -> tuple[float, int, int, float]:
    """What `LineScorer.score` is to give, from the tokens that Python's own strings and dictionaries find."""
    tokens, lengths = tokenizer.encode_flat([line])
    scores = model.unit_log_probs(tokens, lengths).tolist()
    known = [score for score, token in zip(scores, tokens, strict=True) if token != UNK]
    return float(sum(scores)), len(tokens), len(scores) - len(known), float(sum(known))


@settings(max_examples=150, deadline=None)
@given(
    texts,
    st.lists(lines, min_size=1, max_size=8),
    st.integers(1, 6),
    st.sampled_from([*SMOOTHINGS, "stupid-backoff"]),
    st.sampled_from([[], [0, 1], [0, 0, 1, 2]]),
)
def test_a_line_by_itself_is_scored_as_among_others(
    texts: list[str], some: list[str], order: int, smoothing: str, prune: list[int]
) -> None:
    model, tokenizer = trained(texts, order=order, smoothing=smoothing, prune=prune)
    for closed in (True, False):
        scorer = LineScorer(model, tokenizer, closed)
        for line in [*some, *texts]:
            expected = generally(model, tokenizer, line)
            assert scorer.score(line) == expected
            assert scorer.log_prob(line) == expected[0]


@settings(max_examples=100, deadline=None)
@given(texts, st.integers(3, 6), st.sampled_from([*SMOOTHINGS, "stupid-backoff"]), st.sampled_from([[], [0, 1, 1, 2]]))
def test_of_every_ngram_that_was_counted_the_end_is_in_the_model_too(
    texts: list[str], order: int, smoothing: str, prune: list[int]
) -> None:
    model, _ = trained(texts, order=order, smoothing=smoothing, prune=prune)
    for length in range(2, order + 1):
        shorter = set(map(tuple, model.trie.ngrams(length - 1).tolist()))
        assert {tuple(ngram[1:]) for ngram in model.trie.ngrams(length).tolist()} <= shorter


def test_a_table_holds_every_ngram_once_in_the_range_of_its_context() -> None:
    texts = [f"x w{number} {'y' * (number % 3)}" for number in range(500)]
    model, _ = trained(texts, order=3)
    table, trie = rows_of(model), model.trie
    numbers = table.view(np.float32)
    ends = table[1:, BEGIN]
    rows = {(): range(1, trie.vocabulary_size + 1)}
    seen = 0
    for length in range(1, 4):
        for node, ngram in enumerate(map(tuple, trie.ngrams(length).tolist()), start=trie.level(length).start):
            (row,) = (row for row in rows[ngram[:-1]] if table[row, WORD] == ngram[-1])
            rows[ngram] = range(int(table[row, BEGIN]), int(ends[row]))
            assert numbers[row, LOG_PROB] == model.log_probs[node]
            if length < 3:
                assert numbers[row, BACKOFF] == model.backoffs[node]
            seen += 1
    assert (table[:-1, WORD] != FREE).sum() == seen == len(trie.words)
    assert len(table) < 1.5 * seen + 2


def test_a_copy_outlives_what_it_was_copied_from() -> None:
    model, tokenizer = trained(["a b c", "b c a"], order=3)
    scorer = LineScorer(model, tokenizer, closed=True)
    expected = scorer.score("a b b")
    copied = copy.deepcopy(scorer)
    assert copied._plan != scorer._plan
    scorer._arrays[0][:] = 0  # no address is left
    assert copied.score("a b b") == expected


ARPA = """\\data\\
ngram 1=5
ngram 2=3
ngram 3=3

\\1-grams:
-1.5\t<unk>
-99\t<s>\t-0.5
-1.0\t</s>
-0.6\ta\t-0.25
-0.7\tb\t-0.125

\\2-grams:
-0.4\t<s> a\t-0.3
-0.9\ta b\t-0.2
-0.35\tb a\t-0.1

\\3-grams:
-0.2\t<s> a a
-0.15\ta b b
-0.05\tb a </s>

\\end\\
"""


def test_a_model_may_lack_the_ends_of_its_ngrams(tmp_path: Path) -> None:
    """There is `<s> a a`, and no `a a`: only a model that was read from a file is like that."""
    (tmp_path / "gaps.arpa").write_text(ARPA, encoding="utf-8")
    model, tokenizer = read_arpa(tmp_path / "gaps.arpa")
    scorer = LineScorer(model, tokenizer, closed=False)
    # p(a | <s>), p(a | <s> a), and backed off from a, for want of an `a a`, p(</s>)
    assert scorer.log_prob("a a") / math.log(10) == pytest.approx(-0.4 - 0.2 + (-0.25 - 1.0), abs=1e-6)
    for length in range(6):
        for line in map(" ".join, product(["a", "b", "zebra"], repeat=length)):
            assert scorer.score(line) == generally(model, tokenizer, line)
