"""Images from the bundled sets, idx files and folders."""

from __future__ import annotations

import gzip
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from odd_files import odd_files
from PIL import Image

from seqloom.data.images import ImageSet, load_images, open_pictures
from seqloom.errors import DataError


def idx(array: np.ndarray, kind: int = 8) -> bytes:
    return struct.pack(f">4B{array.ndim}I", 0, 0, kind, array.ndim, *array.shape) + array.astype(np.uint8).tobytes()


def picture(path: Path, array: np.ndarray) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(array).save(path)


@pytest.fixture
def numbers() -> np.random.Generator:
    return np.random.default_rng(0)


# ------------------------------------------------------------------------------------------------------- bundled


def test_digits_use_the_whole_range_of_grey():
    digits = load_images("digits")
    assert digits.images.shape == (1797, 8, 8)
    assert digits.images.dtype == np.uint8
    assert (digits.images.min(), digits.images.max()) == (0, 255)
    assert digits.labels is not None
    assert digits.labels.dtype == np.int64
    # the class counts that the UCI repository gives for this part
    assert np.bincount(digits.labels).tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    # first row of the original: 0,0,5,13,9,1,0,0 of 16
    assert digits.images[0, 0].tolist() == [round(level * 255 / 16) for level in (0, 0, 5, 13, 9, 1, 0, 0)]


@pytest.mark.parametrize(("spec", "per_class"), [("fashion", 600), ("fashion:test", 100)])
def test_fashion_has_its_classes_alike_in_number(spec: str, per_class: int):
    fashion = load_images(spec)
    assert fashion.images.shape == (10 * per_class, 28, 28)
    assert fashion.labels is not None
    assert np.bincount(fashion.labels).tolist() == [per_class] * 10
    assert len(fashion.classes) == 10


def test_fashion_labels_belong_to_their_images():
    fashion = load_images("fashion")
    assert fashion.labels is not None
    width = (fashion.images.max(axis=1) > 50).sum(axis=1)  # columns with anything in them
    mean = {name: width[fashion.labels == number].mean() for number, name in enumerate(fashion.classes)}
    assert min(mean, key=mean.__getitem__) in ("Trouser", "Dress")  # the two narrow garments
    assert mean["Sneaker"] > 25  # shoes lie across the whole picture


def test_images_can_be_written_to():
    assert load_images("fashion:test").images.flags.writeable


def test_a_text_corpus_is_not_taken_for_images():
    with pytest.raises(DataError, match="'shakespeare' holds text, not images"):
        load_images("shakespeare")


def test_a_misspelt_name_is_explained():
    with pytest.raises(DataError, match=r"no such file.*did you mean 'digits'"):
        load_images("digit")


# ----------------------------------------------------------------------------------------------------------- idx


@given(arrays(np.uint8, st.tuples(*[st.integers(1, 5)] * 3)), st.booleans())
def test_an_idx_file_gives_back_its_array(tmp_path_factory: pytest.TempPathFactory, array: np.ndarray, zipped: bool):
    path = tmp_path_factory.mktemp("idx") / "pictures"
    path.write_bytes(gzip.compress(idx(array), mtime=0) if zipped else idx(array))
    loaded = load_images(path)
    np.testing.assert_array_equal(loaded.images, array)
    assert loaded.labels is None


def test_colour_idx_has_three_channels(tmp_path: Path, numbers: np.random.Generator):
    array = numbers.integers(0, 256, (2, 4, 5, 3))
    (tmp_path / "colour").write_bytes(idx(array))
    np.testing.assert_array_equal(load_images(tmp_path / "colour").images, array)


def test_labels_are_found_beside_the_images(tmp_path: Path):
    (tmp_path / "train-images-idx3-ubyte.gz").write_bytes(gzip.compress(idx(np.zeros((3, 2, 2)))))
    (tmp_path / "train-labels-idx1-ubyte.gz").write_bytes(gzip.compress(idx(np.array([7, 0, 255]))))
    labels = load_images(tmp_path / "train-images-idx3-ubyte.gz").labels
    assert labels is not None
    assert labels.tolist() == [7, 0, 255]


