"""Batches for masked language models: sequences and pairs, drawn anew and yet repeatable."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from seqloom.data.masked_texts import NEIGHBOURS, Blanks, MaskedBatch, MaskedPairs, MaskedTexts
from seqloom.data.masking import MASK, Masking
from seqloom.data.ragged import Ragged
from seqloom.data.store import TokenStore
from seqloom.data.stream import SharedBatch, Stream, sorted_batches
from seqloom.errors import DataError
from seqloom.text.marks import MarkedTokenizer
from seqloom.text.special import BOS, EOS, PAD
from seqloom.text.words import WhitespaceTokenizer

RANDOM = np.random.default_rng(0)
LINES = [" ".join(f"w{word}" for word in RANDOM.integers(0, 40, size)) for size in RANDOM.integers(0, 30, 120)]
TOKENIZER = MarkedTokenizer(WhitespaceTokenizer.train(LINES), [MASK])
MASKING = Masking(0.15, 0.8, 0.1, TOKENIZER.mark(MASK))
LONGEST = 12


@pytest.fixture
def store(tmp_path: Path) -> TokenStore:
    return TokenStore.build(LINES, TOKENIZER.inner, tmp_path / "store")


@pytest.fixture
def texts(store: TokenStore) -> MaskedTexts:
    return MaskedTexts.of_store(store, MASKING, LONGEST)


@pytest.fixture
def pairs(store: TokenStore) -> MaskedPairs:
    return MaskedPairs.of_store(store, MASKING, LONGEST)  # type: ignore[return-value]


def restored(batch: MaskedBatch) -> list[list[int]]:
    """The rows without padding, with what was to be found in its place."""
    ids = np.where(batch.targets != PAD, batch.targets, batch.inputs)
    return [[int(id) for id in row if id != PAD] for row in ids]


def stream_of(examples: MaskedTexts, processes: int = 1) -> Stream:
    return Stream(examples, examples.buckets(100, processes), seed=5)


def test_pieces_are_the_text_in_order_and_none_is_too_long(texts: MaskedTexts) -> None:
    pieces = [texts.piece(number).tolist() for number in range(len(texts))]
    assert [id for piece in pieces for id in piece] == TOKENIZER.encode(" ".join(LINES))
    assert max(map(len, pieces)) <= LONGEST
    assert min(map(len, pieces)) > 0


def test_a_batch_is_its_pieces_between_their_ends(texts: MaskedTexts) -> None:
    numbers = np.array([5, 3, 40])
    batch = texts.batch(numbers)
    assert restored(batch) == [[BOS, *texts.piece(number), EOS] for number in numbers]
    assert batch.lengths is not None
    assert batch.lengths.tolist() == texts.lengths[numbers].tolist()
    assert batch.tokens == len(batch.labels) == int((batch.targets != PAD).sum()) >= 3
    assert batch.segments is None


def test_rows_of_one_length_need_no_lengths(texts: MaskedTexts) -> None:
    same = np.flatnonzero(texts.sizes == texts.sizes[0])[:3]
    assert texts.batch(same).lengths is None


def test_what_is_to_be_found_is_drawn_anew_in_every_epoch_and_again_after_a_return(texts: MaskedTexts) -> None:
    stream = stream_of(texts)
    position = {"epoch": 1, "index": 3}
    stream.seek(position)
    batch, after = next(stream), next(stream)
    stream.seek(position)
    again = next(stream)
    assert again.inputs.equal(batch.inputs)
    assert again.targets.equal(batch.targets)
    assert next(stream).inputs.equal(after.inputs)
    fixed = texts.batch(batch.numbers)
    assert not fixed.targets.equal(batch.targets)  # of the same examples
    assert texts.batch(batch.numbers).targets.equal(fixed.targets)  # for validation, always the same


@pytest.mark.parametrize("kind", [MaskedTexts, MaskedPairs])
def test_processes_draw_their_own_and_know_how_many_all_have(store: TokenStore, kind: type[MaskedTexts]) -> None:
    stream = stream_of(kind.of_store(store, MASKING, LONGEST), processes=3)
    seen: list[int] = []
    for _ in range(stream.batches_per_epoch):
        step = next(stream)
        assert isinstance(step, SharedBatch)
        parts = [step.rows(rank, rank + 1) for rank in range(3)]
        assert step.tokens == sum(part.tokens for part in parts)
        seen += [number for part in parts for number in part.numbers.tolist()]
    assert sorted(seen) == list(range(len(stream.examples)))  # type: ignore[arg-type]


def test_text_of_nothing_but_unknown_words_is_refused(tmp_path: Path) -> None:
    store = TokenStore.build(["x y", "z"], TOKENIZER.inner, tmp_path / "unknown")
    with pytest.raises(DataError, match="no known tokens"):
        MaskedTexts.of_store(store, MASKING, LONGEST)


# -------------------------------------------------------------------------------------------------------------- pairs


def test_pairs_are_two_segments_and_half_of_them_follow_each_other(pairs: MaskedPairs) -> None:
    pieces = [pairs.piece(number).tolist() for number in range(len(pairs.sizes))]
    stream = stream_of(pairs)
    unrelated, total = 0, 0
    for _ in range(20 * stream.batches_per_epoch):
        batch = next(stream)
        assert batch.segments is not None
        assert batch.unrelated is not None
        rows = zip(batch.numbers, restored(batch), batch.segments, batch.unrelated, strict=True)
        for number, row, segments, elsewhere in rows:
            first = row.index(EOS)
            assert row[: first + 1] == [BOS, *pieces[number], EOS]
            assert row[-1] == EOS
            second = row[first + 1 : -1]
            if not elsewhere:
                assert second == pieces[number + 1]
            else:
                assert second in pieces
            assert segments.tolist()[: len(row)] == [0] * (first + 1) + [1] * (len(row) - first - 1)
            assert not segments[len(row) :].any()
        unrelated += int(batch.unrelated.sum())
        total += len(batch.numbers)
    assert abs(unrelated / total - 0.5) < 4 * 0.5 / total**0.5


def test_one_from_elsewhere_is_neither_the_piece_nor_the_next_and_about_as_long(pairs: MaskedPairs) -> None:
    numbers = np.arange(len(pairs))
    order = np.sort(pairs.sizes)
    reach = np.abs(order[: -NEIGHBOURS - 2] - order[NEIGHBOURS + 2 :]).max() if len(order) > NEIGHBOURS + 2 else LONGEST
    for seed in range(20):
        drawn = pairs.elsewhere(numbers, np.random.default_rng(seed))
        assert (drawn != numbers).all()
        assert (drawn != numbers + 1).all()
        assert np.abs(pairs.sizes[drawn] - pairs.sizes[numbers + 1]).max() <= reach


def test_three_pieces_are_enough_for_pairs_and_two_are_not(tmp_path: Path) -> None:
    store = TokenStore.build(["w1 w2", "w3", "w4 w5 w6"], TOKENIZER.inner, tmp_path / "three")
    three = MaskedPairs.of_store(store, MASKING, LONGEST)
    assert isinstance(three, MaskedPairs)
    assert three.elsewhere(np.array([0, 1]), np.random.default_rng(0)).tolist() == [2, 0]
    store = TokenStore.build(["w1 w2", "w3"], TOKENIZER.inner, tmp_path / "two")
    with pytest.raises(DataError, match="too few for pairs"):
        MaskedPairs.of_store(store, MASKING, LONGEST)


# ------------------------------------------------------------------------------------------------------------- blanks


def test_every_token_is_a_blank_once_and_all_else_is_read() -> None:
    rows = [[4, 5, 6], [7], [8, 9, 10, 11]]
    blanks = Blanks(Ragged.of_rows(rows), MASKING.mask)
    found = {}
    for numbers, batch in sorted_batches(blanks, 20):
        for number, read, row in zip(numbers, batch.inputs.tolist(), restored(batch), strict=True):
            found[int(number)] = ([id for id in read if id != PAD], row)
        assert batch.tokens == len(numbers)
    expected = [(row, place) for row in rows for place in range(len(row))]
    for number, (row, place) in enumerate(expected):
        hidden = [*row[:place], MASKING.mask, *row[place + 1 :]]
        assert found[number] == ([BOS, *hidden, EOS], [BOS, *row, EOS])
