"""Runs: train a configuration into a folder, load it back, compare several."""

from seqloom.runs.compare import LADDER, compare, quickstart
from seqloom.runs.folder import RunFolder
from seqloom.runs.gradients import gradient_norms
from seqloom.runs.language import Decoding, Generated, Score, TrainedLanguageModel
from seqloom.runs.training import train

load = TrainedLanguageModel.load

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
