"""What holds for every stream and for every batch of it, whatever the examples are."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from seqloom.config.schema.text import WordText
from seqloom.data.batch import Batch
from seqloom.data.caption_batches import CaptionStore, DescribedBatch
from seqloom.data.captions import CaptionedImages
from seqloom.data.image_batches import ImageBatch, image_stream
from seqloom.data.images import ImageSet
from seqloom.data.labelled_batches import LabelledSentences
from seqloom.data.pair_batches import EncodedPairs
from seqloom.data.ragged import Ragged
from seqloom.data.samplers import Shuffled
from seqloom.data.sentences import Sentences
from seqloom.data.store import TokenStore, Totals
from seqloom.data.stream import Sequences, SharedBatch, Stream, sorted_batches
from seqloom.data.text_units import TextUnits
from seqloom.data.windows import random_windows, sequential_windows
from seqloom.text.kinds import train_tokenizer
from seqloom.text.special import EOS
from seqloom.text.vocabulary import Vocabulary

RANDOM = np.random.default_rng(0)
SIZES = RANDOM.integers(1, 12, 60)


def ragged(sizes: Any) -> Ragged:
    return Ragged.of_rows([[*RANDOM.integers(4, 99, size), EOS] for size in sizes])


@cache
def text() -> TokenStore:
    return TokenStore(RANDOM.integers(1, 99, 500).astype(np.uint16), Totals(1, 500, 500, 500, 0))


@cache
def captioned() -> CaptionStore:
    texts = tuple(tuple("one two three"[: 3 + 2 * number] for number in range(1 + row % 3)) for row in range(20))
    images = RANDOM.integers(0, 256, (20, 3, 4)).astype(np.uint8)
    return CaptionStore(CaptionedImages(images, texts), train_tokenizer(WordText(), ["one two three"]))


@cache
def sequences(kind: str) -> Sequences:
    words, by_words = RANDOM.integers(4, 99, SIZES.sum()), RANDOM.integers(0, 5, SIZES.sum())
    layers = RANDOM.standard_normal((SIZES.sum(), 2, 3)).astype(np.float16)
    vocabulary = Vocabulary([f"w{number}" for number in range(50)])
    made: dict[str, Callable[[], Sequences]] = {
        "pairs": lambda: EncodedPairs(ragged(SIZES), ragged(SIZES[::-1])),
        "units": lambda: TextUnits(ragged(SIZES)),
        "sentences": lambda: Sentences.of_words([[f"w{word}" for word in row] for row in ragged(SIZES)], vocabulary, 6),
        "tagged": lambda: LabelledSentences(words, SIZES, by_words, by_word=True, layers=layers),
        "labelled": lambda: LabelledSentences(words, SIZES, by_words[:60], by_word=False),
    }
    return made[kind]()


SEQUENCES = ("pairs", "units", "sentences", "tagged", "labelled")


def bucketed(kind: str) -> Callable[[int], Stream]:
    return lambda seed: Stream(sequences(kind), sequences(kind).buckets(40), seed)


def captions(seed: int) -> Stream:
    return Stream(captioned(), Shuffled(len(captioned()), 6), seed)


STREAMS: dict[str, Callable[[int], Stream]] = {
    "random windows": lambda seed: random_windows(text(), 4, 7, seed, whole_file=True),
    "sequential windows": lambda seed: sequential_windows(text(), 4, 7, seed, whole_file=True, reset=0.3),
    **{kind: bucketed(kind) for kind in SEQUENCES},
    "captions": captions,
    "described": lambda seed: captions(seed).map(DescribedBatch.of),
    "images": lambda seed: image_stream(ImageSet(captioned().images, np.arange(20)), 3, "sampled", seed),
}
every_stream = pytest.mark.parametrize("stream", STREAMS.values(), ids=STREAMS)


def values(batch: Batch) -> dict[str, Any]:
    """All that a batch has, by name, as lists."""
    named = {each.name: getattr(batch, each.name) for each in fields(batch)}
    named |= {name: getattr(batch, name) for name in (*batch.counted, "tokens")}
    return {name: value.tolist() if isinstance(value, Tensor | np.ndarray) else value for name, value in named.items()}


# ------------------------------------------------------------------------------------------------------------ streams


@every_stream
@pytest.mark.parametrize("epochs", [0, 1, 2])
def test_a_stream_goes_on_exactly_from_a_saved_position(stream: Callable[[int], Stream], epochs: int) -> None:
    whole, resumed = stream(5), stream(5)
    for _ in range(epochs * whole.batches_per_epoch + 2):
        next(whole)
    resumed.seek(whole.position())
    for _ in range(whole.batches_per_epoch + 1):
        assert values(next(whole)) == values(next(resumed))
        assert whole.position() == resumed.position()


@every_stream
def test_epochs_differ_and_seeds_differ(stream: Callable[[int], Stream]) -> None:
    batches = stream(0)
    first, second = ([next(batches).numbers.tolist() for _ in range(batches.batches_per_epoch)] for _ in range(2))
    assert first != second
    other = stream(1)
    assert [next(other).numbers.tolist() for _ in first] != first


def test_the_position_counts_batches_and_epochs() -> None:
    stream = captions(0)
    positions = [(stream.position(), next(stream))[0] for _ in range(2 * stream.batches_per_epoch)]
    first = [{"epoch": 0, "index": index} for index in range(6)]
    second = [{"epoch": 0, "index": 6}, *({"epoch": 1, "index": index} for index in range(1, 6))]  # 6 of 0: 0 of 1
    assert positions == first + second


def test_a_mapped_stream_goes_on_where_the_other_stands() -> None:
    stream = captions(3)
    for _ in range(stream.batches_per_epoch + 2):
        next(stream)
    mapped = stream.map(lambda batch: ImageBatch(batch.images / 2, None, numbers=batch.numbers))
    assert (mapped.batch_size, mapped.batches_per_epoch) == (stream.batch_size, stream.batches_per_epoch)
    for _ in range(stream.batches_per_epoch):
        batch, other = next(stream), next(mapped)
        assert other.images.equal(batch.images / 2)
        assert np.array_equal(other.numbers, batch.numbers)
    assert mapped.position() == stream.position()


@pytest.mark.parametrize("kind", SEQUENCES)
def test_processes_share_a_step_out_as_whole_batches(kind: str) -> None:
    examples = sequences(kind)
    stream = Stream(examples, examples.buckets(40, processes=3))
    seen: list[int] = []
    for _ in range(stream.batches_per_epoch):
        step = next(stream)
        assert isinstance(step, SharedBatch)
        parts = [step.rows(rank, rank + 1) for rank in range(3)]
        assert step.tokens == sum(part.tokens for part in parts)
        seen += [number for part in parts for number in part.numbers.tolist()]
    assert sorted(seen) == list(range(len(SIZES)))


def test_a_mapped_step_counts_what_the_function_makes() -> None:
    examples = sequences("units")
    stream = Stream(examples, examples.buckets(40, processes=2))
    step = next(stream.map(lambda batch: ImageBatch(batch.targets, None, numbers=batch.numbers)))
    assert step.tokens == sum(step.rows(rank, rank + 1).tokens for rank in (0, 1)) == sum(map(len, step.parts))


@pytest.mark.parametrize("kind", SEQUENCES)
def test_for_evaluation_all_examples_come_once_longest_first(kind: str) -> None:
    examples = sequences(kind)
    order = [number for numbers, batch in sorted_batches(examples, 40) for number in batch.numbers if len(numbers)]
    assert sorted(order) == list(range(len(SIZES)))
    assert (np.diff(examples.lengths[order]) <= 0).all()


# ------------------------------------------------------------------------------------------------------------ batches


@every_stream
def test_a_batch_carries_the_numbers_of_its_examples(stream: Callable[[int], Stream]) -> None:
    batches = stream(2)
    for _ in range(batches.batches_per_epoch + 1):
        batch = next(batches)
        again = batches.examples.batch(batch.numbers)
        assert batch.numbers.dtype == np.int64
        for name in ("targets", "labels", "words", "lengths", "source"):
            assert values(again).get(name) == values(batch).get(name)


@every_stream
def test_a_batch_that_moves_takes_its_counts_along(stream: Callable[[int], Stream]) -> None:
    batch = next(stream(0))
    moved = batch.to(torch.device("meta"))  # where nothing can be counted
    assert type(moved) is type(batch)
    assert moved.tokens == batch.tokens == batch.to(torch.device("cpu")).tokens
    for name in (*(each.name for each in fields(batch)), *batch.counted):
        value, other = getattr(batch, name), getattr(moved, name)
        if isinstance(value, Tensor):
            assert (other.device.type, other.shape, other.dtype) == ("meta", value.shape, value.dtype)
        else:
            assert other is value


@every_stream
def test_some_rows_are_those_of_their_examples(stream: Callable[[int], Stream]) -> None:
    batch = next(stream(0))
    assert batch.tokens
    rows = len(batch.numbers)
    part, rest = batch.rows(0, rows // 2), batch.rows(rows // 2, rows)
    assert [*part.numbers, *rest.numbers] == batch.numbers.tolist()
    assert part.tokens + rest.tokens == batch.tokens
    for name in ("images", "labels", "inputs", "targets", "target_inputs", "lengths", "source", "fresh", "layers"):
        value = getattr(batch, name, None)
        if value is not None:
            assert getattr(rest, name).tolist() == value[rows // 2 :].tolist()


def test_a_batch_by_hand_has_no_numbers() -> None:
    assert len(ImageBatch(torch.zeros(3, 1, 2, 2), None).rows(0, 2).numbers) == 0
