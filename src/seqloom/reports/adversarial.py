"""How two players fared against each other, and what came of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from numpy.typing import NDArray

from seqloom.reports import html
from seqloom.reports.columns import Column
from seqloom.reports.pictures import inline_sheet
from seqloom.reports.style import nothing_to_show, series, styled, svg

Pixels = NDArray[np.uint8]

PANELS = {
    "Loss, nats": {"discriminator": "loss", "generator": "generator_loss"},
    "D, the chance of being real": {"of real images": "real_score", "of drawn images": "made_score"},
    "Fréchet distance": {"to held-out images": "valid_loss"},
}


def players_figure(entries: Sequence[Mapping[str, Any]]) -> Figure:
    """A run's `metrics.jsonl`: both losses, what the discriminator thinks, and the distance to real images."""
    with styled():
        figure = Figure(figsize=(9.4, 3.2), layout="constrained")
        drawn = False
        for place, (title, lines) in enumerate(PANELS.items()):
            axes = figure.add_subplot(1, len(PANELS), place + 1)
            for index, (name, key) in enumerate(lines.items()):
                points = [(entry["step"], entry[key]) for entry in entries if key in entry]
                if points:
                    drawn = True
                    x, y = zip(*points, strict=True)
                    look = series(index)
                    axes.plot(x, y, color=look.color, label=name, linewidth=1.3, marker="o" if len(x) == 1 else None)
            axes.set_title(title, fontsize=10.5)
            axes.set_xlabel("step")
            if len(lines) > 1 and drawn:
                axes.legend(frameon=False, fontsize=9)
    return figure if drawn else nothing_to_show("nothing was logged yet")


def players_section(entries: Sequence[Mapping[str, Any]]) -> html.Markup:
    """The training of two players."""
    curve = svg(players_figure(entries), "Losses, scores and Fréchet distance over the training steps")
    caption = (
        "With the best discriminator for a perfect generator all D are 1/2, and the losses 2 log 2 = 1.386 and "
        "log 2 = 0.693 (non-saturating). The losses do not say how good the samples are; the distance does."
    )
    return html.section("Training", html.figure(curve, caption))


def growth_section(sheets: Mapping[int, Pixels]) -> html.Markup:
    """Samples of the same noise after some steps, each row of images after more of them than the one above."""
    if not sheets:
        return html.Markup()
    steps = ", ".join(f"{step:,}" for step in sheets)
    images = np.concatenate(list(sheets.values()))
    columns = len(next(iter(sheets.values())))
    picture = html.Markup(inline_sheet(images, f"The same noise after {steps} steps, row by row", columns))
    return html.section("Samples over training", picture)


def samples_section(samples: Pixels, classes: Sequence[str], counts: NDArray[np.int64] | None) -> html.Markup:
    """What it draws, and how the classes are spread as a classifier sees them."""
    parts: list[html.Markup] = [html.Markup(inline_sheet(samples, f"{len(samples)} samples"))]
    if counts is not None:
        share = Column("share", "%", (100 * counts / counts.sum()).tolist(), None, "share", decimals=1)
        number = Column("samples", "", counts.tolist(), None, "samples", decimals=0)
        parts.append(html.table("Class", [(name, "") for name in classes], [number, share]))
        parts.append(html.element("p", "Classes as the run's judge sees them: a classifier of the same images."))
    return html.section("What it draws", *parts)
