"""N-gram models: counting, smoothing, and one sorted tree to ask."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from seqloom.models.ngram.counting import Counts, count
from seqloom.models.ngram.trie import Trie
from seqloom.models.ngram.workspace import Workspace

if TYPE_CHECKING:
    from seqloom.models.ngram.estimation import Estimate, OrderFigures, estimate
    from seqloom.models.ngram.model import NgramModel

_HOMES = {"Estimate": "estimation", "NgramModel": "model", "OrderFigures": "estimation", "estimate": "estimation"}
__all__ = ["Counts", "Estimate", "NgramModel", "OrderFigures", "Trie", "Workspace", "count", "estimate"]


def __getattr__(name: str) -> Any:  # these know torch, which counting does not wait for
    if name in _HOMES:
        return getattr(import_module(f"seqloom.models.ngram.{_HOMES[name]}"), name)
    raise AttributeError(f"module 'seqloom.models.ngram' has no attribute {name!r}")
