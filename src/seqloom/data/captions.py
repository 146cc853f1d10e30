"""Images with captions: the bundled scenes, folders as those of Flickr8k, and records that name image files."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seqloom.data.images import open_picture
from seqloom.data.pictures import SCENES, fitted
from seqloom.data.scenes import load_scenes
from seqloom.errors import DataError
from seqloom.text.reading import read_lines, read_records, refuse_half_characters

FORMATS = (
    "`scenes`, a folder with a captions file (image,caption in captions.txt; or image.jpg#0, tab, caption in "
    "*.token.txt), or a .jsonl file with image and caption"
)


@dataclass(frozen=True)
class CaptionedImages:
    """Images of one size with a caption or several each, all in memory: 8 bits a pixel."""

    images: NDArray[np.uint8]
    """[count, height, width] when grey, [count, height, width, 3] in colour."""
    captions: tuple[tuple[str, ...], ...]
    """Of each image."""

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        height, width, *channels = self.images.shape[1:]
        return (channels[0] if channels else 1), height, width

    def chosen(self, numbers: NDArray[np.integer]) -> CaptionedImages:
        """Some of them."""
        return CaptionedImages(self.images[numbers], tuple(self.captions[number] for number in numbers.tolist()))


def load_captions(source: str, size: int | None = None, colour: bool = False) -> CaptionedImages:
    """Load `scenes` (or `scenes:valid`, `scenes:test`), a folder, a part of one (`flickr8k:train`), or a .jsonl file.

    size: bring all images to so many pixels in width and height. Without, they must have one size already.
    colour: three channels; without, grey. Scenes are grey, and stay so.

    A part of a folder is what is listed in its file `*PARTImages.txt`, as Flickr8k has them. Files that a record or a
    list names are looked for beside it, and in the folders there.
    """
    name, _, part = source.partition(":")
    if name == SCENES and not Path(name).exists():
        images, captions = load_scenes(part or "train")
        return CaptionedImages(
            images if size is None else np.stack([fitted(Image.fromarray(each), size, size, False) for each in images]),
            tuple((caption,) for caption in captions),
        )
    path = Path(source)
    if path.is_file():
        if not path.name.lower().endswith((".jsonl", ".jsonl.gz")):
            raise DataError(f"{source} is no file of images with captions: give {FORMATS}")
        found = _records(path)
    else:
        folder = path if path.is_dir() else Path(name)
        if not folder.is_dir():
            raise DataError(f"{source}: no such folder or file; images with captions are {FORMATS}")
        found = _folder(folder, "" if path.is_dir() else part)
    return CaptionedImages(_read(list(found), size, colour), tuple(map(tuple, found.values())))


def _read(files: Sequence[Path], size: int | None, colour: bool) -> NDArray[np.uint8]:
    """Image files as one array; each is brought to its size as soon as it is read, as all would not fit in memory."""
    images: list[NDArray[np.uint8]] = []
    for file in files:
        picture = open_picture(file)
        width, height = (size, size) if size is not None else picture.size
        image = fitted(picture, width, height, colour)
        if images and image.shape != images[0].shape:
            others = images[0].shape
            raise DataError(
                f"{file} is {width}×{height} pixels, others are {others[1]}×{others[0]}: set data.size to bring all "
                "to one size"
            )
        images.append(image)
    return np.stack(images)


# ---------------------------------------------------------------------------------------------------------- formats


def _records(path: Path) -> dict[Path, list[str]]:
    found: dict[Path, list[str]] = {}
    places = _places(path.parent)
    for where, record in read_records(path):
        if not isinstance(record, dict) or not isinstance(record.get("image"), str) or "caption" not in record:
            raise DataError(f'{where}: a record must be an object such as {{"image": "a.jpg", "caption": "..."}}')
        captions = record["caption"] if isinstance(record["caption"], list) else [record["caption"]]
        if not captions or not all(isinstance(caption, str) and caption.strip() for caption in captions):
            raise DataError(f"{where}: the value of 'caption' is no text, and no list of texts")
        for caption in captions:
            refuse_half_characters(caption, "caption", where)
        found.setdefault(_image(places, record["image"], where), []).extend(captions)
    if not found:
        raise DataError(f"{path} has no records")
    return found


def _folder(folder: Path, part: str) -> dict[Path, list[str]]:
    files = sorted(file for file in folder.iterdir() if _holds_captions(file))
    if len(files) != 1:
        said = "no captions file" if not files else "several captions files: " + ", ".join(file.name for file in files)
        raise DataError(f"{folder} has {said}; images with captions are {FORMATS}")
    wanted = _listed(folder, part) if part else None
    found: dict[Path, list[str]] = {}
    places = _places(folder)
    for where, name, caption in _table(files[0]) if ".token." in files[0].name else _commas(files[0]):
        if wanted is None or name in wanted:
            found.setdefault(_image(places, name, where), []).append(caption)
    if not found:
        raise DataError(f"{files[0]} has no captions" + (f" of the images of part {part!r}" if part else ""))
    return found


def _holds_captions(file: Path) -> bool:
    name = file.name.removesuffix(".gz")
    return file.is_file() and (name in ("captions.txt", "captions.csv") or name.endswith(".token.txt"))


def _listed(folder: Path, part: str) -> set[str]:
    files = [file for file in folder.iterdir() if file.name.removesuffix(".gz").endswith(f"{part}Images.txt")]
    if len(files) != 1:
        raise DataError(f"{folder} has no file *{part}Images.txt that lists the images of part {part!r}")
    return {line.strip() for line in read_lines(files[0]) if line.strip()}


def _table(path: Path) -> Iterator[tuple[str, str, str]]:
    """Lines `image.jpg#0`, tab, caption: where each stands, the image and the caption."""
    for number, line in enumerate(read_lines(path), start=1):
        name, tab, caption = line.partition("\t")
        if not line.strip():
            continue
        if not tab or not caption.strip():
            raise DataError(f"{path}, line {number}: no {'caption' if tab else 'tab'}; a line is image#0, tab, caption")
        yield f"{path}, line {number}", name.partition("#")[0], caption.strip()


def _commas(path: Path) -> Iterator[tuple[str, str, str]]:
    """Rows image,caption under a head that says so."""
    rows = csv.reader(read_lines(path))
    head = next(rows, [])
    if head[:2] != ["image", "caption"]:
        raise DataError(f"{path}, line 1: the head must be image,caption")
    for row in rows:
        if not row:
            continue
        if len(row) < 2 or not row[0] or not row[1].strip():
            raise DataError(f"{path}, line {rows.line_num}: a row is image,caption")
        yield f"{path}, line {rows.line_num}", row[0], row[1].strip()


def _places(folder: Path) -> list[Path]:
    """Where images may lie: a folder and those in it (`Images`, `Flicker8k_Dataset`, ...)."""
    return [folder, *sorted(each for each in folder.iterdir() if each.is_dir())]


def _image(places: Sequence[Path], name: str, where: str) -> Path:
    for place in places:
        if (place / name).is_file():
            return place / name
    raise DataError(f"{where}: there is no image {name} in {places[0]}, nor in a folder in it")
