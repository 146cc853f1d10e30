"""Several tasks in one stream: each batch of one, all in their shares, resumed exactly, shared among processes."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from seqloom.data.pair_batches import EncodedPairs, PairBatch
from seqloom.data.ragged import Ragged
from seqloom.data.spans import Corruption, SpanWindows
from seqloom.data.stream import Sequences, SharedBatch, Stream
from seqloom.data.tasks import Mixture, TaskExamples, mixing_shares
from seqloom.errors import DataError
from seqloom.text.special import EOS

WORDS = 40  # words of task t are from WORDS t on
sizes = st.lists(st.integers(1, 60), min_size=1, max_size=4)
seeds = st.integers(0, 5)


def pairs(task: int, count: int) -> EncodedPairs:
    """Pairs of different lengths whose words tell the task."""
    rows = [[*[WORDS * (task + 1)] * (1 + number % 5), EOS] for number in range(count)]
    return EncodedPairs(Ragged.of_rows(rows), Ragged.of_rows(rows[::-1]))


def spans(tokens: int = 400) -> SpanWindows:
    return SpanWindows(np.arange(tokens) % 20 + 4, Corruption(10, 0.4, 2.0), np.arange(30, 40))


def stream(tasks: list[Sequences], shares: list[float], budget: int = 40, seed: int = 0, processes: int = 1) -> Stream:
    return Stream(TaskExamples(tasks), Mixture(tasks, shares, budget, processes), seed)


def epoch(batches: Stream) -> list[Any]:
    return [next(batches) for _ in range(batches.batches_per_epoch)]


def task_of(batch: PairBatch, tasks: int) -> int:
    (task,) = set((batch.numbers % tasks).tolist())
    return task


@given(sizes, st.data(), seeds)
def test_every_batch_is_of_one_task_and_no_example_comes_twice(counts: list[int], data: st.DataObject, seed: int):
    shares = data.draw(st.lists(st.floats(0.1, 5), min_size=len(counts), max_size=len(counts)))
    batches = stream([pairs(task, count) for task, count in enumerate(counts)], shares, seed=seed)
    seen: Counter[int] = Counter()
    for batch in epoch(batches):
        task = task_of(batch, len(counts))
        assert set(batch.source.flatten().tolist()) <= {WORDS * (task + 1), EOS, 1}
        seen.update(batch.numbers.tolist())
    assert set(seen.values()) == {1}
    assert {number % len(counts) for number in seen} == set(range(len(counts)))


@given(sizes, st.data())
def test_an_epoch_has_the_shares_up_to_a_batch(counts: list[int], data: st.DataObject) -> None:
    shares = data.draw(st.lists(st.floats(0.1, 5), min_size=len(counts), max_size=len(counts)))
    tasks = [pairs(task, count) for task, count in enumerate(counts)]
    mixture = Mixture(tasks, shares, 40)
    whole = [task.buckets(40).batches_per_epoch for task in tasks]
    longest = min(count / share for count, share in zip(counts, shares, strict=True))  # examples over share, in all
    for count, share, batches, every in zip(counts, shares, mixture.batches, whole, strict=True):
        expected = count * batches / every  # each batch is as likely as any other
        assert abs(expected - share * longest) <= max(0.5, 1 - share * longest / count * every) * count / every + 1e-9
    assert (mixture.batches <= whole).all()
    assert (mixture.batches == whole).any()


def test_over_many_epochs_examples_come_in_their_shares() -> None:
    tasks: list[Sequences] = [pairs(0, 200), pairs(1, 50), spans(1000)]
    batches = stream(tasks, [0.5, 0.2, 0.3], budget=20)
    seen: Counter[int] = Counter()
    for _ in range(200):
        seen.update(number % 3 for batch in epoch(batches) for number in batch.numbers.tolist())
    shares = [seen[task] / seen.total() for task in range(3)]
    assert shares == pytest.approx([0.5, 0.2, 0.3], abs=0.01)


def test_in_proportion_to_their_sizes_all_examples_come_once() -> None:
    tasks: list[Sequences] = [pairs(0, 31), pairs(1, 7)]
    batches = stream(tasks, mixing_shares([31, 7], [None, None], None))
    numbers = np.concatenate([batch.numbers for batch in epoch(batches)])
    assert sorted(numbers.tolist()) == sorted([*range(0, 62, 2), *range(1, 15, 2)])


def test_shares_are_as_given_or_by_size_up_to_a_limit() -> None:
    assert mixing_shares([300, 100], [None, None], None) == [0.75, 0.25]
    assert mixing_shares([300, 100], [None, None], 100) == [0.5, 0.5]
    assert mixing_shares([300, 100], [1.0, 4.0], None) == [0.2, 0.8]


@settings(max_examples=20)
@given(seeds, st.integers(0, 30))
def test_a_stream_goes_on_exactly_where_it_stopped(seed: int, stop: int) -> None:
    tasks: list[Sequences] = [pairs(0, 40), spans()]
    whole, first, second = (stream(tasks, [1, 1], seed=seed) for _ in range(3))
    expected = [next(whole) for _ in range(stop + 5)]
    for _ in range(stop):
        next(first)
    second.seek(first.position())
    for batch in expected[stop:]:
        again = next(second)
        assert again.source.equal(batch.source)
        assert again.targets.equal(batch.targets)


def test_spans_are_taken_out_elsewhere_in_every_epoch() -> None:
    batches = stream([spans()], [1.0])
    one, other = ({tuple(row) for batch in epoch(batches) for row in batch.targets.tolist()} for _ in range(2))
    assert len(one & other) < len(one) / 4


@pytest.mark.parametrize("processes", [2, 3])
def test_each_process_has_a_batch_of_its_own(processes: int) -> None:
    batches = stream([pairs(0, 40), spans()], [1, 1], processes=processes)
    steps = epoch(batches)
    assert all(isinstance(step, SharedBatch) and len(step.parts) == processes for step in steps)
    seen: list[int] = []
    for step in steps:
        own = [step.rows(process, process + 1) for process in range(processes)]
        assert sum(batch.tokens for batch in own) == step.tokens
        seen += [number for batch in own for number in batch.numbers.tolist()]
        assert own[0].source.equal(step.rows(0, 1).source)  # the same whenever it is asked for
    assert len(set(seen)) == len(seen)


def test_processes_take_out_other_spans() -> None:
    examples = spans()
    step = next(Stream(TaskExamples([examples]), Mixture([examples], [1.0], 40, processes=2)))
    one, other = (step.rows(process, process + 1).source >= 30 for process in range(2))
    assert not one.equal(other)


def test_too_few_batches_for_all_processes_are_refused() -> None:
    with pytest.raises(DataError, match=r"1 batches and there are 2 processes: .*data\.batch_tokens"):
        Mixture([pairs(0, 2)], [1.0], 400, processes=2)
