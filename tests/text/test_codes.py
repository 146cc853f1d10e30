"""Binary codes: as short as Huffman's, prefix-free, and paths of one tree."""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.text.codes import BinaryCodes, balanced_codes, huffman_codes, vector_codes

Make = Callable[[list[int]], BinaryCodes]

counts_of_words = st.lists(st.integers(0, 1000), min_size=1, max_size=60)


def least_cost(counts: list[int]) -> int:
    """Σ c(w)·l(w) of Huffman's code: the sum of all weights that come into being, with a heap."""
    heap = list(counts)
    heapq.heapify(heap)
    cost = 0
    while len(heap) > 1:
        joined = heapq.heappop(heap) + heapq.heappop(heap)
        cost += joined
        heapq.heappush(heap, joined)
    return cost


def words_of(codes: BinaryCodes) -> list[tuple[bool, ...]]:
    return [tuple(turns[:length]) for turns, length in zip(codes.turns.tolist(), codes.lengths, strict=True)]


@given(counts_of_words)
def test_huffman_codes_cost_as_little_as_the_heap_says(counts: list[int]) -> None:
    codes = huffman_codes(np.array(counts))
    assert int((codes.lengths * counts).sum()) == least_cost(counts)


def alike(counts: list[int]) -> BinaryCodes:
    """Codes by vectors, of which some are equal and some are nothing."""
    return vector_codes(np.random.default_rng(len(counts)).integers(-1, 2, (len(counts), 3)), np.array(counts))


def huffman(counts: list[int]) -> BinaryCodes:
    return huffman_codes(np.array(counts))


@pytest.mark.parametrize("make", [huffman, alike])
@given(counts_of_words)
def test_the_tree_is_full_and_no_code_begins_another(make: Make, counts: list[int]) -> None:
    codes = make(counts)
    assert sum(2.0 ** -int(length) for length in codes.lengths) == pytest.approx(1.0)
    ordered = sorted(words_of(codes))
    assert all(after[: len(before)] != before for before, after in itertools.pairwise(ordered))


@pytest.mark.parametrize("make", [huffman, alike])
@given(counts_of_words)
def test_nodes_and_turns_tell_of_one_tree(make: Make, counts: list[int]) -> None:
    codes = make(counts)
    prefix_of: dict[int, tuple[bool, ...]] = {}
    for word, code in enumerate(words_of(codes)):
        for place in range(len(code)):
            node = int(codes.nodes[word, place])
            assert prefix_of.setdefault(node, code[:place]) == code[:place]
    assert sorted(prefix_of) == list(range(len(counts) - 1))
    assert prefix_of.get(0, ()) == ()


@pytest.mark.parametrize("make", [huffman, alike])
@given(counts_of_words)
def test_padding_is_zero(make: Make, counts: list[int]) -> None:
    codes = make(counts)
    after = np.arange(codes.nodes.shape[1]) >= codes.lengths[:, None]
    assert not codes.nodes[after].any()
    assert not codes.turns[after].any()


@given(st.integers(1, 300))
@settings(max_examples=30)
def test_balanced_codes_differ_by_one_turn_at_most(size: int) -> None:
    lengths = balanced_codes(size).lengths
    assert lengths.min() == math.floor(math.log2(size))
    assert lengths.max() == math.ceil(math.log2(size))


def test_codes_by_vectors_begin_alike_where_words_are_alike() -> None:
    generator = np.random.default_rng(0)
    kinds = np.arange(160) % 8
    vectors = generator.normal(size=(8, 20))[kinds] + generator.normal(size=(160, 20)) * 0.02
    words = words_of(vector_codes(vectors, np.ones(160)))
    begins = [word[:3] for word in words]  # 8 branches
    together = [begins[word] == begins[word + 8] for word in range(152)]
    assert sum(together) > 0.9 * 152


def test_codes_by_vectors_are_short_for_frequent_words() -> None:
    vectors, counts = np.random.default_rng(0).normal(size=(500, 10)), 10_000 // np.arange(1, 501)
    found, flat = vector_codes(vectors, counts).lengths, balanced_codes(500).lengths
    assert found[:20].mean() < found[-20:].mean() - 3
    assert (found * counts).sum() < (flat * counts).sum()


def test_words_that_never_occurred_have_codes_too() -> None:
    codes = huffman_codes(np.array([5, 0, 0, 3]))
    assert len(set(words_of(codes))) == 4


def test_a_vocabulary_as_large_as_real_ones_is_coded_as_the_heap_says() -> None:
    counts = (1e7 / np.arange(1, 50_001)).astype(np.int64)
    codes = huffman_codes(counts)
    assert int((codes.lengths * counts).sum()) == least_cost(counts.tolist())
    assert (np.diff(codes.lengths) >= 0).all()  # no word has a longer code than a rarer one
