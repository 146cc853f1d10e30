"""What there is to see of models by their energy: curves of their training, filters, samples, chains."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from seqloom.reports import html
from seqloom.reports.pictures import Pixels, inline_sheet
from seqloom.reports.style import PALETTE, nothing_to_show, scale_ticks, svg

CURVES = {  # what is logged, with its title and its sign: a log-likelihood is shown, not its negative
    "valid_loss": ("Log-likelihood, held-out images (rough)", -1),
    "loss": ("Reconstruction error, training", 1),
    "valid_reconstruction": ("Reconstruction error, held-out images", 1),
    "free_energy_gap": ("Free energy: held-out less training images", 1),
    "valid_pseudo_likelihood": ("Pseudo-likelihood (monitoring only)", 1),
    "learning_rate": ("Learning rate", 1),
}
CLASSIFIER_CURVES = {
    "valid_loss": ("Classification error, held-out images, %", 1),
    "loss": ("Cross-entropy, training", 1),
    "valid_cross_entropy": ("Cross-entropy, held-out images", 1),
    "learning_rate": ("Learning rate", 1),
}
COLUMNS = 2


def energy_curves(entries: Sequence[Mapping[str, Any]], curves: Mapping[str, tuple[str, int]] = CURVES) -> Figure:
    """A run's `metrics.jsonl`, a panel for each number that was logged."""
    points = {
        title: [(entry["step"], sign * entry[key]) for entry in entries if key in entry]
        for key, (title, sign) in curves.items()
    }
    points = {title: found for title, found in points.items() if found}
    if not points:
        return nothing_to_show("nothing was logged yet")
    rows = -(-len(points) // COLUMNS)
    figure = Figure(figsize=(9.4, 2.4 * rows), layout="constrained")
    for place, (title, found) in enumerate(points.items()):
        axes = figure.add_subplot(rows, COLUMNS, place + 1)
        steps, values = zip(*found, strict=True)
        axes.plot(steps, values, color=PALETTE[0], linewidth=1.4, marker="o" if len(steps) == 1 else None)
        axes.set_title(title, fontsize=10.5)
        scale_ticks(axes, "x", logarithmic=False)
        scale_ticks(axes, "y", logarithmic=False)
    return figure


def energy_training_section(entries: Sequence[Mapping[str, Any]], heading: str = "Training") -> html.Markup:
    """The training of a machine, or of a stage of a network."""
    curves = svg(energy_curves(entries), "Log-likelihood, reconstruction error and free-energy gap over the steps")
    caption = (
        "What was logged, by optimiser step. The log-likelihood comes from few temperatures of annealing: it serves to "
        "compare moments of one training."
    )
    return html.section(heading, html.figure(curves, caption))


def classifier_training_section(entries: Sequence[Mapping[str, Any]], heading: str) -> html.Markup:
    """The fine-tuning of a network as a classifier."""
    curves = svg(energy_curves(entries, CLASSIFIER_CURVES), "Classification error and cross-entropy over the steps")
    caption = "What was logged, by optimiser step. The weights with the fewest errors on held-out images are kept."
    return html.section(heading, html.figure(curves, caption))


def chains_section(
    filters: Pixels | None, samples: Pixels, chains: Mapping[int, Pixels], columns: int | None = None
) -> html.Markup:
    """What hidden units look for, images drawn, and chains on their way from noise: a row for each number of steps."""
    parts = []
    if filters is not None:
        parts.append(inline_sheet(filters, "Weights of hidden units: grey is 0, white excites, black inhibits"))
    parts.append(inline_sheet(samples, "Samples: means of the pixels at the end of chains", columns))
    if chains:
        moments = ", ".join(map(str, chains))
        together = np.concatenate(list(chains.values()))
        width = len(next(iter(chains.values())))
        parts.append(inline_sheet(together, f"Chains begun at noise, after {moments} steps of Gibbs sampling", width))
    return html.section("What it draws", *(html.Markup(part) for part in parts))
