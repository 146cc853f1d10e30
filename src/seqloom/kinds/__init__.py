"""The kinds of runs, one file each: the only list of them. Each is imported on first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import importing
from seqloom.runs.engine import load, train
from seqloom.runs.kind import kind_named, kind_names, register_modules

if TYPE_CHECKING:
    from seqloom.runs.comparison import compare, quickstart
    from seqloom.runs.plugins import register

register_modules(
    {
        "language": "seqloom.kinds.language:KIND",
        "ngram": "seqloom.kinds.ngram:KIND",
        "interpolation": "seqloom.kinds.interpolation:KIND",
        "seq2seq": "seqloom.kinds.seq2seq:KIND",
        "elmo": "seqloom.kinds.elmo:KIND",
        "bert": "seqloom.kinds.bert:KIND",
        "text-vae": "seqloom.kinds.text_vae:KIND",
        "captioner": "seqloom.kinds.captioner:KIND",
        "text-to-image": "seqloom.kinds.text_to_image:KIND",
        "text-to-patches": "seqloom.kinds.text_to_patches:KIND",
        "tagger": "seqloom.kinds.labelling:TAGGER",
        "classifier": "seqloom.kinds.labelling:CLASSIFIER",
        "word2vec": "seqloom.kinds.word2vec:KIND",
        "autoencoder": "seqloom.kinds.autoencoder:AUTOENCODER",
        "pca": "seqloom.kinds.autoencoder:PCA",
        "vae": "seqloom.kinds.vae:KIND",
        "mixture": "seqloom.kinds.mixture:KIND",
        "image-classifier": "seqloom.kinds.image_classifier:KIND",
        "gan": "seqloom.kinds.gan:KIND",
        "rbm": "seqloom.kinds.rbm:KIND",
        "dbn": "seqloom.kinds.dbn:KIND",
        "boltzmann": "seqloom.kinds.boltzmann:KIND",
    }
)

__all__ = ["compare", "kind_named", "kind_names", "load", "quickstart", "register", "train"]

__getattr__ = importing(
    __name__,
    {
        **dict.fromkeys(("compare", "quickstart"), "seqloom.runs.comparison"),
        "register": "seqloom.runs.plugins",
    },
)
