"""Which pixels of an image are known, where the others are to follow from them."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import numpy as np
from numpy.typing import NDArray
from PIL import Image, UnidentifiedImageError

from seqloom.data.images import look
from seqloom.errors import DataError, UserError

Half = Literal["top", "bottom", "left", "right"]
Mask = NDArray[np.bool_]
GREY = 128  # a mask's pixel is known from this brightness on


def half(side: Half, shape: tuple[int, int, int]) -> Mask:
    """One half of images of a shape (channels, height, width); of an odd number of rows, the top half has one less."""
    known = np.zeros(shape, bool)
    _, height, width = shape
    if side == "top":
        known[:, : height // 2] = True
    elif side == "bottom":
        known[:, height // 2 :] = True
    elif side == "left":
        known[:, :, : width // 2] = True
    else:
        known[:, :, width // 2 :] = True
    return known


def known_pixels(keep: str, shape: tuple[int, int, int], seed: int = 0) -> Mask:
    """The pixels that `keep` names: a half, a share of all pixels at random (`0.5`), or the light ones of a picture."""
    if keep in get_args(Half):
        known = half(keep, shape)  # type: ignore[arg-type]
    elif (share := _number(keep)) is not None:
        if not 0 <= share < 1:
            raise UserError(f"--keep {keep}: a share of the pixels is at least 0 and below 1")
        places = np.random.default_rng(seed).permutation(shape[1] * shape[2]).reshape(shape[1:])
        known = np.broadcast_to(places < round(share * places.size), shape)
    elif Path(keep).is_file():
        known = np.broadcast_to(_picture(Path(keep), shape), shape)
    else:
        raise UserError(f"--keep {keep}: give {', '.join(get_args(Half))}, a share like 0.5, or a picture as a mask")
    if known.all():
        raise UserError(f"--keep {keep} keeps all pixels: there is nothing to complete")
    return known


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _picture(path: Path, shape: tuple[int, int, int]) -> Mask:
    try:
        with Image.open(path) as picture:
            size = picture.size
            levels = np.asarray(picture.convert("L")) if size == (shape[2], shape[1]) else None
    except (UnidentifiedImageError, OSError, ValueError, SyntaxError) as error:
        raise DataError(f"{path} cannot be read as a picture: {error}") from None
    if levels is None:
        raise DataError(f"the mask {path} has {size[0]}×{size[1]} pixels, and the images have {look(shape)}")
    return np.asarray(levels >= GREY)
