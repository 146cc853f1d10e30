"""Assembled models: each gives sequences a probability and draws new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import importing

if TYPE_CHECKING:
    from seqloom.models.autoregressive import Autoregressive
    from seqloom.models.build import build_seq2seq
    from seqloom.models.conditional import Conditional
    from seqloom.models.interpolation import Interpolation
    from seqloom.models.language import LanguageModel, build_language_model
    from seqloom.models.ngram.model import NgramModel
    from seqloom.models.seq2seq import Seq2Seq, Source

_HOMES = {  # imported on first use: counting n-grams needs no torch, and a worker of Spark should not wait for it
    "Autoregressive": "seqloom.models.autoregressive",
    "Conditional": "seqloom.models.conditional",
    "Interpolation": "seqloom.models.interpolation",
    "LanguageModel": "seqloom.models.language",
    "NgramModel": "seqloom.models.ngram.model",
    "Seq2Seq": "seqloom.models.seq2seq",
    "Source": "seqloom.models.seq2seq",
    "build_language_model": "seqloom.models.language",
    "build_seq2seq": "seqloom.models.build",
}
__all__ = [
    "Autoregressive",
    "Conditional",
    "Interpolation",
    "LanguageModel",
    "NgramModel",
    "Seq2Seq",
    "Source",
    "build_language_model",
    "build_seq2seq",
]


__getattr__ = importing(__name__, _HOMES)
