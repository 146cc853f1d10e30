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
    predicted: Sequence[Sequence[str]],
    mixing_weights: Sequence[float],
) -> html.Markup:
    """Tables of precision, recall and F1 by label or type of chunk, of confusions, and of the weights of layers."""
    names = sorted(hits, key=lambda name: -hits[name].true)
    rows = [hits[name] for name in names]
    columns = [
        Column("precision", "%", [100 * each.precision for each in rows]),
        Column("recall", "%", [100 * each.recall for each in rows]),
        Column("F1", "%", [100 * each.f1 for each in rows]),
        Column("true", "", [each.true for each in rows], decimals=0),
        Column("predicted", "", [each.predicted for each in rows], decimals=0),
    ]
    parts = [html.section("What it finds", html.table("Label", [(name, "") for name in names], columns))]
    all_true, all_predicted = ([label for labels in several for label in labels] for several in (true, predicted))
    labels, table = confusion(all_true, all_predicted)
    if len(labels) <= MOST:
        counts = zip(labels, table.T.tolist(), strict=True)
        columns = [Column(f"as {label}", "", several, decimals=0) for label, several in counts]
        confusions = html.table("True label", [(label, "") for label in labels], columns)
        parts.append(html.section("What it takes for what", confusions))
    if mixing_weights:
        depths = [("words by themselves", "layer 0")]
        depths += [(f"layer {depth}", "in context") for depth in range(1, len(mixing_weights))]
        weights = Column("weight", "", list(mixing_weights), decimals=3)
        parts.append(html.section("How the layers are mixed", html.table("Layer", depths, [weights])))
    return html.join(parts)
