"""Files of n-gram models that lie: refused, or the tree in them is a tree. The compiled loops trust every number."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors.numpy import load_file

from seqloom.arrays import write_arrays
from seqloom.config.schema.ngram import NgramModelConfig
from seqloom.errors import CheckpointError
from seqloom.models.ngram import kernels
from seqloom.models.ngram.counting import count
from seqloom.models.ngram.estimation import estimate
from seqloom.models.ngram.model import NgramModel
from seqloom.models.ngram.scoring import score_tokens
from seqloom.text.special import BOS, EOS

ORDER, SIZE = 3, 9
TEXT = np.array([4, 5, 6, EOS, 4, 6, 5, EOS, 7, 4, 5, 8, EOS, EOS, 4, 5, 6, EOS])
Arrays = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def arrays(tmp_path_factory: pytest.TempPathFactory) -> Arrays:
    """Those of a small model that tells the truth."""
    path = tmp_path_factory.mktemp("true") / "model.safetensors"
    estimate(count(TEXT, ORDER, SIZE), NgramModelConfig(order=ORDER, smoothing="laplace")).model.save(path)
    return load_file(path)


def loaded(arrays: Arrays, path: Path) -> NgramModel:
    ordered = ("levels", "missing", "first", "words", "log_probs", "backoffs")
    write_arrays(path, {name: arrays[name] for name in ordered})
    return NgramModel.load(path, ORDER, SIZE)


def test_a_true_file_is_loaded(arrays: Arrays, tmp_path: Path) -> None:
    assert loaded(arrays, tmp_path / "true.safetensors").trie.sizes() == np.diff(arrays["levels"]).tolist()


LIES = {
    "continuations before the file": ("first", slice(None), -(2**30)),
    "continuations beyond the file": ("first", slice(3, 5), 2**30),
    "continuations that begin too early": ("first", 0, SIZE - 1),
    "an end beyond the last n-gram": ("first", -1, 10_000),
    "a word beyond the vocabulary": ("words", SIZE + 2, SIZE),
    "a word below 0": ("words", SIZE + 2, -1),
    "a word twice after one context": ("words", slice(SIZE, None), 4),
    "unigrams in another order": ("words", slice(4, 6), [5, 4]),
    "orders that end before they begin": ("levels", 1, -5),
    "orders that do not end with the file": ("levels", -1, 5),
    "a smaller vocabulary than the tokeniser's": ("levels", 1, SIZE - 1),
    "no number": ("log_probs", 7, np.nan),
    "a probability above 1": ("log_probs", 7, 0.5),
    "an infinite back-off weight": ("backoffs", 3, np.inf),
    "a back-off weight that is no number": ("backoffs", 3, np.nan),
    "a weight of missing contexts above 1": ("missing", 0, 1.0),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_is_refused(lie: str, arrays: Arrays, tmp_path: Path) -> None:
    name, where, value = LIES[lie]
    changed = arrays[name].copy()
    changed[where] = value
    with pytest.raises(CheckpointError, match=r"lying\.safetensors"):
        loaded({**arrays, name: changed}, tmp_path / "lying.safetensors")


@pytest.mark.parametrize("name", ["words", "first", "levels", "log_probs", "backoffs", "missing"])
def test_an_array_of_another_length_shape_or_type_is_refused(name: str, arrays: Arrays, tmp_path: Path) -> None:
    array = arrays[name]
    turned = array.view({"i": "f", "f": "i"}[array.dtype.kind] + str(array.itemsize))
    for other in (array[:-1], np.append(array, array[-1]), array[:, None], turned):
        with pytest.raises(CheckpointError, match=r"lying\.safetensors"):
            loaded({**arrays, name: other}, tmp_path / "lying.safetensors")


def test_orders_whose_differences_overflow_are_refused(arrays: Arrays, tmp_path: Path) -> None:
    levels = np.array([0, 2**62, -(2**62), len(arrays["words"])])
    with pytest.raises(CheckpointError, match="orders"):
        loaded({**arrays, "levels": levels}, tmp_path / "lying.safetensors")


def spelled(model: NgramModel) -> list[list[tuple[int, ...]]]:
    """The n-grams of each order, by a walk from the unigrams that trusts nothing."""
    words, first = model.trie.words.tolist(), model.trie.first.tolist()
    orders = [[(word,) for word in words[:SIZE]]]
    node = 0
    for _ in range(1, ORDER):
        longer = []
        for ngram in orders[-1]:
            for child in range(first[node], first[node + 1]):
                assert child == sum(map(len, orders)) + len(longer)  # next in the file: none skipped, none twice
                longer.append((*ngram, words[child]))
            node += 1
        orders.append(longer)
    assert sum(map(len, orders)) == len(words)
    return orders


@settings(deadline=None, max_examples=150)
@given(data=st.data())
def test_whatever_is_changed_the_file_is_refused_or_holds_a_tree(
    data: st.DataObject, arrays: Arrays, tmp_path_factory: pytest.TempPathFactory
) -> None:
    changed = {name: array.copy() for name, array in arrays.items()}
    for _ in range(data.draw(st.integers(1, 3))):
        array = changed[data.draw(st.sampled_from(sorted(changed)))]
        place = data.draw(st.integers(0, len(array) - 1))
        if array.dtype.kind == "f":
            array[place] = data.draw(st.floats(width=32))
        else:
            bounds = np.iinfo(array.dtype)
            near = st.integers(-2, 2).map(lambda step, now=int(array[place]): now + step)
            array[place] = data.draw(near | st.integers(int(bounds.min), int(bounds.max)))
    path = tmp_path_factory.getbasetemp() / "changed.safetensors"
    try:
        model = loaded(changed, path)
    except CheckpointError:
        return
    for order in spelled(model):
        assert order == sorted(set(order))
        assert all(0 <= word < SIZE for ngram in order for word in ngram)
    targets = TEXT.astype(np.int32)
    inputs = np.append(BOS, np.where(targets == EOS, BOS, targets)[:-1]).astype(np.int32)
    scores, orders = np.empty(len(targets), np.float32), np.empty(len(targets), np.uint8)
    # Not compiled: an index that is out of bounds is an error, not a crash.
    kernels.score.py_func(  # type: ignore[attr-defined]
        *(model.trie.words, model.trie.first, model.log_probs, model.backoffs, np.float32(model.missing), ORDER),
        *(inputs, targets, scores, orders, 0, len(targets)),
    )
    expected, expected_orders = score_tokens(model, inputs, targets)
    np.testing.assert_allclose(scores, expected, rtol=1e-4)
    np.testing.assert_array_equal(orders, expected_orders)
    contexts = np.array([[4, -1], [BOS, -2], [5, model.trie.find(np.array([4]), np.array([5]))[0]]])
    distributions = np.empty((3, SIZE), np.float32)
    given_up = np.zeros((3, ORDER), np.float32)
    kernels.next_log_probs.py_func(  # type: ignore[attr-defined]
        model.trie.words, model.trie.first, model.log_probs, contexts, given_up, distributions
    )
    assert not np.isnan(model.next_log_probs(contexts)).any()
    assert not np.isnan(distributions).any()
