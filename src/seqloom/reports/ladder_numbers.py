"""The numbers of a comparison: as a table for the terminal, and as JSON."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import numpy as np
from rich.table import Table
from rich.text import Text

from seqloom.reports.columns import Column
from seqloom.reports.ladder import Ladder, Rung
from seqloom.reports.numbers import compact
from seqloom.version import __version__

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
    spreads = [column.spreads() if column.decimals else _compact_spreads(column) for column in columns]
    winners = [column.best() for column in columns]
    for index, rung in enumerate(ladder.rungs):
        cells = [
            Text(text[index], style="bold green" if winner[index] else "").append(_below(apart[index]))
            for text, apart, winner in zip(texts, spreads, winners, strict=True)
        ]
        table.add_row(Text(rung.name, style="bold" if rung is best else ""), *cells)
    caption = "\n".join(filter(None, [ladder.shortfall(), ladder.caption, _seeds(ladder)]))
    if caption:
        table.caption, table.caption_justify = Text(caption), "left"
    return table


def _below(spread: str) -> Text:
    """A second line of a cell."""
    return Text(f"\n{spread}" if spread else "", style="dim")


def _compact_spreads(column: Column) -> list[str]:
    return [spread and f"±{compact(float(f'{deviation:.2g}'))}"
            for spread, deviation in zip(column.spreads(), column.deviations, strict=True)]  # fmt: skip


def _seeds(ladder: Ladder) -> str:
    """How to read the deviations and marks."""
    if ladder.seeds == 1:
        return ""
    said = f"±: standard deviation over {ladder.seeds} seeds"
    return f"{said}; ≈: not to be told from {ladder.best().name}" if ladder.alike() else said


def ladder_json(ladder: Ladder) -> dict[str, Any]:
    """All that was found. Of images, the number is given."""
    return {
        "title": ladder.title,
        **ladder.record,
        "rungs": [_rung(ladder, rung) for rung in ladder.rungs],
        "best": ladder.best().name,
        "seeds": ladder.seeds,
        "command": ladder.command,
        "version": __version__,
        "alike": [rung.name for rung in ladder.alike()],
    }


def _rung(ladder: Ladder, rung: Rung) -> dict[str, Any]:
    return {
        "name": rung.name,
        "description": rung.description,
        "folder": rung.folder,
        **rung.values,
        "bound": rung.bound,
        "deterministic": rung.deterministic,
        "seed": rung.seed,
        "deviations": {key: rung.deviation(key) for key in rung.values} if rung.runs else {},
        "p": ladder.chances.get(rung.name),
        "runs": [{"folder": run.folder, "seed": run.seed, **run.values} for run in rung.runs],
        "curve": [asdict(point) for point in rung.curve],
        "samples": len(rung.samples) if isinstance(rung.samples, np.ndarray) else rung.samples,
    }
