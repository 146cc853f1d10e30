"""Scenes: the sentence says what is painted, the parts have nothing in common, and all is the same every time."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from seqloom.data.scenes import JITTER, LAYOUTS, NAMES, SIDE, THING, Layout, Scene, load_scenes, load_things
from seqloom.errors import DataError

ALL_LAYOUTS = [layout for several in LAYOUTS for layout in several]


def read(caption: str) -> tuple[Layout, list[int]]:
    """The one layout and the things that a caption speaks of."""
    found = []
    for layout in ALL_LAYOUTS:
        words = layout.sentence
        for number in range(len(layout.places)):
            words = words.replace(f"{{{number}}}", "\0")
        gaps = words.split("\0")[1:]
        rest, names = caption, []
        for gap in gaps:
            name, mark, rest = rest.partition(gap) if gap else (rest, "", "")
            names.append(name)
            if gap and not mark:
                break
        if len(names) == len(layout.places) and not rest and all(name in NAMES for name in names):
            found.append((layout, [NAMES.index(name) for name in names]))
    assert len(found) == 1, caption
    return found[0]


def shows(image: np.ndarray, middle: tuple[int, int], pictures: np.ndarray) -> bool:
    """Whether one of the pictures stands around a place, moved by the jitter at most."""
    top, left = np.array(middle) - THING // 2
    moves = range(-JITTER, JITTER + 1)
    crops = [image[top + y : top + y + THING, left + x : left + x + THING] for y, x in itertools.product(moves, moves)]
    return any((pictures == crop).all((1, 2)).any() for crop in crops)


@pytest.mark.parametrize("part", ["train", "valid", "test"])
def test_a_caption_says_exactly_what_is_painted(part: str) -> None:
    images, captions = load_scenes(part, 60)
    things = load_things(part)
    for image, caption in zip(images, captions, strict=True):
        layout, named = read(caption)
        painted = np.zeros((SIDE, SIDE), bool)
        for middle, thing in zip(layout.places, named, strict=True):
            assert shows(image, middle, things[thing]), caption
            reach = THING // 2 + JITTER
            painted[middle[0] - reach : middle[0] + reach, middle[1] - reach : middle[1] + reach] = True
        assert not image[~painted].any(), "something stands where the caption names nothing"


def test_a_wrong_name_would_be_noticed() -> None:
    """The check above can fail: at the place of a thing no other is found."""
    images, captions = load_scenes("test", 10)
    things = load_things("test")
    for image, caption in zip(images, captions, strict=True):
        layout, named = read(caption)
        assert not shows(image, layout.places[0], things[(named[0] + 1) % len(NAMES)])


def test_parts_have_no_composition_in_common() -> None:
    found = {part: set(load_scenes(part, 400)[1]) for part in ("train", "valid", "test")}
    for one, other in itertools.combinations(found, 2):
        assert not found[one] & found[other]
    assert all(read(caption)[0] in LAYOUTS[1] + LAYOUTS[2] for caption in found["test"])
    single = {Scene(LAYOUTS[0][0], (thing,)).part for thing in range(len(NAMES))}
    assert single == {"train"}


def test_parts_have_no_picture_in_common() -> None:
    seen = {part: {picture.tobytes() for each in load_things(part) for picture in each} for part in ("train", "test")}
    assert len(seen["train"] & seen["test"]) == 0
    every = {picture.tobytes() for each in load_things("valid") for picture in each}
    assert not every & seen["train"]


def test_all_sentences_are_different() -> None:
    """No two arrangements have one sentence, so that there is one right caption."""
    things = range(len(NAMES))
    captions = [
        Scene(layout, chosen).caption
        for layout in ALL_LAYOUTS
        for chosen in itertools.product(things, repeat=len(layout.places))
    ]
    assert len(set(captions)) == len(captions)


def test_scenes_are_the_same_every_time() -> None:
    one, other = load_scenes("valid", 20), load_scenes("valid", 20)
    assert np.array_equal(one[0], other[0])
    assert one[1] == other[1]


def test_an_unknown_part_is_refused() -> None:
    with pytest.raises(DataError, match=r"no part 'tset'.*test"):
        load_scenes("tset")
