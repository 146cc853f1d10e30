"""The report of a single run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom.files import write_text
from seqloom.reports import html
from seqloom.reports.columns import Column
from seqloom.reports.numbers import significant
from seqloom.reports.plots import training_curve
from seqloom.reports.style import svg

WRITES = "What it writes"


def write_run_report(
    path: Path,
    title: str,
    config_yaml: str,
    training: html.Markup,
    figures: Mapping[str, float],
    samples: Sequence[str] | html.Markup,
) -> None:
    """Write the page to `path`, atomically.

    `training` is what there is to show of how the model came about, `figures` are the run's numbers by name, `samples`
    what it wrote: texts, or an `outputs_section`.
    """
    parts = [html.facts((_words(name), _number(value)) for name, value in figures.items())] if figures else []
    parts.append(training)
    if samples:
        parts.append(samples if isinstance(samples, html.Markup) else _samples_section(samples))
    parts.append(html.section("Configuration", html.element("pre", html.code(config_yaml))))
    write_text(Path(path), html.page(title, *parts))


def training_section(entries: Sequence[Mapping[str, Any]]) -> html.Markup:
    """The training of a neural model: its `metrics.jsonl` as curves."""
    curve = svg(training_curve(entries), "Loss, learning rate, gradient norm and speed over the training steps")
    return html.section("Training", html.figure(curve, "What was logged, by optimiser step."))


def mixture_section(runs: Sequence[str], entry: Mapping[str, Any]) -> html.Markup:
    """The runs that an interpolation is made of, from the one entry of its `metrics.jsonl`."""
    columns = [
        Column("weight", "", entry["weights"], None, "weight", decimals=4),
        Column("perplexity", "held-out text, alone", entry["perplexities"], "lower", "perpl."),
    ]
    together = (
        f"Together: perplexity {significant(entry['perplexity'], 4)} on the text that the weights were fitted to."
    )
    return html.section("Mixture", html.table("Run", [(run, "") for run in runs], columns), html.element("p", together))


def outputs_section(examples: Sequence[tuple[str, str, str]]) -> html.Markup:
    """What a model of pairs makes of some sources: each with its reference and the model's output."""
    rows = [(source, [reference, output]) for source, reference, output in examples]
    return html.section(WRITES, html.side_by_side("Source", ["Reference", "Output"], rows)) if rows else html.Markup()


def _samples_section(samples: Sequence[str]) -> html.Markup:
    texts = [html.element("p", sample.strip(), class_="sample", dir="auto") for sample in samples]
    return html.section(WRITES, *texts)


def _words(name: str) -> str:
    """`bits_per_character` as a reader would write it; BLEU and chrF as they are."""
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:] if words.islower() else words


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else significant(value, 4)
