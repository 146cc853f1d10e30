"""The report of a single run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom.files import write_text
from seqloom.reports import html
from seqloom.reports.columns import Column
from seqloom.reports.curves import CURVES
from seqloom.reports.logged import Entries, name_of
from seqloom.reports.numbers import figure_name, significant


def write_run_report(
    path: Path,
    title: str,
    lead: str,
    config_yaml: str,
    training: html.Markup,
    figures: Mapping[str, float],
    sections: Sequence[html.Markup],
    commands: Sequence[tuple[str, str]],
) -> None:
    """Write the page to `path`, atomically.

    `lead` says all in a sentence, `training` is what there is to show of how the model came about, `figures` are the
    run's numbers by name, `sections` what the model makes: texts, pictures, tables; `commands` what to do next, each
    with what to type.
    """
    parts = [html.lead(lead)]
    if figures:
        parts.append(html.facts((_words(name), _number(value)) for name, value in figures.items()))
    parts += [training, *sections]
    whole = [html.element("summary", "All of it, defaults included"), html.element("pre", html.code(config_yaml))]
    parts.append(html.section("Configuration", html.element("details", *whole)))
    parts.append(html.commands(commands))
    write_text(Path(path), html.page(title, *parts))


def training_section(entries: Entries) -> html.Markup:
    """The training of a neural model, by likelihood or by rewards."""
    return CURVES[name_of(entries)].section(entries)


def interpolation_section(runs: Sequence[str], entry: Mapping[str, Any]) -> html.Markup:
    """The runs that an interpolation is made of, from the one entry of its `metrics.jsonl`."""
    columns = [
        Column("weight", "", entry["weights"], decimals=4),
        Column("perplexity", "held-out text, alone", entry["perplexities"], "lower"),
    ]
    table = html.table("Run", [(run, "") for run in runs], columns)
    perplexity = significant(entry["perplexity"], 4)
    together = f"Together: perplexity {perplexity} on the text that the weights were fitted to."
    return html.section("Interpolation", table, html.element("p", together))


def outputs_section(examples: Sequence[tuple[str, str, str]]) -> html.Markup:
    """What a model of pairs makes of some sources: each with its reference and the model's output."""
    rows = [(source, [reference, output]) for source, reference, output in examples]
    table = html.side_by_side("Source", ["Reference", "Output"], rows)
    return html.section(html.WRITES, table) if rows else html.Markup()


def _words(name: str) -> str:
    """`bits_per_character` as a reader would write it; BLEU and chrF as they are."""
    words = figure_name(name)
    return words[:1].upper() + words[1:] if words.islower() else words


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else significant(value, 4)
