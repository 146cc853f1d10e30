"""From a run folder to the trained model in it."""

from __future__ import annotations

from pathlib import Path

from seqloom.config.schema import Seq2SeqConfig
from seqloom.runs.folder import RunFolder
from seqloom.runs.language import TrainedLanguageModel
from seqloom.runs.seq2seq import TrainedSeq2Seq

Trained = TrainedLanguageModel | TrainedSeq2Seq


def load(path: str | Path, device: str = "auto") -> Trained:
    """The model of a run folder, with its best weights."""
    pairs = isinstance(RunFolder.open(path).config().model, Seq2SeqConfig)
    return TrainedSeq2Seq.load(path, device) if pairs else TrainedLanguageModel.load(path, device)