def test_labels_of_another_number_are_refused(tmp_path: Path):
    (tmp_path / "images").write_bytes(idx(np.zeros((3, 2, 2))))
    (tmp_path / "labels").write_bytes(idx(np.zeros(4)))
    with pytest.raises(DataError, match="has 3 images, but labels has labels of shape"):
        load_images(tmp_path / "images")


GOOD = idx(np.zeros((3, 2, 2)))


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "neither an idx file"),
        (b"a text of some length", "neither an idx file"),
        (GOOD[:7], "ends within its header"),
        (GOOD[:-1], "has 11 bytes after its header, which promises 12"),
        (GOOD + b"\0", "goes on after the 12 bytes that its header promises"),
        (idx(np.zeros((3, 2, 2)), kind=0x0D), "type 0x0d; only unsigned bytes"),
        (idx(np.zeros(3)), "holds labels; name the file with the images"),
        (idx(np.zeros((3, 2))), r"has the shape \(3, 2\)"),
        (idx(np.zeros((3, 2, 2, 2))), r"has the shape \(3, 2, 2, 2\)"),
        (gzip.compress(GOOD, mtime=0)[:-9], "cut off before its end"),
        (gzip.compress(GOOD, mtime=0)[:10] + b"\xff" * 20, "damaged"),
    ],
)
def test_a_damaged_idx_file_is_refused(tmp_path: Path, content: bytes, message: str):
    (tmp_path / "bad").write_bytes(content)
    with pytest.raises(DataError, match=message) as caught:
        load_images(tmp_path / "bad")
    assert str(tmp_path / "bad") in str(caught.value)


# ------------------------------------------------------------------------------------------------------- folders


def test_a_folder_of_grey_pictures_is_grey_and_in_order(tmp_path: Path, numbers: np.random.Generator):
    array = numbers.integers(0, 256, (3, 4, 6), dtype=np.uint8)
    for index, name in enumerate(["a.png", "b.PNG", "c.png"]):
        picture(tmp_path / name, array[index])
    (tmp_path / "readme.txt").write_text("not a picture")
    loaded = load_images(tmp_path)
    np.testing.assert_array_equal(loaded.images, array)
    assert loaded.labels is None
    assert len(loaded) == 3


def test_one_coloured_picture_makes_the_set_coloured(tmp_path: Path, numbers: np.random.Generator):
    grey = numbers.integers(0, 256, (4, 6), dtype=np.uint8)
    colour = numbers.integers(0, 256, (4, 6, 3), dtype=np.uint8)
    picture(tmp_path / "a.png", grey)
    picture(tmp_path / "b.png", colour)
    images = load_images(tmp_path).images
    np.testing.assert_array_equal(images[0], np.stack([grey] * 3, axis=-1))
    np.testing.assert_array_equal(images[1], colour)


def test_jpeg_is_read(tmp_path: Path):
    picture(tmp_path / "a.jpg", np.full((8, 8), 100, np.uint8))
    np.testing.assert_allclose(load_images(str(tmp_path)).images, np.full((1, 8, 8), 100), atol=2)


def test_subfolders_are_classes(tmp_path: Path):
    for index, name in enumerate(["cat/1.png", "cat/2.png", "ant/1.png"]):
        picture(tmp_path / name, np.full((2, 2), index, np.uint8))
    (tmp_path / "empty").mkdir()
    loaded = load_images(tmp_path)
    assert loaded.classes == ("ant", "cat")
    assert loaded.images[:, 0, 0].tolist() == [2, 0, 1]
    assert loaded.labels is not None
    assert loaded.labels.tolist() == [0, 1, 1]


