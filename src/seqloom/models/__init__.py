"""Assembled models: each gives sequences a probability and draws new ones."""

from seqloom.models.autoregressive import Autoregressive
from seqloom.models.language import LanguageModel, build_language_model

__all__ = ["Autoregressive", "LanguageModel", "build_language_model"]
