"""The numbers of a comparison: in columns, as a table for the terminal, and as JSON."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from rich.table import Table
from rich.text import Text

from seqloom.reports.columns import Column
from seqloom.reports.ladder import Ladder, RungResult
from seqloom.reports.numbers import compact
from seqloom.reports.pair_ladder import PairLadder, PairRung


def ladder_columns(ladder: Ladder) -> list[Column]:
    """What is compared, one value per rung in each column."""
    rungs = ladder.rungs
    columns = [
        Column("perplexity", "per token", [rung.perplexity for rung in rungs], "lower", "perpl.\n/token"),
        Column("perplexity", "per word", [rung.word_perplexity for rung in rungs], "lower", "perpl.\n/word"),
        Column("bits", "per character", [rung.bits_per_character for rung in rungs], "lower", "bits\n/char."),
        Column("parameters", "", [rung.parameters for rung in rungs], "lower", "param-\neters", decimals=0),
        Column("training", "s", [rung.training_seconds for rung in rungs], "lower", "train\ns", decimals=1),
        Column("training", "tokens/s", [rung.training_speed for rung in rungs], "higher", "train\ntok/s", decimals=0),
        Column("scoring", "tokens/s", [rung.scoring_speed for rung in rungs], "higher", "score\ntok/s", decimals=0),
        Column(
            "generation", "tokens/s", [rung.generation_speed for rung in rungs], "higher", "write\ntok/s", decimals=0
        ),
    ]
    if any(rung.unknown != ladder.unknown for rung in rungs):  # then the perplexities are not quite comparable
        unknown = [rung.unknown for rung in rungs]
        columns.insert(3, Column("unknown", "tokens", unknown, None, "un-\nknown", decimals=0))
    return columns


def ladder_table(ladder: Ladder) -> Table:
    """The comparison for the terminal."""
    return comparison_table(ladder, ladder_columns(ladder))


def ladder_json(ladder: Ladder) -> dict[str, Any]:
    """The comparison as a JSON object."""
    return comparison_json(ladder)


def comparison_table(ladder: Ladder | PairLadder, columns: Sequence[Column]) -> Table:
    """The best value of each column in bold green; it fits into 80 characters."""
    best = ladder.best()
    table = Table(title=Text(ladder.title), title_justify="left", header_style="bold", pad_edge=False, box=None)
    table.add_column("model", overflow="fold")
    for column in columns:
        table.add_column(column.short, justify="right", no_wrap=True)
    texts = [column.texts() if column.decimals else list(map(compact, column.values)) for column in columns]
    winners = [column.best() for column in columns]
    rungs: Sequence[RungResult | PairRung] = ladder.rungs
    for index, rung in enumerate(rungs):
        cells = [
            Text(text[index], style="bold green" if winner[index] else "")
            for text, winner in zip(texts, winners, strict=True)
        ]
        table.add_row(Text(rung.name, style="bold" if rung is best else ""), *cells)
    return table


def comparison_json(ladder: Ladder | PairLadder) -> dict[str, Any]:
    """All that was found; null stands for a number that is infinite or undefined, as JSON has neither."""
    return {**_plain(asdict(ladder)), "best": ladder.best().name}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
