"""Minimal pairs in a ladder of models of text: what each knows of the language, beside how well it predicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from seqloom.data.minimal_pairs import MinimalPair
from seqloom.reports.ladder import KNOWLEDGE, Ladder, Measure, Rung
from seqloom.runs.capabilities import Scores, able

ACCURACY = Measure(KNOWLEDGE, "minimal pairs", "% right", "higher", "pairs\n%", decimals=1)


def with_knowledge(rung: Rung, trained: Any, pairs: Sequence[MinimalPair]) -> Rung:
    """A rung with the accuracy over all pairs, on average over phenomena, and of each."""
    found = able(trained, Scores).minimal_pairs(pairs).preferences
    values = {KNOWLEDGE: found.accuracy, f"{KNOWLEDGE}_mean": found.mean}
    values |= {f"{KNOWLEDGE}: {name}": accuracy for name, accuracy in found.accuracies.items()}
    return replace(rung, values={**rung.values, **values})


def with_phenomena(ladder: Ladder, pairs: Sequence[MinimalPair]) -> Ladder:
    """A ladder of such rungs: a column more, and what the pairs are about."""
    counts = Counter(pair.phenomenon for pair in pairs)
    phenomena = {name: counts[name] for name in sorted(counts)}
    first, *others = ladder.measures
    record = {**ladder.record, KNOWLEDGE: phenomena}
    return replace(ladder, measures=[first, ACCURACY, *others], phenomena=phenomena, record=record)
