"""Which examples stand together: every one once an epoch, within the budget, shared fairly among processes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from seqloom.data.samplers import Buckets, Shuffled


@given(st.integers(1, 60), st.integers(1, 70), st.integers(0, 3))
def test_shuffled_examples_come_once_in_whole_batches(count: int, batch_size: int, seed: int) -> None:
    sampler = Shuffled(count, batch_size)
    batches = sampler.epoch(np.random.default_rng(seed))
    assert len(batches) == sampler.batches_per_epoch == count // min(count, batch_size)
    assert {len(numbers) for numbers in batches} == {sampler.batch_size}
    seen = np.concatenate(list(batches)).tolist()
    assert len(set(seen)) == len(seen) > count - sampler.batch_size
    assert set(seen) <= set(range(count))


@given(st.lists(st.integers(1, 12), min_size=1, max_size=40), st.integers(12, 40), st.integers(0, 3))
def test_every_sequence_comes_once_an_epoch_within_the_budget(lengths: list[int], budget: int, seed: int) -> None:
    sampler = Buckets(np.array(lengths), budget)
    random = np.random.default_rng(seed)
    for _ in range(2):
        batches = sampler.epoch(random)
        assert len(batches) == sampler.batches_per_epoch
        assert sorted(np.concatenate(batches).tolist()) == list(range(len(lengths)))
        assert all(len(numbers) * sampler.lengths[numbers].max() <= budget for numbers in batches)


def test_processes_share_the_sequences_of_an_epoch() -> None:
    sampler = Buckets(np.array([3, 4, 5, 6, 7] * 5), 14, processes=2)
    steps = sampler.epoch(np.random.default_rng(0))
    assert len(steps) == sampler.batches_per_epoch
    assert {len(parts) for parts in steps} == {sampler.batch_size} == {2}
    assert sorted(np.concatenate([part for parts in steps for part in parts]).tolist()) == list(range(25))


@pytest.mark.parametrize("budget", [1, 7, 100])
def test_for_evaluation_the_longest_come_first(budget: int) -> None:
    assert np.concatenate(Buckets(np.array([3, 9, 1, 4, 9]), budget).in_order()).tolist() == [1, 4, 3, 0, 2]
