"""Images with captions: the bundled scenes, folders as those of Flickr8k, and records that name image files."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seqloom.data.corpora import SCENES, check_lasting, missing
from seqloom.data.images import Images, Picture, fitted, kept_pictures, middle, open_pictures
from seqloom.data.scenes import load_scenes
from seqloom.errors import DataError, quoted
from seqloom.text.reading import is_jsonl, read_columns, read_lines, read_records

FORMATS = (
    "`scenes`, a folder with a captions file (image,caption in captions.txt; or image.jpg#0, tab, caption in "
    "*.token.txt), a .jsonl file with image and caption, or a .tsv file of image, tab, caption"
)

_NUMBERED = re.compile(r"#\d+$")
Named = TypeVar("Named", str, Path)

Row = tuple[str, str, str]
"""Where a caption stands, the name of its image, and the caption."""


@dataclass(frozen=True)
class CaptionedImages(Images):
    """Images, or what another encoder says of them, with a caption or several each."""

    images: NDArray[Any]
    """As above; or features, which are pictures of many channels: [count, rows, columns, size]."""
    captions: tuple[tuple[str, ...], ...]
    """Of each image."""

    def chosen(self, numbers: NDArray[np.integer]) -> CaptionedImages:
        return CaptionedImages(self.images[numbers], tuple(self.captions[number] for number in numbers.tolist()))

    def without(self, margin: int) -> CaptionedImages:
        """The same without so many pixels of height and width around the middle."""
        return CaptionedImages(middle(self.images, margin), self.captions) if margin else self


def load_captions(source: str, size: int | None = None, colour: bool = False) -> CaptionedImages:
    """Load `scenes` (or `scenes:valid`, `scenes:test`), a folder, a part of one (`flickr8k:train`), a .jsonl or .tsv
    file.

    size: bring all images to so many pixels in width and height: the shorter side becomes as long, and the middle is
    cut out. Without, they must have one size already.
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
    folder, rows = caption_rows(source)
    by_file = _grouped(source, rows, _in_folder(folder))
    return CaptionedImages(kept_pictures(list(by_file), size, colour), tuple(map(tuple, by_file.values())))


def load_featured(source: str, features: str) -> CaptionedImages:
    """The captions of a source, as above, with the features of their images; no image is looked for."""
    from seqloom.data.image_features import FeatureFile  # with torch, which others need not wait for

    if source.partition(":")[0] == SCENES and not Path(SCENES).exists():
        raise DataError(f"{source} are drawn when they are needed, and have no files to name features after")
    by_name = _grouped(source, caption_rows(source)[1], lambda _, name: name)
    try:
        return CaptionedImages(FeatureFile(features).stacked(list(by_name)), tuple(map(tuple, by_name.values())))
    except DataError as error:
        raise error.located("data.features") from error


def caption_rows(source: str) -> tuple[Path, Iterator[Row]]:
    """The folder of a source, and its captions."""
    name, _, part = source.partition(":")
    path = Path(source)
    if path.is_file():
        if is_jsonl(path):
            return path.parent, _records(path)
        if path.name.removesuffix(".gz").endswith(".tsv"):
            return path.parent, _table(path)
        raise DataError(f"{source} is no file of images with captions: give {FORMATS}")
    folder = path if path.is_dir() else Path(name)
    check_lasting(path)
    if not folder.is_dir():
        raise missing(source, f"no such folder or file; images with captions are {FORMATS}")
    return folder, _folder(folder, "" if path.is_dir() else part)


def _grouped(source: str, rows: Iterable[Row], image: Callable[[str, str], Named]) -> dict[Named, list[str]]:
    """The captions of each image, which is found by where it is named, and its name."""
    captions: dict[Named, list[str]] = {}
    for where, name, caption in rows:
        captions.setdefault(image(where, name), []).append(caption)
    if not captions:
        raise DataError(f"{source} has no captions")
    return captions


