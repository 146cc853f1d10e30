"""Images with captions: what folders and records hold, and what is wrong with those that hold something else."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageFilter, ImageOps

from seqloom.data import captions as module
from seqloom.data import images
from seqloom.data.captions import load_captions, open_pictures_or_scenes
from seqloom.data.images import fitted
from seqloom.errors import DataError


def picture(path: Path, level: int, width: int = 12, height: int = 8, mode: str = "RGB") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.new(mode, (width, height), level if mode == "L" else (level, 0, 0)).save(path)


@pytest.fixture
def flickr(tmp_path: Path) -> Path:
    """Three images of different sizes, captioned as Flickr8k is."""
    for number, size in enumerate([(12, 8), (8, 12), (10, 10)]):
        picture(tmp_path / "images" / f"{number}.jpg", 60 * (number + 1), *size)
    lines = [f"{number}.jpg#{caption}\tA picture {number} , {caption} ." for number in range(3) for caption in range(2)]
    (tmp_path / "Some.token.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    (tmp_path / "Some_trainImages.txt").write_text("0.jpg\n2.jpg\n", encoding="utf-8")
    with gzip.open(tmp_path / "Some_devImages.txt.gz", "wt", encoding="utf-8") as file:
        file.write("1.jpg\n")
    return tmp_path


def test_a_flickr_folder(flickr: Path) -> None:
    found = load_captions(str(flickr), size=6)
    assert found.images.shape == (3, 6, 6)
    assert found.shape == (1, 6, 6)
    assert found.captions[1] == ("A picture 1 , 0 .", "A picture 1 , 1 .")
    levels = found.images.reshape(3, -1).mean(1)
    assert levels[0] < levels[1] < levels[2], "images stay beside their captions"


def test_parts_of_a_flickr_folder(flickr: Path) -> None:
    assert [len(load_captions(f"{flickr}:{part}", size=6)) for part in ("train", "dev")] == [2, 1]
    assert load_captions(f"{flickr}:dev", size=6).captions[0][0] == "A picture 1 , 0 ."
    with pytest.raises(DataError, match=r"\*testImages.txt that lists the images of part 'test'"):
        load_captions(f"{flickr}:test")


def test_colours_when_asked_for(flickr: Path) -> None:
    found = load_captions(str(flickr), size=6, colour=True)
    assert found.shape == (3, 6, 6)
    assert found.images[2, 3, 3, 0] > 150
    assert found.images[2, 3, 3, 2] < 20


def test_images_of_different_sizes_need_data_size(flickr: Path) -> None:
    with pytest.raises(DataError, match=r"1\.jpg is 8×12 pixels, but .*\.jpg is 12×8; .*data\.size"):
        load_captions(str(flickr))


def test_the_table_of_captions_txt(tmp_path: Path) -> None:
    for name in ("a.png", "b.png"):
        picture(tmp_path / "Images" / name, 100, 6, 6)
    (tmp_path / "captions.txt").write_text('image,caption\na.png,"One, two"\nb.png,Three\na.png,Four\n\n', "utf-8")
    found = load_captions(str(tmp_path))
    assert found.captions == (("One, two", "Four"), ("Three",))
    assert len(found) == 2


def test_records(tmp_path: Path) -> None:
    picture(tmp_path / "a.png", 100, 6, 6)
    picture(tmp_path / "b.png", 200, 6, 6, "L")
    records = [{"image": "a.png", "caption": ["One", "two"]}, {"image": "b.png", "caption": "three"}]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n".join(map(json.dumps, records)), "utf-8")
    found = load_captions(str(path))
    assert found.captions == (("One", "two"), ("three",))
    assert (found.images[1] == 200).all()


@pytest.mark.parametrize(
    "text", ["a.png#0\tOne\nb#2.png\tThree\na.png#1\tTwo\n", "a.png\tOne\nb#2.png\tThree\na.png\tTwo"]
)
def test_a_table_with_tabs(tmp_path: Path, text: str) -> None:
    for name in ("a.png", "b#2.png"):
        picture(tmp_path / name, 100, 6, 6)
    (tmp_path / "mine.tsv").write_text(text, "utf-8")
    assert load_captions(str(tmp_path / "mine.tsv")).captions == (("One", "Two"), ("Three",))


def test_photographs_are_read_and_resized_once(flickr: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SEQLOOM_CACHE", str(tmp_path / "cache"))
    opened = []
    read = images.open_picture
    monkeypatch.setattr(images, "open_picture", lambda file: opened.append(file.name) or read(file))
    first = load_captions(str(flickr), size=6, colour=True).images
    again = load_captions(str(flickr), size=6, colour=True).images
    assert np.array_equal(first, again)
    assert len(opened) == 3
    assert load_captions(str(flickr), size=5, colour=True).shape == (3, 5, 5)
    picture(flickr / "images" / "0.jpg", 250, 12, 8)  # another picture under the same name
    assert load_captions(str(flickr), size=6, colour=True).images[0, 3, 3, 0] > 200 > first[0, 3, 3, 0]


def test_scenes_by_part_and_size(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = module.load_scenes
    monkeypatch.setattr(module, "load_scenes", lambda part: drawn(part, 4))
    assert load_captions("scenes:test").images.shape == (4, 40, 40)
    assert load_captions("scenes:test", size=20).images.shape == (4, 20, 20)
    assert load_captions("scenes").captions == tuple((caption,) for caption in drawn("train", 4)[1])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("captions.txt", "picture,words\n", "line 1: the head must be image,caption"),
        ("captions.txt", "image,caption\na.png\n", "line 2: a row is image,caption"),
        ("captions.txt", "image,caption\na.png, \n", "line 2: a row is image,caption"),
        ("captions.txt", "image,caption\nc.png,words\n", "line 2: there is no image c.png"),
        ("captions.txt", "image,caption\n", "has no captions"),
        ("x.token.txt", "a.png words\n", "line 1: no tab"),
        ("x.token.txt", "a.png#0\t \n", "line 1: no caption"),
        ("notes.txt", "words\n", "no captions file"),
    ],
)
def test_what_is_wrong_with_a_folder(tmp_path: Path, name: str, text: str, message: str) -> None:
    picture(tmp_path / "a.png", 1)
    (tmp_path / name).write_text(text, "utf-8")
    with pytest.raises(DataError, match=message):
        load_captions(str(tmp_path))


@pytest.mark.parametrize(
    ("record", "message"),
    [
        ('["words"]', "line 1: a record must be an object such as"),
        ('{"caption": "words"}', r"line 1: the record has no key 'image' \(its keys: 'caption'\)"),
        ('{"image": "a.png", "caption": 3}', "line 1: the value of 'caption' is a number, not a text"),
        ('{"image": "a.png", "caption": []}', "line 1: a caption is blank, or there is none"),
        ('{"image": "b.png", "caption": "words"}', "line 1: there is no image b.png"),
        ("", "has no captions"),
    ],
)
def test_what_is_wrong_with_records(tmp_path: Path, record: str, message: str) -> None:
    picture(tmp_path / "a.png", 1)
    path = tmp_path / "mine.jsonl"
    path.write_text(record + "\n", "utf-8")
    with pytest.raises(DataError, match=message):
        load_captions(str(path))


def test_two_captions_files_are_too_many(flickr: Path) -> None:
    (flickr / "captions.txt").write_text("image,caption\n", "utf-8")
    with pytest.raises(DataError, match=r"several captions files: Some\.token\.txt, captions\.txt"):
        load_captions(str(flickr))


def test_what_is_nowhere_or_no_captions(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"nowhere: no such folder or file; images with captions are `scenes`"):
        load_captions("nowhere")
    (tmp_path / "a.xml").write_text("a\tb\n", "utf-8")
    with pytest.raises(DataError, match=r"a\.xml is no file of images with captions"):
        load_captions(str(tmp_path / "a.xml"))


def test_a_damaged_image_is_named(flickr: Path) -> None:
    (flickr / "images" / "1.jpg").write_bytes(b"\xff\xd8 and no more")
    with pytest.raises(DataError, match=r"1\.jpg is not a readable PNG or JPEG"):
        load_captions(str(flickr), size=6)


# ------------------------------------------------------------------------------------------------- users' pictures


def test_a_picture_is_cut_in_the_middle_and_not_squeezed() -> None:
    wide = np.zeros((10, 30), np.uint8)
    wide[:, 10:20] = 200
    found = fitted(Image.fromarray(wide), 5, 5, colour=False)
    assert (found[:, 1:-1] == 200).all(), "the middle square alone is left"
    assert (found > 150).all()
    assert fitted(Image.fromarray(wide), 6, 2, colour=True).shape == (2, 6, 3)
    assert np.array_equal(fitted(Image.fromarray(wide), 30, 10, colour=False), wide)


@pytest.mark.parametrize("size", [(90, 60), (60, 90), (64, 61)])
def test_photographs_are_cut_as_pillow_fits_them(size: tuple[int, int]) -> None:
    """The shorter side becomes as long as asked for, and the middle is cut out."""
    noise = np.random.default_rng(0).integers(0, 256, (size[1], size[0], 3), np.uint8)
    photograph = Image.fromarray(noise).filter(ImageFilter.GaussianBlur(3))
    theirs = np.asarray(ImageOps.fit(photograph, (32, 32), Image.Resampling.BILINEAR), int)
    assert np.abs(fitted(photograph, 32, 32, colour=True) - theirs).max() <= 1


def test_pictures_from_files_folders_and_sets(tmp_path: Path) -> None:
    picture(tmp_path / "b.png", 100)
    picture(tmp_path / "a.JPG", 50)
    (tmp_path / "notes.txt").write_text("words", "utf-8")
    names = [picture.name for picture in open_pictures_or_scenes(tmp_path)]
    assert names == [str(tmp_path / "a.JPG"), str(tmp_path / "b.png")]
    assert next(open_pictures_or_scenes(str(tmp_path / "b.png"))).image.size == (12, 8)
    first = next(open_pictures_or_scenes("digits"))
    assert (first.name, first.image.size, first.label) == ("digits#0", (8, 8), "0")


def test_pictures_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(DataError, match=r"gone\.png: there is no such image"):
        next(open_pictures_or_scenes("gone.png"))
    with pytest.raises(DataError, match="has no PNG or JPEG files"):
        next(open_pictures_or_scenes(tmp_path))
