"""Pictures as a user has them, in files of any size, brought to the shape that a model reads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seqloom.data.images import SUFFIXES, load_images, open_picture
from seqloom.data.scenes import load_scenes
from seqloom.errors import DataError

SCENES = "scenes"


def open_pictures(source: str | Path) -> Iterator[tuple[str, Image.Image]]:
    """The pictures of `source`, each with its name: an image file, a folder of them, an idx file, `scenes` or
    `scenes:test`, or a bundled set of images."""
    path, (name, _, part) = Path(source), str(source).partition(":")
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        yield str(source), open_picture(path)
    elif path.is_dir():
        files = sorted(file for file in path.iterdir() if file.suffix.lower() in SUFFIXES)
        if not files:
            raise DataError(f"{source} has no PNG or JPEG files")
        for file in files:
            yield str(file), open_picture(file)
    elif path.suffix.lower() in SUFFIXES:
        raise DataError(f"{source}: there is no such image")
    else:
        images = load_scenes(part or "train")[0] if name == SCENES else load_images(source).images
        for number, image in enumerate(images):
            yield f"{source}#{number}", Image.fromarray(image)


def fitted(picture: Image.Image, width: int, height: int, colour: bool) -> NDArray[np.uint8]:
    """The largest part of these proportions in the middle of a picture, at this size: [height, width], or
    [height, width, 3] in colour."""
    picture = picture.convert("RGB" if colour else "L")
    if picture.size == (width, height):
        return np.asarray(picture)
    scale = min(picture.width / width, picture.height / height)
    left, top = (picture.width - scale * width) / 2, (picture.height - scale * height) / 2
    box = (left, top, left + scale * width, top + scale * height)
    return np.asarray(picture.resize((width, height), Image.Resampling.BILINEAR, box=box))
