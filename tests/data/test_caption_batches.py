"""Batches of images with captions: rows belong together, and the position says what comes next."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from seqloom.config.schema.text import WordText
from seqloom.data.caption_batches import AugmentedCaptions, CaptionStore
from seqloom.data.captions import CaptionedImages
from seqloom.data.samplers import Shuffled
from seqloom.data.stream import Stream
from seqloom.text.kinds import train_tokenizer
from seqloom.text.special import BOS, EOS, PAD

NAMES = ("one", "one and two", "and", "two two two", "and one")


@pytest.fixture
def store() -> CaptionStore:
    """Image n is all of level n; the image of every second one has two captions."""
    images = np.repeat(np.arange(5, dtype=np.uint8), 6).reshape(5, 2, 3)
    captions = tuple((name, name + " one") if number % 2 else (name,) for number, name in enumerate(NAMES))
    return CaptionStore(CaptionedImages(images, captions), train_tokenizer(WordText(), NAMES))


def test_every_caption_stands_beside_its_image(store: CaptionStore) -> None:
    assert len(store) == 7
    assert store.owners.tolist() == [0, 1, 1, 2, 3, 3, 4]
    batch = store.batch(np.array([6, 2]))
    assert torch.equal(batch.images[:, 0, 0, 0] * 255, torch.tensor([4.0, 1.0]))
    assert batch.images.shape == (2, 1, 2, 3)
    assert batch.target_lengths.tolist() == [3, 5]
    assert batch.tokens == 8 == len(batch.places)


def test_inputs_are_the_targets_shifted(store: CaptionStore) -> None:
    batch = store.batch(np.arange(7))
    for inputs, targets, length in zip(
        batch.target_inputs.tolist(), batch.targets.tolist(), batch.target_lengths.tolist(), strict=True
    ):
        assert inputs[:length] == [BOS, *targets[: length - 1]]
        assert targets[length - 1] == EOS
        assert set(inputs[length:]) <= {PAD}
        assert set(targets[length:]) <= {PAD}


def test_an_epoch_has_every_caption_once(store: CaptionStore) -> None:
    batches = Stream(store, Shuffled(len(store), 1))
    for _ in range(2):
        seen = [next(batches) for _ in range(batches.batches_per_epoch)]
        rows = sorted((float(batch.images.max()), *batch.targets[0].tolist()) for batch in seen)
        assert len(set(rows)) == len(store) == 7


def test_the_references_of_a_caption_are_all_captions_of_its_image(store: CaptionStore) -> None:
    assert store.references(np.array([2, 0, 6])) == [("one and two", "one and two one"), ("one",), ("and one",)]
    batch = next(Stream(store, Shuffled(len(store), 3)))
    for owner, texts in zip(store.owners[batch.numbers], store.references(batch.numbers), strict=True):
        assert texts[0] == NAMES[owner]


def test_captions_are_evaluated_in_their_order(store: CaptionStore) -> None:
    numbers = [found.tolist() for found, _ in store.batches(3)]
    assert numbers == [[0, 1, 2], [3, 4, 5], [6]]


# ---------------------------------------------------------------------------------------------------- augmentation


@pytest.fixture
def augmented() -> AugmentedCaptions:
    """Images of 5×6 pixels, no two of which are the same, seen through windows of 3×4."""
    images = np.arange(5 * 5 * 6, dtype=np.uint8).reshape(5, 5, 6)
    captions = tuple((name,) for name in NAMES)
    return AugmentedCaptions(CaptionedImages(images, captions), train_tokenizer(WordText(), NAMES), 2, flip=True)


def test_training_sees_every_window_and_its_mirror_image(augmented: AugmentedCaptions) -> None:
    seen: dict[int, set[bytes]] = {number: set() for number in range(5)}
    batches = Stream(augmented, Shuffled(5, 5), seed=1)
    for _ in range(200):
        batch = next(batches)
        for number, image in zip(batch.numbers, (batch.images[:, 0] * 255).round().byte().numpy(), strict=True):
            seen[number].add(image.tobytes())
    for number, found in seen.items():
        image = augmented.images[number]
        windows = [image[top : top + 3, left : left + 4] for top in range(3) for left in range(3)]
        assert found == {view.tobytes() for window in windows for view in (window, window[:, ::-1])}


def test_what_training_sees_follows_from_the_place_alone(augmented: AugmentedCaptions) -> None:
    one, other = (Stream(augmented, Shuffled(5, 2), seed=3) for _ in range(2))
    whole = [next(one).images for _ in range(6)]
    other.seek({"epoch": 1, "index": 1})
    assert torch.equal(next(other).images, whole[3])
    different = Stream(augmented, Shuffled(5, 2), seed=4)
    assert not torch.equal(next(different).images, whole[0])


def test_all_else_reads_the_middle(augmented: AugmentedCaptions) -> None:
    middle = augmented.images[:, 1:4, 1:5]
    assert np.array_equal((augmented.batch(np.arange(5)).images[:, 0] * 255).round().byte(), middle)
    assert np.array_equal(augmented.captioned.without(2).images, middle)
    assert augmented.captioned.without(2).shape == (1, 3, 4)
