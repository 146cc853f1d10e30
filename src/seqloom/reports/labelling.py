"""What a model that labels gets right, and what it takes for what."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from seqloom.metrics.labelling import Hits, confusion
from seqloom.reports import html
from seqloom.reports.columns import Column

MOST = 12  # labels in a table of confusions


def labelling_section(
    hits: Mapping[str, Hits],
    true: Sequence[Sequence[str]],
    found: Sequence[Sequence[str]],
    mixing_weights: Sequence[float],
) -> html.Markup:
    """Tables of precision, recall and F1 by label or type of chunk, of confusions, and of the weights of layers."""
    names = sorted(hits, key=lambda name: -hits[name].true)
    rows = [hits[name] for name in names]
    columns = [
        Column("precision", "%", [100 * each.precision for each in rows], None, "prec."),
        Column("recall", "%", [100 * each.recall for each in rows], None, "recall"),
        Column("F1", "%", [100 * each.f1 for each in rows], None, "F1"),
        Column("true", "", [each.true for each in rows], None, "true", decimals=0),
        Column("found", "", [each.found for each in rows], None, "found", decimals=0),
    ]
    parts = [html.section("What it finds", html.table("Label", [(name, "") for name in names], columns))]
    flat, flat_found = ([label for labels in several for label in labels] for several in (true, found))
    labels, table = confusion(flat, flat_found)
    if len(labels) <= MOST:
        counts = [
            Column(f"as {label}", "", table[:, place].tolist(), None, label, decimals=0)
            for place, label in enumerate(labels)
        ]
        parts.append(
            html.section("What it takes for what", html.table("True label", [(label, "") for label in labels], counts))
        )
    if mixing_weights:
        depths = [("words by themselves", "layer 0")]
        depths += [(f"LSTM layer {depth}", f"layer {depth}") for depth in range(1, len(mixing_weights))]
        weights = Column("weight", "", list(mixing_weights), None, "weight", decimals=3)
        parts.append(html.section("How the layers are mixed", html.table("Layer", depths, [weights])))
    return html.join(parts)
