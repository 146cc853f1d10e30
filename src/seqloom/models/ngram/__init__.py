"""N-gram models: counting, smoothing, and one sorted tree to ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import importing
from seqloom.models.ngram.counting import Counts, count
from seqloom.models.ngram.trie import Trie
from seqloom.models.ngram.workspace import Workspace

if TYPE_CHECKING:
    from seqloom.models.ngram.estimation import Estimate, OrderFigures, estimate
    from seqloom.models.ngram.model import NgramModel

_HOMES = {  # these know torch, which counting does not wait for
    "Estimate": "seqloom.models.ngram.estimation",
    "NgramModel": "seqloom.models.ngram.model",
    "OrderFigures": "seqloom.models.ngram.estimation",
    "estimate": "seqloom.models.ngram.estimation",
}
__all__ = ["Counts", "Estimate", "NgramModel", "OrderFigures", "Trie", "Workspace", "count", "estimate"]


__getattr__ = importing(__name__, _HOMES)
