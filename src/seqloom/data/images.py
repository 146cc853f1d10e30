"""Images as arrays: the bundled sets, idx files (as MNIST is published), and folders of PNG or JPEG files."""

from __future__ import annotations

import json
import math
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seqloom.data.cache import cached_array
from seqloom.data.corpora import find, resolve
from seqloom.errors import DataError
from seqloom.text.reading import open_bytes, room_for

SUFFIXES = (".png", ".jpg", ".jpeg")
FORMATS = ("PNG", "JPEG")  # whatever a file is called: for PostScript, Pillow would start another program
GREY_MODES = ("1", "L")
UNREADABLE = (
    Image.DecompressionBombError,
    Image.DecompressionBombWarning,  # from 89 million pixels on
    OSError,
    SyntaxError,  # damaged PNG data
    ValueError,  # PNG text that unpacks to too much
)
DEEP_MODES = ("I", "I;16", "I;16B", "I;16L", "F")  # more than 8 bits a pixel


@dataclass(frozen=True)
class Images(ABC):
    """Images of one size, all in memory: 8 bits a pixel, 0 black and 255 white."""

    images: NDArray[np.uint8]
    """[count, height, width] when grey, [count, height, width, 3] in colour."""

    def __len__(self) -> int:
        return len(self.images)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height and width of an image."""
        height, width, *channels = self.images.shape[1:]
        return (channels[0] if channels else 1), height, width

    @abstractmethod
    def chosen(self, numbers: NDArray[np.integer]) -> Self:
        """Some of the images, with what is known of them."""


@dataclass(frozen=True)
class ImageSet(Images):
    """Images that may have labels."""

    labels: NDArray[np.int64] | None
    """[count], the class of each image, where it is known."""
    classes: tuple[str, ...] = ()
    """What the labels mean, where it is known."""

    def chosen(self, numbers: NDArray[np.integer] | slice) -> ImageSet:
        labels = None if self.labels is None else self.labels[numbers]
        return ImageSet(self.images[numbers], labels, self.classes)

    def label(self, number: int) -> str | None:
        """The class of an image by its name, or by its number where classes have no names."""
        if self.labels is None:
            return None
        label = int(self.labels[number])
        return self.classes[label] if label < len(self.classes) else str(label)

    def first(self, count: int, after: int = 0) -> ImageSet:
        """`count` images, or as many as there are, after the first `after`."""
        return self.chosen(slice(after, after + count))

    def resized(self, size: int) -> ImageSet:
        """The same images with so many pixels in width and height."""
        if self.shape[1:] == (size, size):
            return self
        colour = self.images.ndim == 4
        pictures = [stretched(Image.fromarray(each), size, size, colour) for each in self.images]
        return replace(self, images=np.stack(pictures))


@dataclass(frozen=True)
class Picture:
    """An image of any size, by its name."""

    name: str
    image: Image.Image
    label: str | None = None
    """Its class, where it is known."""


def look(shape: tuple[int, int, int]) -> str:
    """The shape of an image, to be told."""
    channels, height, width = shape
    return f"{width}×{height} pixels, {'grey' if channels == 1 else 'in colour'}"


def load_images(source: str | Path) -> ImageSet:
    """Load `digits`, `fashion`, `fashion:test`, an idx file (gzipped or not), or a folder of PNG and JPEG files.

    The labels of an idx file stand beside it, under the same name with `labels` for `images` and `idx1` for `idx3`.
    A folder may have one subfolder per class, named after it.
    """
    path = Path(source)
    if path.is_dir():
        return _read_folder(path)
    if path.is_file():
        return _read_file(path)
    file = resolve(str(source), "images")
    corpus = find(str(source).partition(":")[0])
    if corpus.kind != "images":
        raise DataError(f"bundled corpus {corpus.name!r} holds {corpus.kind}, not images")
    return replace(_read_file(file), classes=tuple(corpus.classes))


def _read_file(path: Path) -> ImageSet:
    if path.suffix.lower() in SUFFIXES:
        raise DataError(f"{path} is a single image; name the folder it lies in")
    images = _read_idx(path)
    if images.ndim == 1:
        raise DataError(f"{path} holds labels; name the file with the images")
    if images.ndim != 3 and images.shape[3:] != (3,):
        raise DataError(f"{path} has the shape {images.shape}, not count × height × width (× 3)")
    beside = path.with_name(path.name.replace("images", "labels").replace("idx3", "idx1"))
    if beside == path or not beside.is_file():
        return ImageSet(images, None)
    labels = _read_idx(beside)
    if labels.shape != images.shape[:1]:
        raise DataError(f"{path} has {len(images)} images, but {beside.name} has labels of shape {labels.shape}")
    return ImageSet(images, labels.astype(np.int64))


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """An idx file: two zero bytes, the type (8: unsigned byte), the number of dimensions, their sizes, the bytes.

    No more is read than the header promises, and a byte: a small gzip file may unpack to more than any memory holds.
    """
    with open_bytes(path) as file:
        start = file.read(4)
        if len(start) < 4 or start[:2] != b"\0\0":
            raise DataError(f"{path} is neither an idx file (as MNIST's are) nor a folder of PNG or JPEG files")
        kind, dimensions = start[2:]
        if kind != 8:
            raise DataError(f"{path} is an idx file of type {kind:#04x}; only unsigned bytes (0x08) are images")
        if not 1 <= dimensions <= 4:
            raise DataError(f"{path} has {dimensions} dimensions, not count × height × width (× 3)")
        sizes = file.read(4 * dimensions)
        if len(sizes) < 4 * dimensions:
            raise DataError(f"{path} ends within its header; fetch it again")
        shape = tuple(np.frombuffer(sizes, ">u4").tolist())
        promised = math.prod(shape)
        if not promised:
            raise DataError(f"{path} has the shape {shape}: there is nothing in it")
        content = room_for(path, shape, np.uint8, promised)
        found = file.readinto(content.data)
        if found < promised:
            raise DataError(f"{path} has {found:,} bytes after its header, which promises {promised:,}; fetch it again")
        if file.read(1):
            raise DataError(f"{path} goes on after the {promised:,} bytes that its header promises; fetch it again")
    return content


def _read_folder(folder: Path) -> ImageSet:
    classes = _by_class(folder)
    pixels = read_pictures([file for files in classes.values() for file in files])
    if None in classes:
        return ImageSet(pixels, None)
    labels = np.repeat(np.arange(len(classes)), [len(files) for files in classes.values()])
    return ImageSet(pixels, labels, tuple(map(str, classes)))


def _by_class(folder: Path) -> dict[str | None, list[Path]]:
    """The pictures of a folder: all of no class, or those of each subfolder, which is named after their class."""
    if files := pictures_in(folder):
        return {None: files}
    subfolders = sorted(each for each in folder.iterdir() if each.is_dir())
    classes: dict[str | None, list[Path]] = {each.name: files for each in subfolders if (files := pictures_in(each))}
    if not classes:
        raise DataError(f"{folder} has no PNG or JPEG files, nor subfolders with any")
    return classes


def open_pictures(source: str | Path) -> Iterator[Picture]:
    """The pictures of `source` in the sizes that they have: an image file, a folder, an idx file, a bundled set."""
    path = Path(source)
    if path.is_dir():
        for label, files in _by_class(path).items():
            yield from (Picture(str(file), open_picture(file), label) for file in files)
    elif path.suffix.lower() in SUFFIXES:
        if not path.is_file():
            raise DataError(f"{source}: there is no such image")
        yield Picture(str(source), open_picture(path))
    else:
        images = load_images(source)
        for number, pixels in enumerate(images.images):
            yield Picture(f"{source}#{number}", Image.fromarray(pixels), images.label(number))


def pictures_in(folder: Path) -> list[Path]:
    """The PNG and JPEG files of a folder, by name."""
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())


def read_pictures(files: Sequence[Path], size: int | None = None, colour: bool | None = None) -> NDArray[np.uint8]:
    """Image files as one array.

    size: the pixels in width and height that all are brought to; without, they must have one size already.
    colour: three channels, or grey; without, three if any of the files has colours.
    """
    width, height, colour = _agreed(files, size, colour)
    pixels = np.empty(_shape(len(files), width, height, colour), np.uint8)
    for index, file in enumerate(files):
        pixels[index] = fitted(open_picture(file), width, height, colour)
    return pixels


def kept_pictures(files: Sequence[Path], size: int | None, colour: bool) -> NDArray[np.uint8]:
    """The same, mapped from the cache: photographs by the thousand need no memory, and are read and resized once."""
    stamps = [(str(file.resolve()), (about := file.stat()).st_size, about.st_mtime_ns) for file in files]
    recipe = json.dumps([stamps, size, colour])
    width, height, colour = _agreed(files, size, colour)
    rows = (fitted(open_picture(file), width, height, colour) for file in files)
    return cached_array("pictures", recipe, _shape(len(files), width, height, colour), np.uint8, rows)


def _shape(count: int, width: int, height: int, colour: bool) -> tuple[int, ...]:
    return (count, height, width, 3) if colour else (count, height, width)


def _agreed(files: Sequence[Path], size: int | None, colour: bool | None) -> tuple[int, int, bool]:
    """Width, height and colour of the one array that holds all pictures; no more is read of them than must be."""
    if size is not None and colour is not None:
        return size, size, colour
    headers = [_header(file) for file in files]
    width, height = headers[0][0] if size is None else (size, size)
    for file, (own, _) in zip(files, headers, strict=True):
        if size is None and own != (width, height):
            raise DataError(
                f"{file} is {own[0]}×{own[1]} pixels, but {files[0].name} is {width}×{height}; bring all images to one "
                "size first (of images with captions, data.size does)"
            )
    if colour is None:
        colour = any(mode not in GREY_MODES for _, mode in headers)
    return width, height, colour


def fitted(picture: Image.Image, width: int, height: int, colour: bool) -> NDArray[np.uint8]:
    """The largest part of these proportions in the middle of a picture, at this size: [height, width], or
    [height, width, 3] in colour. For a square, this is the shorter side brought to its size, and the middle cut out."""
    picture = picture.convert("RGB" if colour else "L")
    if picture.size == (width, height):
        return np.asarray(picture)
    scale = min(picture.width / width, picture.height / height)
    left, top = (picture.width - scale * width) / 2, (picture.height - scale * height) / 2
    box = (left, top, left + scale * width, top + scale * height)
    return np.asarray(picture.resize((width, height), Image.Resampling.BILINEAR, box=box))


def middle(pixels: NDArray[Any], margin: int) -> NDArray[Any]:
    """What is in the middle of images [count, height, width, ...]: `margin` pixels less in height and width."""
    height, width = (side - margin for side in pixels.shape[1:3])
    return pixels[:, margin // 2 : margin // 2 + height, margin // 2 : margin // 2 + width]


def stretched(picture: Image.Image, width: int, height: int, colour: bool) -> NDArray[np.uint8]:
    """A whole picture at this size, whatever its proportions: [height, width], or [height, width, 3] in colour."""
    picture = picture.convert("RGB" if colour else "L")
    return np.asarray(picture.resize((width, height), Image.Resampling.BILINEAR))


def open_picture(file: Path) -> Image.Image:
    """One image file, read to its end."""
    with _opened(file) as picture:
        picture.load()
        picture.info.pop("transparency", None)  # it is not looked at, and Pillow would warn of a palette's
        return picture


def _header(file: Path) -> tuple[tuple[int, int], str]:
    """Width and height of an image file, and Pillow's mode of it."""
    with _opened(file) as picture:
        return picture.size, picture.mode


@contextmanager
def _opened(file: Path) -> Iterator[Image.Image]:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            opened = Image.open(file, formats=FORMATS)
        with opened as picture:
            if picture.mode in DEEP_MODES:
                raise DataError(f"{file} has more than 8 bits a pixel (Pillow mode {picture.mode}); save it with 8")
            yield picture
    except UNREADABLE as error:
        raise DataError(f"{file} is not a readable PNG or JPEG image ({error}); remove it or save it anew") from error