def test_pictures_keep_their_sizes_names_and_classes(tmp_path: Path):
    for name, size in (("cat/1.png", 2), ("cat/2.png", 3), ("ant/1.png", 4)):
        picture(tmp_path / name, np.zeros((size, size), np.uint8))
    found = [(each.name, each.image.size, each.label) for each in open_pictures(tmp_path)]
    assert found == [
        (str(tmp_path / "ant/1.png"), (4, 4), "ant"),
        (str(tmp_path / "cat/1.png"), (2, 2), "cat"),
        (str(tmp_path / "cat/2.png"), (3, 3), "cat"),
    ]
    names = load_images("fashion:test").classes
    first = next(open_pictures("fashion:test"))
    assert first.name == "fashion:test#0"
    assert first.label in names


def test_an_empty_folder_is_refused(tmp_path: Path):
    with pytest.raises(DataError, match="no PNG or JPEG files"):
        load_images(tmp_path)


def test_pictures_of_two_sizes_are_refused(tmp_path: Path):
    picture(tmp_path / "a.png", np.zeros((2, 3), np.uint8))
    picture(tmp_path / "b.png", np.zeros((3, 2), np.uint8))
    with pytest.raises(DataError, match=r"b\.png is 2×3 pixels, but a\.png is 3×2"):
        load_images(tmp_path)


def test_deep_pictures_are_refused(tmp_path: Path):
    picture(tmp_path / "a.png", np.zeros((2, 2), np.uint16))
    with pytest.raises(DataError, match=r"a\.png has more than 8 bits a pixel"):
        load_images(tmp_path)


@pytest.mark.parametrize("keep", [0, 20, 100])
def test_a_damaged_picture_is_named(tmp_path: Path, numbers: np.random.Generator, keep: int):
    picture(tmp_path / "a.png", numbers.integers(0, 256, (16, 16), dtype=np.uint8))
    (tmp_path / "a.png").write_bytes((tmp_path / "a.png").read_bytes()[:keep])
    with pytest.raises(DataError, match=r"a\.png is not a readable PNG or JPEG image"):
        load_images(tmp_path)


@pytest.mark.parametrize(
    ("fact", "pixel"),
    [
        ("16 bits of colour", [0, 0, 0]),
        ("CMYK", [255, 0, 0]),
        ("an alpha channel", [9, 8, 7]),
        ("an animation", 7),
    ],
)
def test_the_pixels_of_unusual_pictures_are_right(tmp_path: Path, fact: str, pixel: int | list[int]):
    (odd,) = (odd for odd in odd_files("picture") if odd.fact == fact)
    odd.write(tmp_path)
    images = load_images(tmp_path).images
    np.testing.assert_allclose(images, np.broadcast_to(pixel, images.shape), atol=2)


def test_an_idx_file_is_unpacked_only_as_far_as_it_promises(tmp_path: Path):
    (odd,) = (odd for odd in odd_files("idx") if odd.fact == "more than it promises")
    path = odd.write(tmp_path)
    tracemalloc.start()
    with pytest.raises(DataError, match="goes on after"):
        load_images(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000  # it would unpack to 67 million


def test_images_that_do_not_fit_in_memory_are_refused(tmp_path: Path):
    path = tmp_path / "sparse"
    with open(path, "wb") as file:
        file.write(idx(np.zeros((0, 0, 0)))[:4] + struct.pack(">3I", *[1 << 16] * 3))
        file.truncate(1 << 38)  # it takes no room on the disk; packed, so many bytes could hold what it promises
    with pytest.raises(DataError, match=r"promises 65,536 × 65,536 × 65,536 numbers, which do not fit in memory"):
        load_images(path)


def test_a_single_picture_is_not_a_set(tmp_path: Path):
    picture(tmp_path / "a.png", np.zeros((2, 2), np.uint8))
    with pytest.raises(DataError, match="is a single image; name the folder"):
        load_images(tmp_path / "a.png")


def test_an_image_set_counts_its_images():
    assert len(ImageSet(np.zeros((5, 2, 2), np.uint8), None)) == 5
