"""Span corruption: so many tokens go in so many spans, all ways equally likely, and nothing is lost."""

from __future__ import annotations

from collections import Counter
from itertools import groupby, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.spans import Corruption, SpanWindows, filled, partitions, sentinels
from seqloom.data.stream import Place, Stream, sorted_batches
from seqloom.text.special import BOS, EOS, PAD, SPECIALS

WORDS, FIRST = 50, 60  # ids of words are below, those of sentinels from here on
NAMES = np.arange(FIRST, FIRST + 60)
corruptions = st.builds(Corruption, st.integers(2, 60), st.floats(0.01, 0.95), st.floats(1.0, 8.0))
seeds = st.integers(0, 1000)


def spans_of(mask: list[bool]) -> list[int]:
    """The lengths of what is taken out, span by span."""
    return [len(list(group)) for taken, group in groupby(mask) if taken]


def put_back(source: list[int], target: list[int]) -> list[int]:
    """The window of a source and its target, by reading one after the other."""
    said: dict[int, list[int]] = {}
    for token in target[:-1]:
        if token >= FIRST:
            said[token] = []
        else:
            said[list(said)[-1]].append(token)
    return [token for each in source[:-1] for token in (said[each] if each >= FIRST else [each])]


@given(corruptions, seeds)
def test_so_many_tokens_go_in_so_many_spans(corruption: Corruption, seed: int) -> None:
    length, rate, mean = corruption.length, corruption.rate, corruption.mean
    taken = min(max(round(length * rate), 1), length - 1)
    gaps = min(max(round(taken / mean), 1), length - taken)
    for mask in corruption.masks(5, np.random.default_rng(seed)).tolist():
        assert sum(mask) == taken
        assert len(spans_of(mask)) == gaps
        assert not mask[0]
        assert mask[-1]


@given(corruptions, seeds)
def test_source_and_target_give_back_the_window(corruption: Corruption, seed: int) -> None:
    random = np.random.default_rng(seed)
    windows = random.integers(len(SPECIALS), WORDS, (4, corruption.length))
    source, target = corruption.apply(windows, corruption.masks(4, random), NAMES)
    assert source.shape == (4, corruption.source_length)
    assert target.shape == (4, corruption.target_length)
    for row in range(4):
        assert put_back(source[row].tolist(), target[row].tolist()) == windows[row].tolist()
        for side in (source[row], target[row]):
            names = [token for token in side.tolist() if token >= FIRST]
            assert names == list(range(FIRST, FIRST + corruption.gaps))  # each once, in order
            assert side[-1] == EOS
            assert not np.isin(side[:-1], [PAD, BOS, EOS]).any()
    assert (target[:, 0] == FIRST).all()


@pytest.mark.parametrize(("length", "rate", "mean"), [(10, 0.3, 1.5), (9, 0.5, 2.0), (8, 0.25, 1.0)])
def test_all_ways_to_take_spans_out_are_equally_likely(length: int, rate: float, mean: float) -> None:
    corruption = Corruption(length, rate, mean)
    ways = {
        mask
        for mask in product([False, True], repeat=length)
        if not mask[0] and mask[-1] and sum(mask) == corruption.taken and len(spans_of(list(mask))) == corruption.gaps
    }
    draws = 2000 * len(ways)
    seen = Counter(map(tuple, corruption.masks(draws, np.random.default_rng(0)).tolist()))
    assert seen.keys() == ways
    assert all(abs(count - 2000) < 5 * 2000**0.5 for count in seen.values())  # five deviations


@given(st.integers(1, 12), st.data(), seeds)
def test_partitions_are_whole_numbers_above_0_that_add_up(items: int, data: st.DataObject, seed: int) -> None:
    parts = data.draw(st.integers(1, items))
    drawn = partitions(items, parts, 7, np.random.default_rng(seed))
    assert drawn.shape == (7, parts)
    assert (drawn > 0).all()
    assert (drawn.sum(1) == items).all()


def test_the_usual_window_of_t5() -> None:
    """512 tokens, 15 % in spans of 3: 77 tokens in 26 spans, as `random_spans_helper` of T5's code counts them."""
    usual = Corruption(512)
    assert (usual.taken, usual.gaps, usual.source_length, usual.target_length) == (77, 26, 462, 104)


# ------------------------------------------------------------------------------------------------------------ windows


def windows(tokens: int = 500, prefix: tuple[int, ...] = ()) -> SpanWindows:
    return SpanWindows(np.arange(tokens) % 40 + len(SPECIALS), Corruption(20, 0.3, 2.0), NAMES, prefix)


def test_gaps_are_drawn_anew_at_every_place_and_follow_from_it() -> None:
    examples, numbers = windows(), np.array([0, 40, 7])
    one = examples.batch_at(Place(1, 2, 3), numbers)
    assert one.source.equal(examples.batch_at(Place(1, 2, 3), numbers).source)
    for other in (Place(0, 2, 3), Place(1, 3, 3), Place(1, 2, 4), Place(1, 2, 3, process=1)):
        assert not one.source.equal(examples.batch_at(other, numbers).source)


def test_held_out_windows_have_the_same_gaps_every_time() -> None:
    first, second = ([batch for _, batch in sorted_batches(windows(), 100)] for _ in range(2))
    assert len(first) == 5  # 25 windows, five of 18 tokens in each batch
    assert all(one.source.equal(other.source) for one, other in zip(first, second, strict=True))
    read = np.concatenate([batch.numbers for batch in first])
    assert read.tolist() == list(range(0, 500, 20))


def test_a_prefix_stands_before_each_source() -> None:
    plain, prefixed = (windows(prefix=prefix).batch(np.array([0, 20])) for prefix in ((), (9, 8)))
    assert prefixed.source[:, :2].tolist() == [[9, 8]] * 2
    assert prefixed.source[:, 2:].equal(plain.source)
    assert prefixed.targets.equal(plain.targets)
    assert prefixed.source_lengths.tolist() == [20, 20]


@settings(max_examples=30)
@given(st.integers(40, 600), st.integers(1, 300), st.sampled_from([(), (7, 8, 9)]))
def test_batches_keep_to_the_budget_and_know_how_many_targets_they_have(
    tokens: int, budget: int, prefix: tuple[int, ...]
) -> None:
    examples = windows(tokens, prefix)
    stream = Stream(examples, examples.buckets(budget))
    for _ in range(stream.batches_per_epoch):
        batch = next(stream)
        longest = max(batch.source.size(1), batch.targets.size(1))
        assert len(batch.source) == 1 or len(batch.source) * longest <= budget
        assert batch.tokens == batch.targets.numel() == examples.targets(batch.numbers)


def test_gaps_are_filled_in_the_text() -> None:
    assert sentinels(2) == ["<extra_id_0>", "<extra_id_1>"]
    source = "The <extra_id_0> walks in <extra_id_1> park, <extra_id_2>."
    assert filled(source, "<extra_id_0> cute dog <extra_id_1> the") == "The cute dog walks in the park, <extra_id_2>."
    assert filled(source, "nonsense") == source
