"""Bucketed batches of pairs: every pair once, within the budget, hardly padded, resumed exactly, shared fairly."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from seqloom.config.schema.training import ScheduleConfig, TrainingConfig
from seqloom.data.pair_batches import EncodedPairs, PairBatch
from seqloom.data.pair_encoders import ClosedPairs, OpenPairs
from seqloom.data.pair_store import PairStore
from seqloom.data.pairs import Pair, PairCorpus
from seqloom.data.ragged import Ragged
from seqloom.data.stream import SharedBatch, Stream, sorted_batches
from seqloom.errors import DataError
from seqloom.text.characters import CharacterTokenizer
from seqloom.text.special import BOS, EOS, PAD, SPECIALS
from seqloom.text.words import WordTokenizer
from seqloom.training.objectives import Loss, Objective
from seqloom.training.processes import Processes
from seqloom.training.trainer import Trainer

FIRST = len(SPECIALS)
Lengths = list[tuple[int, int]]


def ragged(sequences: Iterable[list[int]]) -> Ragged:
    sequences = list(sequences)
    offsets = np.cumsum([0, *map(len, sequences)])
    return Ragged(np.array([token for tokens in sequences for token in tokens], np.uint32), offsets)


def pairs_of(lengths: Lengths) -> EncodedPairs:
    """Pairs of these lengths, `<eos>` counted; the first token of a source is the number of the pair.

    So no length may be below two: there must be room for the number.
    """
    source = ragged([FIRST + number, *[FIRST] * (length - 2), EOS] for number, (length, _) in enumerate(lengths))
    target = ragged([*range(FIRST, FIRST + length - 1), EOS] for _, length in lengths)
    return EncodedPairs(source, target)


def bucketed(pairs: EncodedPairs, batch_tokens: int, seed: int = 0, processes: int = 1) -> Stream:
    return Stream(pairs, pairs.buckets(batch_tokens, processes), seed)


def numbers(batch: PairBatch) -> list[int]:
    return (batch.source[:, 0] - FIRST).tolist()


def one_epoch(batches: Stream) -> list[PairBatch]:
    return [next(batches) for _ in range(batches.batches_per_epoch)]


def epoch(batches: Stream) -> list[list[int]]:
    """The numbers of the pairs in each batch of an epoch."""
    return [numbers(batch) for batch in one_epoch(batches)]


def same(one: PairBatch, other: PairBatch) -> bool:
    names = ("source", "target_inputs", "targets", "source_lengths", "target_lengths")
    return all(getattr(one, name).equal(getattr(other, name)) for name in names)


lengths_of_pairs = st.lists(st.tuples(st.integers(2, 30), st.integers(2, 30)), min_size=1, max_size=80)
budgets = st.integers(1, 200)
seeds = st.integers(0, 3)


# ---------------------------------------------------------------------------------------------------------- one batch


def test_a_batch_is_padded_and_its_targets_shifted() -> None:
    pairs = EncodedPairs(ragged([[7, 8, EOS], [9, EOS]]), ragged([[5, EOS], [6, 7, 8, EOS]]))
    batch = pairs.batch(np.array([1, 0]))
    assert batch.source.tolist() == [[9, EOS, PAD], [7, 8, EOS]]
    assert batch.targets.tolist() == [[6, 7, 8, EOS], [5, EOS, PAD, PAD]]
    assert batch.target_inputs.tolist() == [[BOS, 6, 7, 8], [BOS, 5, PAD, PAD]]
    assert batch.source_lengths.tolist() == [2, 3]
    assert batch.target_lengths.tolist() == [4, 2]
    assert batch.tokens == 6
    assert batch.source.dtype == batch.targets.dtype == torch.int64


def test_words_beside_the_vocabulary_travel_in_a_batch_with_their_numbers(tmp_path: Path) -> None:
    words = WordTokenizer.train(["x y"])
    pairs = [Pair("x Ann", ("Ann y Ann",)), Pair("Bob Ann y", ("Ann",))]
    batch = PairStore.build(pairs, OpenPairs(words), tmp_path / "store").batch(np.array([0, 1]))
    (x, y), first = words.encode("x y"), words.size
    assert batch.source.tolist() == [[x, first, EOS, PAD], [first, first + 1, y, EOS]]
    assert batch.targets.tolist() == [[first, y, first, EOS], [first + 1, EOS, PAD, PAD]]
    assert batch.target_inputs.tolist() == [[BOS, first, y, first], [BOS, first + 1, PAD, PAD]]


@given(lengths_of_pairs, st.data())
def test_a_batch_is_what_padding_row_by_row_gives(lengths: Lengths, data: st.DataObject) -> None:
    store = pairs_of(lengths)
    chosen = data.draw(st.lists(st.integers(0, len(lengths) - 1), min_size=1, max_size=10))
    batch = store.batch(np.array(chosen))
    for tensor, side in ((batch.source, store.source), (batch.targets, store.target)):
        rows = [side[number].tolist() for number in chosen]
        width = max(map(len, rows))
        assert tensor.tolist() == [row + [PAD] * (width - len(row)) for row in rows]
    inputs = [[BOS, *store.target[number].tolist()[:-1]] for number in chosen]
    assert [row[row != PAD].tolist() for row in batch.target_inputs] == inputs
    assert batch.tokens == sum(map(len, inputs))


# ------------------------------------------------------------------------------------------------------------- epochs


@settings(deadline=None)
@given(lengths_of_pairs, budgets, seeds)
def test_every_pair_comes_once_an_epoch(lengths: Lengths, budget: int, seed: int) -> None:
    batches = bucketed(pairs_of(lengths), budget, seed)
    for _ in range(3):
        assert sorted(number for rows in epoch(batches) for number in rows) == list(range(len(lengths)))


@settings(deadline=None)
@given(lengths_of_pairs, budgets, seeds)
def test_only_a_single_pair_may_exceed_the_budget(lengths: Lengths, budget: int, seed: int) -> None:
    batches = bucketed(pairs_of(lengths), budget, seed)
    for _ in range(2 * batches.batches_per_epoch):
        batch = next(batches)
        rows = len(batch.source)
        assert rows == 1 or rows * max(batch.source.size(1), batch.targets.size(1)) <= budget


@settings(deadline=None)
@given(lengths_of_pairs, budgets)
def test_a_batch_is_as_full_as_the_budget_allows(lengths: Lengths, budget: int) -> None:
    """Longest first, one more row would be too many: only the last batch, of the shortest pairs, is left over."""
    batches = bucketed(pairs_of(lengths), budget)
    widths = [(max(batch.source.size(1), batch.targets.size(1)), len(batch.source)) for batch in one_epoch(batches)]
    full = sorted(widths, reverse=True)[:-1]
    assert all(width * (rows + 1) > budget for width, rows in full)


@settings(deadline=None)
@given(lengths_of_pairs, budgets, seeds, st.integers(0, 150), st.sampled_from([1, 2, 3]))
def test_resumed_equals_uninterrupted(lengths: Lengths, budget: int, seed: int, done: int, processes: int) -> None:
    store = pairs_of(lengths * processes)
    try:
        batches, again = (bucketed(store, budget, seed, processes) for _ in range(2))
    except DataError:
        return
    for _ in range(done):
        next(batches)
    again.seek(batches.position())
    for _ in range(batches.batches_per_epoch + 2):
        one, other = next(batches), next(again)
        if processes == 1:
            assert same(one, other)
        else:
            assert all(same(one.rows(rank, rank + 1), other.rows(rank, rank + 1)) for rank in range(processes))


def test_epochs_differ_and_seeds_differ_in_the_batches_and_in_their_order() -> None:
    generator = np.random.default_rng(0)
    store = pairs_of([tuple(pair) for pair in generator.integers(2, 12, (2000, 2)).tolist()])
    batches = bucketed(store, 256)
    first, second = epoch(batches), epoch(batches)
    other = epoch(bucketed(store, 256, seed=1))
    for another in (second, other):
        shared = {frozenset(rows) for rows in first} & {frozenset(rows) for rows in another}
        assert len(shared) < len(first) / 10
        assert [len(rows) for rows in another] != [len(rows) for rows in first]
        assert sorted(map(len, another)) == sorted(map(len, first))
    assert epoch(bucketed(store, 256)) == first


def test_bundled_pairs_are_padded_by_less_than_a_tenth() -> None:
    corpus = PairCorpus.open("tatoeba-en-zh")
    encoder = ClosedPairs(WordTokenizer.train(corpus.sources()), CharacterTokenizer.train(corpus.targets()))
    store = PairStore.of(corpus, encoder)
    batches = one_epoch(bucketed(store, 4096))
    cells = sum(batch.source.numel() + batch.targets.numel() for batch in batches)
    assert 1 - (len(store.source.tokens) + len(store.target.tokens)) / cells < 0.10
    longest = sum(len(batch.source) * max(batch.source.size(1), batch.targets.size(1)) for batch in batches)
    real = np.maximum(store.source.lengths, store.target.lengths).sum()
    assert 1 - real / longest < 0.03
    assert sum(batch.tokens for batch in batches) == store.totals.target_tokens


# ---------------------------------------------------------------------------------------------------------- processes


@settings(deadline=None)
@given(lengths_of_pairs, budgets, seeds, st.integers(2, 5))
def test_processes_share_the_pairs_out_in_equally_many_batches(
    lengths: Lengths, budget: int, seed: int, processes: int
) -> None:
    store = pairs_of(lengths)
    try:
        batches = bucketed(store, budget, seed, processes)
    except DataError:  # pairs that cannot be put together can be too few, or one too many
        alone = store.buckets(budget).batches_per_epoch
        assert len(lengths) % processes
        assert alone + (-alone % processes) > len(lengths)
        return
    assert batches.batch_size == processes
    seen: list[int] = []
    for _ in range(batches.batches_per_epoch):
        shared = next(batches)
        assert isinstance(shared, SharedBatch)
        parts = [shared.rows(rank, rank + 1) for rank in range(processes)]
        assert shared.tokens == sum(part.tokens for part in parts)
        for part in parts:
            rows = len(part.source)
            assert rows == 1 or rows * max(part.source.size(1), part.targets.size(1)) <= budget
            seen += numbers(part)
    assert sorted(seen) == list(range(len(lengths)))


def test_pairs_that_cannot_be_shared_evenly_say_what_to_raise() -> None:
    with pytest.raises(DataError, match=r"3 sequences.* 10 tokens .*2 processes: .*data\.batch_tokens"):
        bucketed(pairs_of([(9, 9)] * 3), 10, processes=2)


# ----------------------------------------------------------------------------------------------------------- training


class _Counting(Objective):
    """A loss for one number, so that the weight after training tells which batches came, and in which order."""

    def forward(self, model: nn.Linear, batch: PairBatch) -> Loss:
        mean = batch.source[:, 0].float().mean() / 100
        total = (model.weight * mean).pow(2).sum() * batch.tokens
        return Loss(total, batch.tokens, {"loss": total.detach()})


def test_the_trainer_takes_bucketed_batches_as_they_are_and_resumes_exactly(tmp_path: Path) -> None:
    store = pairs_of([(2 + number % 7, 2 + number % 5) for number in range(50)])

    def trainer(name: str, steps: int) -> Trainer:
        schedule = ScheduleConfig(kind="constant")
        config = TrainingConfig(steps=steps, checkpoint_every=1, schedule=schedule, device="cpu")
        torch.manual_seed(0)
        alone = Processes(0, 1, torch.device("cpu"))
        batches = bucketed(store, 40, seed=3)
        validate = lambda: {"valid_loss": 0.0}  # noqa: E731
        (tmp_path / name).mkdir(exist_ok=True)
        return Trainer(nn.Linear(1, 1, bias=False), _Counting(None), batches, validate, config, tmp_path / name, alone)

    whole = trainer("whole", 2 * store.buckets(40).batches_per_epoch + 3)
    progress = whole.fit()
    assert progress.tokens > 2 * len(store.target.tokens)
    trainer("parts", 7).fit()
    resumed = trainer("parts", whole.total_steps)
    assert resumed.resume()
    resumed.fit()
    assert resumed.model.weight.equal(whole.model.weight)
    assert resumed.progress.tokens == progress.tokens


# --------------------------------------------------------------------------------------------------------- evaluation


@settings(deadline=None)
@given(lengths_of_pairs, budgets)
def test_sorted_batches_have_all_pairs_and_their_numbers(lengths: Lengths, budget: int) -> None:
    store = pairs_of(lengths)
    longest = []
    order: list[int] = []
    for places, batch in sorted_batches(store, budget):
        assert places.tolist() == numbers(batch)
        rows, width = len(places), max(batch.source.size(1), batch.targets.size(1))
        assert rows == 1 or rows * width <= budget
        longest.append(width)
        order += places.tolist()
    assert longest == sorted(longest, reverse=True)
    assert sorted(order) == list(range(len(lengths)))
