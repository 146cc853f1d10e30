"""Assembled models: each gives sequences a probability and draws new ones."""

from seqloom.models.autoregressive import Autoregressive
from seqloom.models.language import LanguageModel, build_language_model
from seqloom.models.ngram import NgramModel

__all__ = ["Autoregressive", "LanguageModel", "NgramModel", "build_language_model"]
