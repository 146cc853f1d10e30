"""The numbers of a comparison: as a table for the terminal, and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from seqloom.reports.ladder import Ladder, Rung
from seqloom.reports.numbers import compact

ROOMY = 8  # columns that fit into 80 characters with two spaces between them


def ladder_table(ladder: Ladder) -> Table:
    """The best value of each column in bold green; it fits into 80 characters."""
    best, columns = ladder.best(), ladder.columns()
    table = Table(title=Text(ladder.title), title_justify="left", header_style="bold", pad_edge=False, box=None)
    table.collapse_padding = len(columns) > ROOMY
    table.add_column("model", overflow="fold")
    for column in columns:
        table.add_column(column.short, justify="right", no_wrap=True)
    texts = [column.texts() if column.decimals else list(map(compact, column.values)) for column in columns]
    winners = [column.best() for column in columns]
    for index, rung in enumerate(ladder.rungs):
        cells = [
            Text(text[index], style="bold green" if winner[index] else "")
            for text, winner in zip(texts, winners, strict=True)
        ]
        table.add_row(Text(rung.name, style="bold" if rung is best else ""), *cells)
    if ladder.caption:
        table.caption, table.caption_justify = Text(ladder.caption), "left"
    return table


def ladder_json(ladder: Ladder) -> dict[str, Any]:
    """All that was found. Of images, the number is given."""
    rungs = [_rung(rung) for rung in ladder.rungs]
    return {"title": ladder.title, **ladder.record, "rungs": rungs, "best": ladder.best().name}


def _rung(rung: Rung) -> dict[str, Any]:
    return {
        "name": rung.name,
        "description": rung.description,
        "folder": rung.folder,
        **rung.values,
        "bound": rung.bound,
        "curve": [asdict(point) for point in rung.curve],
        "samples": len(rung.samples) if isinstance(rung.samples, np.ndarray) else rung.samples,
    }
