"""What there is to see of models by their energy: curves of their training, filters, samples, chains."""

from __future__ import annotations

from collections.abc import Mapping

from seqloom.reports import html
from seqloom.reports.curves import CURVES
from seqloom.reports.logged import Entries
from seqloom.reports.pictures import Pixels, inline_rows, inline_sheet


def energy_training_section(entries: Entries, heading: str = "Training") -> html.Markup:
    """The training of a machine, or of a stage of a network."""
    return CURVES["machine"].section(entries, heading)


def classifier_training_section(entries: Entries, heading: str) -> html.Markup:
    """The fine-tuning of a network as a classifier."""
    return CURVES["classifier"].section(entries, heading)


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
        title = f"Chains begun at noise, after {moments} steps of Gibbs sampling"
        parts.append(inline_rows(list(chains.values()), title))
    return html.section("What it draws", *parts)
