"""How two players fared against each other, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqloom.reports import html
from seqloom.reports.columns import Column
from seqloom.reports.curves import CURVES
from seqloom.reports.logged import Entries
from seqloom.reports.pictures import Pixels, inline_rows, inline_sheet
from seqloom.reports.style import series, styled

BINS = 40


def players_section(entries: Entries) -> html.Markup:
    """The training of two players: both losses, what the discriminator thinks, and the distance to real images."""
    return CURVES["players"].section(entries)


@styled()
def distributions_figure(panels: Mapping[str, Mapping[str, NDArray[np.float64]]]) -> Figure:
    """A histogram in each panel, by its title: how some kinds of images differ in one number."""
    figure = Figure(figsize=(9.4, 3.2))
    for place, (title, kinds) in enumerate(panels.items()):
        axes = figure.add_subplot(1, len(panels), place + 1)
        edges = np.histogram_bin_edges(np.concatenate(list(kinds.values())), BINS).tolist()
        for index, (name, values) in enumerate(kinds.items()):
            axes.hist(values, edges, color=series(index).color, label=name, histtype="step", density=True)
        axes.set_title(title, fontsize=10.5)
        axes.set_yticks([])
        axes.legend(fontsize=9)
    return figure


def growth_section(sheets: Mapping[int, Pixels]) -> html.Markup:
    """Samples of the same noise after some steps, each row of images after more of them than the one above."""
    if not sheets:
        return html.Markup()
    steps = ", ".join(f"{step:,}" for step in sheets)
    picture = inline_rows(list(sheets.values()), f"The same noise after {steps} steps, row by row")
    return html.section("Samples over training", picture)


def samples_section(samples: Pixels, classes: Sequence[str], counts: NDArray[np.int64] | None) -> html.Markup:
    """What it draws, and how the classes are spread as a classifier sees them."""
    parts = [inline_sheet(samples, f"{len(samples)} samples")]
    if counts is not None:
        share = Column("share", "%", (100 * counts / counts.sum()).tolist(), decimals=1)
        number = Column("samples", "", counts.tolist(), decimals=0)
        parts.append(html.table("Class", [(name, "") for name in classes], [number, share]))
        parts.append(html.element("p", "Classes as the run's judge sees them: a classifier of the same images."))
    return html.section("What it draws", *parts)