def _in_folder(folder: Path) -> Callable[[str, str], Path]:
    """Finds the files of images in a folder or in one of those in it (`Images`, `Flicker8k_Dataset`)."""
    places = [folder, *sorted(each for each in folder.iterdir() if each.is_dir())]

    @cache
    def file(name: str) -> Path | None:
        return next((place / name for place in places if _is_file(place / name)), None)

    def found(where: str, name: str) -> Path:
        if (there := file(name)) is None:
            raise DataError(f"{where}: there is no image {quoted(name)} in {folder}, nor in a folder in it")
        return there

    return found


def _is_file(path: Path) -> bool:
    try:
        return path.is_file()
    except OSError:  # the name is too long to be any file's
        return False


def open_pictures_or_scenes(source: str | Path) -> Iterator[Picture]:
    """The pictures of `source`: `scenes` or `scenes:test`, or what `open_pictures` takes."""
    name, _, part = str(source).partition(":")
    if name != SCENES or Path(name).exists():
        yield from open_pictures(source)
        return
    for number, image in enumerate(load_scenes(part or "train")[0]):
        yield Picture(f"{source}#{number}", Image.fromarray(image))


# ---------------------------------------------------------------------------------------------------------- formats


def _records(path: Path) -> Iterator[Row]:
    for record in read_records(path, "image", "caption"):
        captions = record.texts("caption")
        if not captions or not all(map(str.strip, captions)):
            raise DataError(f"{record.where}: a caption is blank, or there is none")
        for caption in captions:
            yield record.where, record.text("image"), caption


def _folder(folder: Path, part: str) -> Iterator[Row]:
    files = sorted(file for file in folder.iterdir() if _holds_captions(file))
    if len(files) != 1:
        said = "no captions file" if not files else "several captions files: " + ", ".join(file.name for file in files)
        raise DataError(f"{folder} has {said}; images with captions are {FORMATS}")
    listed = _listed(folder, part) if part else None
    for where, image, caption in _table(files[0]) if ".token." in files[0].name else _commas(files[0]):
        if listed is None or image in listed:
            yield where, image, caption


def _holds_captions(file: Path) -> bool:
    name = file.name.removesuffix(".gz")
    return file.is_file() and (name in ("captions.txt", "captions.csv") or name.endswith(".token.txt"))


def _listed(folder: Path, part: str) -> set[str]:
    ending = f"{part}Images.txt"
    files = [file for file in folder.iterdir() if file.is_file() and file.name.removesuffix(".gz").endswith(ending)]
    if len(files) != 1:
        raise DataError(f"{folder} has no file *{ending} that lists the images of part {part!r}")
    return {line.strip() for line in read_lines(files[0]) if line.strip()}


def _table(path: Path) -> Iterator[Row]:
    """Lines `image.jpg#0` or `image.jpg`, tab, caption."""
    for where, image, caption in read_columns(path, "image#0", "caption"):
        yield where, _NUMBERED.sub("", image), caption


def _commas(path: Path) -> Iterator[Row]:
    """Rows image,caption under a head that says so."""
    rows = _csv_rows(path)
    _, head = next(rows, ("", []))
    if head[:2] != ["image", "caption"]:
        raise DataError(f"{path}, line 1: the head must be image,caption")
    for where, row in rows:
        if len(row) < 2 or not row[0] or not row[1].strip():
            raise DataError(f"{where}: a row is image,caption")
        yield where, row[0], row[1].strip()


def _csv_rows(path: Path) -> Iterator[tuple[str, list[str]]]:
    """Where a row ends, and its fields; blank rows are left out."""
    rows = csv.reader(read_lines(path))
    try:
        yield from ((f"{path}, line {rows.line_num}", row) for row in rows if row)
    except csv.Error as error:
        raise DataError(f"{path}, line {rows.line_num}: {error}; does a quotation mark lack its partner?") from None
