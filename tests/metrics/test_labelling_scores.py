"""Chunks as conlleval counts them, and F1 beside scikit-learn's."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import confusion_matrix, f1_score

from seqloom.errors import DataError
from seqloom.metrics.labelling import (
    Hits,
    accuracy,
    chunk_hits,
    chunks,
    confusion,
    has_chunks,
    label_hits,
    macro_f1,
)

SPANS = st.lists(st.tuples(st.sampled_from(["NP", "VP"]), st.integers(0, 2), st.integers(1, 3)), max_size=5)


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-NP I-NP O B-VP", {("NP", 0, 2), ("VP", 3, 4)}),
        ("I-NP I-NP O I-VP", {("NP", 0, 2), ("VP", 3, 4)}),  # IOB1: B- only between neighbours of one type
        ("I-NP B-NP I-NP", {("NP", 0, 1), ("NP", 1, 3)}),
        ("B-NP I-VP I-VP", {("NP", 0, 1), ("VP", 1, 3)}),  # the type changes: another begins
        ("B-NP E-NP S-VP S-VP O", {("NP", 0, 2), ("VP", 2, 3), ("VP", 3, 4)}),  # IOBES
        ("E-NP E-NP", {("NP", 0, 1), ("NP", 1, 2)}),
        ("S-NP I-NP", {("NP", 0, 1), ("NP", 1, 2)}),
        ("B-NP I-NP L-NP U-VP", {("NP", 0, 3), ("VP", 3, 4)}),  # BILOU
        ("O O", set()),
    ],
)
def test_chunks_by_hand(tags: str, expected: set[tuple[str, int, int]]) -> None:
    assert chunks(tags.split()) == expected


@given(SPANS)
def test_chunks_written_in_any_scheme_are_read_back(spans: list[tuple[str, int, int]]) -> None:
    iob2: list[str] = []
    iobes: list[str] = []
    expected = set()
    for kind, gap, size in spans:
        iob2 += ["O"] * gap
        iobes += ["O"] * gap
        expected.add((kind, len(iob2), len(iob2) + size))
        iob2 += [f"B-{kind}"] + [f"I-{kind}"] * (size - 1)
        iobes += [f"S-{kind}"] if size == 1 else [f"B-{kind}", *[f"I-{kind}"] * (size - 2), f"E-{kind}"]
    assert chunks(iob2) == chunks(iobes) == expected


def test_precision_recall_and_f1_of_the_example_of_conlleval() -> None:
    true = [["B-NP", "I-NP", "B-VP", "B-NP", "O"], ["B-PP", "B-NP"]]
    found = [["B-NP", "I-NP", "B-VP", "I-VP", "O"], ["B-PP", "B-PP"]]
    hits = chunk_hits(true, found)
    assert hits == {"NP": Hits(1, 1, 3), "PP": Hits(1, 2, 1), "VP": Hits(0, 1, 1)}
    total = sum(hits.values(), Hits(0, 0, 0))
    assert (total.precision, total.recall, total.f1) == pytest.approx((2 / 4, 2 / 5, 4 / 9))
    assert Hits(0, 0, 0).f1 == 0.0


def test_tags_of_words_mark_no_chunks() -> None:
    assert has_chunks(["O", "B-NP"])
    assert not has_chunks(["O", "COMMA"])
    assert not has_chunks(["O"])


@given(st.lists(st.tuples(st.sampled_from("abc"), st.sampled_from("abcd")), min_size=1, max_size=30))
def test_labels_agree_with_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    true, found = map(list, zip(*pairs, strict=True))
    hits = label_hits(true, found)
    assert macro_f1(hits) == pytest.approx(f1_score(true, found, average="macro", zero_division=0))
    labels, table = confusion(true, found)
    assert table.tolist() == confusion_matrix(true, found, labels=labels).tolist()
    assert accuracy(true, found) == pytest.approx(table.trace() / table.sum())


def test_labels_that_do_not_belong_together_are_refused() -> None:
    with pytest.raises(DataError, match="belong together"):
        accuracy(["a"], ["a", "b"])
    with pytest.raises(DataError, match="no labels"):
        label_hits([], [])
