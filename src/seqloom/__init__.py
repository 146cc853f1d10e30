"""seqloom: generative models of sequences, from n-grams to Transformers.

>>> import seqloom
>>> model = seqloom.train("lstm", ["data.train=my.txt"], out="runs/mine")
>>> model.generate(["Once upon"])
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import importing
from seqloom.version import __version__

if TYPE_CHECKING:
    from seqloom.config import RunConfig, load_config, preset_names
    from seqloom.errors import SeqloomError, UserError
    from seqloom.runs import (
        TrainedAutoencoder,
        TrainedBoltzmann,
        TrainedCaptioner,
        TrainedClassifier,
        TrainedDbn,
        TrainedElmo,
        TrainedGan,
        TrainedImageClassifier,
        TrainedLanguageModel,
        TrainedMixture,
        TrainedRbm,
        TrainedSeq2Seq,
        TrainedTagger,
        TrainedTextToImage,
        TrainedTextVae,
        TrainedVae,
        TrainedWordVectors,
        compare,
        load,
        train,
    )

_HOMES = {  # imported on first use: torch takes over a second
    "train": "seqloom.runs",
    "load": "seqloom.runs",
    "compare": "seqloom.runs",
    "TrainedAutoencoder": "seqloom.runs",
    "TrainedBoltzmann": "seqloom.runs",
    "TrainedCaptioner": "seqloom.runs",
    "TrainedClassifier": "seqloom.runs",
    "TrainedDbn": "seqloom.runs",
    "TrainedElmo": "seqloom.runs",
    "TrainedGan": "seqloom.runs",
    "TrainedImageClassifier": "seqloom.runs",
    "TrainedLanguageModel": "seqloom.runs",
    "TrainedMixture": "seqloom.runs",
    "TrainedRbm": "seqloom.runs",
    "TrainedSeq2Seq": "seqloom.runs",
    "TrainedTagger": "seqloom.runs",
    "TrainedTextToImage": "seqloom.runs",
    "TrainedTextVae": "seqloom.runs",
    "TrainedVae": "seqloom.runs",
    "TrainedWordVectors": "seqloom.runs",
    "RunConfig": "seqloom.config",
    "load_config": "seqloom.config",
    "preset_names": "seqloom.config",
    "SeqloomError": "seqloom.errors",
    "UserError": "seqloom.errors",
}
__all__ = [
    "RunConfig",
    "SeqloomError",
    "TrainedAutoencoder",
    "TrainedBoltzmann",
    "TrainedCaptioner",
    "TrainedClassifier",
    "TrainedDbn",
    "TrainedElmo",
    "TrainedGan",
    "TrainedImageClassifier",
    "TrainedLanguageModel",
    "TrainedMixture",
    "TrainedRbm",
    "TrainedSeq2Seq",
    "TrainedTagger",
    "TrainedTextToImage",
    "TrainedTextVae",
    "TrainedVae",
    "TrainedWordVectors",
    "UserError",
    "__version__",
    "compare",
    "load",
    "load_config",
    "preset_names",
    "train",
]


__getattr__ = importing(__name__, _HOMES)
