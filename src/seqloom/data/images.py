"""Images as arrays: the bundled sets, idx files (as MNIST is published), and folders of PNG or JPEG files."""

from __future__ import annotations

import gzip
import zlib
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from seqloom.data.corpora import find, resolve
from seqloom.errors import DataError

SUFFIXES = (".png", ".jpg", ".jpeg")
GREY_MODES = ("1", "L")
DEEP_MODES = ("I", "I;16", "I;16B", "I;16L", "F")  # more than 8 bits a pixel
DIGIT_LEVELS = 16  # the darkest of the bundled digits


@dataclass(frozen=True)
class ImageSet:
    """Images of one size, all in memory: 8 bits a pixel, 0 black and 255 white."""

    images: NDArray[np.uint8]
    """[count, height, width] when grey, [count, height, width, 3] in colour."""
    labels: NDArray[np.int64] | None
    """[count], the class of each image, where it is known."""
    classes: tuple[str, ...] = ()
    """What the labels mean, where it is known."""

    def __len__(self) -> int:
        return len(self.images)

    def first(self, count: int, after: int = 0) -> ImageSet:
        """`count` images, or as many as there are, after the first `after`."""
        chosen = slice(after, after + count)
        return ImageSet(self.images[chosen], None if self.labels is None else self.labels[chosen], self.classes)


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
    file = resolve(str(source))
    corpus = find(str(source).partition(":")[0])
    if corpus.kind != "images":
        raise DataError(f"bundled corpus {corpus.name!r} holds {corpus.kind}, not images")
    loaded = _read_file(file)
    return ImageSet(loaded.images, loaded.labels, corpus.classes)


def _read_file(path: Path) -> ImageSet:
    if ".csv" in path.suffixes:
        return _read_digits(path)
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


def _read_digits(path: Path) -> ImageSet:
    """Rows of 64 grey levels from 0 (paper) to 16 (ink) and the digit, separated by commas."""
    try:
        rows = np.loadtxt(path, dtype=np.int64, delimiter=",", ndmin=2)  # unpacks .gz by itself
    except (ValueError, OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} is not a table of whole numbers ({error})") from error
    pixels, labels = rows[:, :-1], rows[:, -1]
    if pixels.shape[1] != 64 or pixels.min() < 0 or pixels.max() > DIGIT_LEVELS:
        raise DataError(f"{path} must have rows of 64 grey levels from 0 to {DIGIT_LEVELS}, then the class")
    levels = np.round(pixels * (255 / DIGIT_LEVELS)).astype(np.uint8)
    return ImageSet(levels.reshape(-1, 8, 8), labels)


def _read_idx(path: Path) -> NDArray[np.uint8]:
    """An idx file: two zero bytes, the type (8: unsigned byte), the number of dimensions, their sizes, the bytes."""
    with open(path, "rb") as file:
        zipped = file.read(2) == b"\x1f\x8b"
    try:
        with gzip.open(path) if zipped else open(path, "rb") as file:
            content = bytearray(file.read())  # not bytes: the array made of it can be written to
    except (OSError, EOFError, zlib.error) as error:
        raise DataError(f"{path} cannot be read to its end ({error}); fetch it again") from error
    if len(content) < 4 or content[:2] != b"\0\0":
        raise DataError(f"{path} is neither an idx file (as MNIST's are) nor a folder of PNG or JPEG files")
    kind, dimensions = content[2], content[3]
    if kind != 8:
        raise DataError(f"{path} is an idx file of type {kind:#04x}; only unsigned bytes (0x08) are images")
    header = 4 + 4 * dimensions
    if dimensions == 0 or len(content) < header:
        raise DataError(f"{path} ends within its header; fetch it again")
    shape = tuple(int(size) for size in np.frombuffer(content, ">u4", count=dimensions, offset=4))
    promised = header + int(np.prod(shape, dtype=object))  # of Python's integers: a damaged header may say anything
    if len(content) != promised:
        raise DataError(f"{path} has {len(content)} bytes where its header promises {promised}; fetch it again")
    return np.frombuffer(content, np.uint8, offset=header).reshape(shape)


def _read_folder(folder: Path) -> ImageSet:
    files = _images_in(folder)
    if files:
        return ImageSet(_read_pictures(files), None)
    classes = {sub.name: found for sub in sorted(folder.iterdir()) if sub.is_dir() and (found := _images_in(sub))}
    if not classes:
        raise DataError(f"{folder} has no PNG or JPEG files, nor subfolders with any")
    labels = np.repeat(np.arange(len(classes)), [len(found) for found in classes.values()])
    return ImageSet(_read_pictures([file for found in classes.values() for file in found]), labels, tuple(classes))


def _images_in(folder: Path) -> list[Path]:
    return sorted(file for file in folder.iterdir() if file.suffix.lower() in SUFFIXES and file.is_file())


def _read_pictures(files: list[Path]) -> NDArray[np.uint8]:
    """Headers first, so that sizes are known to agree before the one array that holds everything is made."""
    headers = [_header(file) for file in files]
    width, height = headers[0][0]
    for file, (size, _) in zip(files, headers, strict=True):
        if size != (width, height):
            raise DataError(
                f"{file} is {size[0]}×{size[1]} pixels, but {files[0].name} is {width}×{height}; "
                f"bring all images to one size first"
            )
    colour = any(mode not in GREY_MODES for _, mode in headers)
    pixels = np.empty((len(files), height, width, 3) if colour else (len(files), height, width), np.uint8)
    for index, file in enumerate(files):
        pixels[index] = np.asarray(open_picture(file).convert("RGB" if colour else "L"))
    return pixels


def open_picture(file: Path) -> Image.Image:
    """One image file, read to its end."""
    _header(file)
    try:
        with Image.open(file) as picture:
            picture.load()
            return picture
    except (OSError, SyntaxError, ValueError) as error:  # Pillow reports damaged PNG data as a SyntaxError
        raise _unreadable(file, error) from error


def _header(file: Path) -> tuple[tuple[int, int], str]:
    try:
        with Image.open(file) as picture:
            size, mode = picture.size, picture.mode
    except (UnidentifiedImageError, Image.DecompressionBombError, OSError, SyntaxError) as error:
        raise _unreadable(file, error) from error
    if mode in DEEP_MODES:
        raise DataError(f"{file} has more than 8 bits a pixel (Pillow mode {mode}); save it with 8")
    return size, mode


def _unreadable(file: Path, error: Exception) -> DataError:
    return DataError(f"{file} is not a readable PNG or JPEG image ({error}); remove it or save it anew")
