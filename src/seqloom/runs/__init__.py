"""Runs: train a configuration into a folder, load it back, compare several."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import importing
from seqloom.runs.adversarial import TrainedGan
from seqloom.runs.captions import Caption, TrainedCaptioner
from seqloom.runs.elmo import TrainedElmo
from seqloom.runs.energy import TrainedRbm
from seqloom.runs.energy_boltzmann import TrainedBoltzmann
from seqloom.runs.energy_network import TrainedDbn
from seqloom.runs.folder import RunFolder
from seqloom.runs.generation import Decoding, Generated, Score
from seqloom.runs.image_classifier import TrainedImageClassifier
from seqloom.runs.labelling import Classified, TrainedClassifier, TrainedTagger
from seqloom.runs.language import TrainedLanguageModel
from seqloom.runs.latent import TrainedAutoencoder
from seqloom.runs.latent_mixture import TrainedMixture
from seqloom.runs.latent_vae import TrainedVae
from seqloom.runs.loading import SequenceModel, Trained, load, load_sequence_model
from seqloom.runs.seq2seq import TrainedSeq2Seq, Translation
from seqloom.runs.text_to_image import TrainedTextToImage
from seqloom.runs.text_vae import TrainedTextVae
from seqloom.runs.vectors import load_vectors, start_embedding
from seqloom.runs.word_vectors import TrainedWordVectors

if TYPE_CHECKING:
    from seqloom.runs.caption_evaluation import CaptionEvaluation, evaluate_captions
    from seqloom.runs.comparison import LADDER, compare, quickstart
    from seqloom.runs.evaluation import PairEvaluation, evaluate_pairs, text_scores
    from seqloom.runs.gradients import gradient_norms
    from seqloom.runs.training import train

_HOMES = {  # imported on first use: whoever only loads a run does not wait for what draws reports
    "CaptionEvaluation": "seqloom.runs.caption_evaluation",
    "LADDER": "seqloom.runs.comparison",
    "PairEvaluation": "seqloom.runs.evaluation",
    "compare": "seqloom.runs.comparison",
    "evaluate_captions": "seqloom.runs.caption_evaluation",
    "evaluate_pairs": "seqloom.runs.evaluation",
    "gradient_norms": "seqloom.runs.gradients",
    "quickstart": "seqloom.runs.comparison",
    "text_scores": "seqloom.runs.evaluation",
    "train": "seqloom.runs.training",
}
__all__ = [
    "LADDER",
    "Caption",
    "CaptionEvaluation",
    "Classified",
    "Decoding",
    "Generated",
    "PairEvaluation",
    "RunFolder",
    "Score",
    "SequenceModel",
    "Trained",
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
    "Translation",
    "compare",
    "evaluate_captions",
    "evaluate_pairs",
    "gradient_norms",
    "load",
    "load_sequence_model",
    "load_vectors",
    "quickstart",
    "start_embedding",
    "text_scores",
    "train",
]


__getattr__ = importing(__name__, _HOMES)
