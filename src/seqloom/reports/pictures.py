"""Many small images as one picture."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from html import escape
from io import BytesIO
from math import isqrt
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from seqloom.errors import UserError
from seqloom.files import atomic_file
from seqloom.reports.html import Markup, element

Pixels = NDArray[np.uint8]
GAP = 1  # pixels between two images
PAPER = 96  # their grey
WIDE = 800  # a sheet is at least so many pixels wide
MOST = 1 << 25  # pixels that a picture is not enlarged beyond: a sheet may be one image wide and a thousand high


def sheet(images: Pixels, columns: int | None = None) -> Image.Image:
    """Images [count, height, width] or [..., 3] in rows of `columns`; about as many rows as columns, if not given.
    Small ones are enlarged until the sheet can be looked at."""
    count, height, width = images.shape[:3]
    columns = columns or max(1, round(count**0.5))
    rows = -(-count // columns)
    paper = np.full((rows * (height + GAP) + GAP, columns * (width + GAP) + GAP, *images.shape[3:]), PAPER, np.uint8)
    for number, image in enumerate(images):
        top, left = (number // columns) * (height + GAP) + GAP, (number % columns) * (width + GAP) + GAP
        paper[top : top + height, left : left + width] = image
    return enlarged(Image.fromarray(paper), WIDE)


def enlarged(picture: Image.Image, width: int) -> Image.Image:
    """A picture at least `width` pixels wide: each of its pixels becomes a square of as many as that takes."""
    scale = max(1, min(-(-width // picture.width), isqrt(MOST // (picture.width * picture.height))))
    return picture.resize((picture.width * scale, picture.height * scale), Image.Resampling.NEAREST)


def save_sheet(images: Pixels, out: Path, columns: int | None = None) -> None:
    """Write a sheet as a file that appears whole: .png, or whatever else Pillow writes by the name's ending."""
    format = Image.registered_extensions().get(out.suffix.lower()) if out.suffix else "PNG"
    if format not in Image.SAVE:
        raise UserError(f"cannot draw into {out}: the name must end in one of .png, .jpg, .webp, .gif")
    with atomic_file(out) as temporary, open(temporary, "wb") as file:
        sheet(images, columns).save(file, format=format)


def inline_picture(picture: Image.Image, said: str) -> Markup:
    """A picture as HTML, in words for those who cannot see it."""
    buffer = BytesIO()
    picture.save(buffer, format="PNG")
    source = base64.b64encode(buffer.getvalue()).decode()
    return Markup(f'<img alt="{escape(said)}" src="data:image/png;base64,{source}">')


def inline_sheet(images: Pixels, title: str, columns: int | None = None) -> Markup:
    """A sheet as HTML."""
    return element("figure", inline_picture(sheet(images, columns), title), element("figcaption", title))


def inline_rows(rows: Sequence[Pixels], title: str) -> Markup:
    """Rows of as many images each as one sheet."""
    return inline_sheet(np.concatenate(rows), title, len(rows[0]))
