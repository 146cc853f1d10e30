"""What a model that draws from text has to show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqloom.reports import html
from seqloom.reports.pictures import Pixels, inline_rows, inline_sheet

CODES = 256  # of a codebook that are shown


def drawn_section(captions: Sequence[str], real: Pixels, drawn: Sequence[Pixels]) -> html.Markup:
    """A row for each caption, the real image first, then drawn ones."""
    rows = [
        inline_sheet(np.concatenate([image[None], draws]), caption, columns=1 + len(draws))
        for caption, image, draws in zip(captions, real, drawn, strict=True)
    ]
    return html.section(
        "What it draws",
        html.element("p", "For each caption, which the model has not been trained on: a real image, then drawn ones."),
        *rows,
    )


def path_section(caption: str, path: Pixels) -> html.Markup:
    """One caption along a path between two codes."""
    return html.section(
        "What a caption leaves open", inline_sheet(path, f"{caption}, from one code to another", columns=len(path))
    )


def codebook_section(patches: Pixels, real: Pixels, put_back: Pixels) -> html.Markup:
    """Patches of a codebook, and what is left of real images in their codes."""
    shown = patches[:CODES]
    return html.section(
        "What it draws with",
        inline_sheet(shown, f"{len(shown)} of the {len(patches)} patches of the codebook"),
        inline_rows([real, put_back], "Real images, and what is left of them in their codes"),
    )
