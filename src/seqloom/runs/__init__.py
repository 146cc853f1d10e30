"""Runs: train a configuration into a folder, load it back, compare several."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seqloom.runs.folder import RunFolder
from seqloom.runs.language import Decoding, Generated, Score, TrainedLanguageModel

if TYPE_CHECKING:
    from seqloom.runs.comparison import LADDER, compare, quickstart
    from seqloom.runs.gradients import gradient_norms
    from seqloom.runs.training import train

load = TrainedLanguageModel.load

_HOMES = {  # imported on first use: whoever only loads a run does not wait for what draws reports
    "LADDER": "comparison",
    "compare": "comparison",
    "gradient_norms": "gradients",
    "quickstart": "comparison",
    "train": "training",
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


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"seqloom.runs.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'seqloom.runs' has no attribute {name!r}")
