"""Assembled models: each gives sequences a probability and draws new ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import importing

if TYPE_CHECKING:
    from seqloom.models.autoregressive import Autoregressive
    from seqloom.models.interpolation import Interpolation
    from seqloom.models.language import LanguageModel, build_language_model
    from seqloom.models.ngram.model import NgramModel

_HOMES = {  # imported on first use: counting n-grams needs no torch, and a worker of Spark should not wait for it
    "Autoregressive": "seqloom.models.autoregressive",
    "Interpolation": "seqloom.models.interpolation",
    "LanguageModel": "seqloom.models.language",
    "NgramModel": "seqloom.models.ngram.model",
    "build_language_model": "seqloom.models.language",
}
__all__ = ["Autoregressive", "Interpolation", "LanguageModel", "NgramModel", "build_language_model"]


__getattr__ = importing(__name__, _HOMES)
