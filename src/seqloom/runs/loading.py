"""From a run folder to the trained model in it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from seqloom.errors import UserError
from seqloom.runs.adversarial import TrainedGan
from seqloom.runs.captions import TrainedCaptioner
from seqloom.runs.elmo import TrainedElmo
from seqloom.runs.energy import TrainedRbm
from seqloom.runs.energy_boltzmann import TrainedBoltzmann
from seqloom.runs.energy_network import TrainedDbn
from seqloom.runs.folder import RunFolder
from seqloom.runs.image_classifier import TrainedImageClassifier
from seqloom.runs.images import TrainedImageModel
from seqloom.runs.labelling import TrainedClassifier, TrainedTagger
from seqloom.runs.language import TrainedLanguageModel
from seqloom.runs.latent import TrainedAutoencoder
from seqloom.runs.latent_mixture import TrainedMixture
from seqloom.runs.latent_vae import TrainedVae
from seqloom.runs.seq2seq import TrainedSeq2Seq
from seqloom.runs.text_to_image import TrainedTextToImage
from seqloom.runs.text_vae import TrainedTextVae
from seqloom.runs.word_vectors import TrainedWordVectors

SequenceModel = TrainedLanguageModel | TrainedSeq2Seq
"""What generates and scores text."""
Trained = SequenceModel | TrainedCaptioner | TrainedTagger | TrainedClassifier | TrainedWordVectors | TrainedImageModel

LOADING: dict[str, Callable[[str | Path, str], Trained]] = {
    "language": TrainedLanguageModel.load,
    "ngram": TrainedLanguageModel.load,
    "interpolation": TrainedLanguageModel.load,
    "seq2seq": TrainedSeq2Seq.load,
    "elmo": TrainedElmo.load,
    "text-vae": TrainedTextVae.load,
    "captioner": TrainedCaptioner.load,
    "text-to-image": TrainedTextToImage.load,
    "tagger": TrainedTagger.load,
    "classifier": TrainedClassifier.load,
    "word2vec": TrainedWordVectors.load,
    "autoencoder": TrainedAutoencoder.load,
    "pca": TrainedAutoencoder.load,
    "vae": TrainedVae.load,
    "mixture": TrainedMixture.load,
    "image-classifier": TrainedImageClassifier.load,
    "gan": TrainedGan.load,
    "rbm": TrainedRbm.load,
    "dbn": TrainedDbn.load,
    "boltzmann": TrainedBoltzmann.load,
}


def load(path: str | Path, device: str = "auto") -> Trained:
    """The model of a run folder, with its best weights."""
    return LOADING[RunFolder.open(path).config().model.kind](path, device)


def load_sequence_model(path: str | Path, device: str = "auto") -> SequenceModel:
    """The same, where a model that generates and scores text is needed."""
    model = load(path, device)
    if isinstance(model, TrainedCaptioner):
        raise UserError(f"{path} is a captioner: it reads images, by `seqloom generate {path} --image FILE`")
    if not isinstance(model, SequenceModel):
        raise UserError(f"{path} is a model of kind {model.config.model.kind!r}: it neither generates nor scores text")
    return model
