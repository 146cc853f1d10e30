"""Runs: train a configuration into a folder, load it back, compare several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import importing
from seqloom.runs.folder import RunFolder
from seqloom.runs.language import Decoding, Generated, Score, TrainedLanguageModel

if TYPE_CHECKING:
    from seqloom.runs.comparison import LADDER, compare, quickstart
    from seqloom.runs.gradients import gradient_norms
    from seqloom.runs.training import train

load = TrainedLanguageModel.load

_HOMES = {  # imported on first use: whoever only loads a run does not wait for what draws reports
    "LADDER": "seqloom.runs.comparison",
    "compare": "seqloom.runs.comparison",
    "gradient_norms": "seqloom.runs.gradients",
    "quickstart": "seqloom.runs.comparison",
    "train": "seqloom.runs.training",
}
__all__ = [
    "LADDER",
    "Decoding",
    "Generated",
    "RunFolder",
    "Score",
    "TrainedLanguageModel",
    "compare",
    "gradient_norms",
    "load",
    "quickstart",
    "train",
]


__getattr__ = importing(__name__, _HOMES)
