"""The report of a single run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from seqloom.files import write_text
from seqloom.reports import html
from seqloom.reports.numbers import significant
from seqloom.reports.plots import training_curve
from seqloom.reports.style import svg


def write_run_report(
    path: Path,
    title: str,
    config_yaml: str,
    metrics_entries: Sequence[Mapping[str, Any]],
    figures: Mapping[str, float],
    samples: Sequence[str],
) -> None:
    """Write the page to `path`, atomically. `figures` are the run's numbers by name, `samples` what it wrote."""
    curve = svg(training_curve(metrics_entries), "Loss, learning rate, gradient norm and speed over the training steps")
    parts = [html.facts((_words(name), _number(value)) for name, value in figures.items())] if figures else []
    parts.append(html.section("Training", html.figure(curve, "What was logged, by optimiser step.")))
    if samples:
        texts = [html.element("p", sample.strip(), class_="sample", dir="auto") for sample in samples]
        parts.append(html.section("What it writes", *texts))
    parts.append(html.section("Configuration", html.element("pre", html.code(config_yaml))))
    write_text(Path(path), html.page(title, *parts))


def _words(name: str) -> str:
    """`bits_per_character` as a reader would write it."""
    words = name.replace("_", " ")
    return words[:1].upper() + words[1:]


def _number(value: float) -> str:
    return f"{value:,}" if isinstance(value, int) else significant(value, 4)
