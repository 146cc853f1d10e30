"""What a model that draws from text has to show."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from seqloom.reports import html
from seqloom.reports.pictures import Pixels, inline_sheet


def drawn_section(captions: Sequence[str], real: Pixels, drawn: Sequence[Pixels], path: Pixels) -> html.Markup:
    """A row for each caption, the real image first, then drawn ones; and a path between two codes for the first."""
    rows = [
        inline_sheet(np.concatenate([image[None], draws]), caption, columns=1 + len(draws))
        for caption, image, draws in zip(captions, real, drawn, strict=True)
    ]
    return html.section(
        "What it draws",
        html.element("p", "For each caption, which the model has not been trained on: a real image, then drawn ones."),
        *rows,
        inline_sheet(path, f"{captions[0]}, from one code to another", columns=len(path)),
    )
