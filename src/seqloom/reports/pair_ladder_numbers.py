"""The numbers of a comparison of models of pairs: in columns, as a table for the terminal, and as JSON."""

from __future__ import annotations

from typing import Any

from rich.table import Table
from rich.text import Text

from seqloom.reports.columns import Column
from seqloom.reports.ladder_numbers import comparison_json, comparison_table
from seqloom.reports.pair_ladder import PairLadder


def pair_ladder_columns(ladder: PairLadder) -> list[Column]:
    """What is compared, one value per rung in each column."""
    rungs, beam = ladder.rungs, f"beam {ladder.beam}"
    return [
        Column("BLEU", beam, [rung.beam_bleu for rung in rungs], "higher", "BLEU\nbeam", decimals=1),
        Column("BLEU", "greedy", [rung.bleu for rung in rungs], "higher", "BLEU\ngreedy", decimals=1),
        Column("chrF", beam, [rung.chrf for rung in rungs], "higher", "chrF", decimals=1),
        Column("perplexity", "per token", [rung.perplexity for rung in rungs], "lower", "perpl."),
        Column("parameters", "", [rung.parameters for rung in rungs], "lower", "param-\neters", decimals=0),
        Column("training", "s", [rung.training_seconds for rung in rungs], "lower", "train\ns", decimals=1),
        Column("training", "tokens/s", [rung.training_speed for rung in rungs], "higher", "train\ntok/s", decimals=0),
        Column("greedy", "sentences/s", [rung.greedy_speed for rung in rungs], "higher", "greedy\n/s", decimals=0),
        Column(beam, "sentences/s", [rung.beam_speed for rung in rungs], "higher", "beam\n/s", decimals=0),
    ]


def pair_ladder_table(ladder: PairLadder) -> Table:
    """The comparison for the terminal, with the signature of its BLEU below."""
    table = comparison_table(ladder, pair_ladder_columns(ladder))
    table.collapse_padding = True  # leaves room for names of two words in 80 characters
    table.caption, table.caption_justify = Text(ladder.signature), "left"
    return table


def pair_ladder_json(ladder: PairLadder) -> dict[str, Any]:
    """The comparison as a JSON object."""
    return comparison_json(ladder)
