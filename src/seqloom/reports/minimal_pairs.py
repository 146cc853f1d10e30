"""What the models of a ladder know of a language, phenomenon by phenomenon."""

from __future__ import annotations

from matplotlib.figure import Figure

from seqloom.metrics.minimal_pairs import CHANCE
from seqloom.reports import html
from seqloom.reports.columns import Column
from seqloom.reports.ladder import KNOWLEDGE, Ladder
from seqloom.reports.style import DASHED, MUTED, series, styled, svg

NOTE = (
    "Of two sentences that differ in little, one is good English and the other is not: how often does a model give the "
    "good one the higher probability? Whole sentences are compared, and a tie is wrong; who guesses is right in 50 %. "
    "With as few pairs as a phenomenon may have here, a few per cent more or less are chance."
)


def knowledge_section(ladder: Ladder) -> html.Markup:
    """A table and a picture of accuracies; nothing where no minimal pairs were judged."""
    if not ladder.phenomena:
        return html.Markup()
    pairs = sum(ladder.phenomena.values())
    rows = {
        KNOWLEDGE: ("all pairs", f"{pairs:,} pairs"),
        f"{KNOWLEDGE}_mean": ("mean over phenomena", f"{len(ladder.phenomena)} phenomena"),
        **{f"{KNOWLEDGE}: {name}": (_shown(name), f"{count:,} pairs") for name, count in ladder.phenomena.items()},
    }
    columns = [
        Column(
            rung.name,
            "% right",
            [rung.values[key] for key in rows],
            decimals=1,
            deviations=[rung.deviation(key) for key in rows],
        )
        for rung in ladder.rungs
    ]
    picture = svg(accuracies(ladder), "Accuracy on minimal pairs by phenomenon, one marker per model; chance at 50 %")
    return html.section(
        "What they know",
        html.table("Minimal pairs", list(rows.values()), columns),
        html.element("p", NOTE),
        html.figure(picture, "Further right is better. The dashed line is chance: tossing a coin."),
    )


@styled()
def accuracies(ladder: Ladder) -> Figure:
    """Accuracy of every rung on each phenomenon, a line of markers for each; chance at 50 %."""
    names = list(ladder.phenomena)
    figure = Figure(figsize=(8.6, 1.6 + 0.36 * len(names)))
    axes = figure.subplots()
    heights = range(len(names))
    axes.axvline(CHANCE, color=MUTED, **DASHED)
    for index, rung in enumerate(ladder.rungs):
        look = series(index)
        values = [rung.values[f"{KNOWLEDGE}: {name}"] for name in names]
        axes.plot(values, heights, color=look.color, marker=look.marker, linestyle="none", label=rung.name, alpha=0.85)
    axes.set_yticks(heights, [_shown(name) for name in names])
    axes.invert_yaxis()  # as in the table
    axes.set(xlabel="minimal pairs right, %", xlim=(-2, 102))
    axes.grid(axis="y", visible=True)
    axes.legend(loc="upper left", bbox_to_anchor=(1.01, 1.0))
    return figure


def _shown(phenomenon: str) -> str:
    return phenomenon.replace("_", " ")
