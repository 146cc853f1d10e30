"""Assembled models: each gives sequences a probability and draws new ones."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from seqloom.models.autoregressive import Autoregressive
    from seqloom.models.interpolation import Interpolation
    from seqloom.models.language import LanguageModel, build_language_model
    from seqloom.models.ngram.model import NgramModel

_HOMES = {  # imported on first use: counting n-grams needs no torch, and a worker of Spark should not wait for it
    "Autoregressive": "autoregressive",
    "Interpolation": "interpolation",
    "LanguageModel": "language",
    "NgramModel": "ngram.model",
    "build_language_model": "language",
}
__all__ = ["Autoregressive", "Interpolation", "LanguageModel", "NgramModel", "build_language_model"]


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(import_module(f"seqloom.models.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'seqloom.models' has no attribute {name!r}")
