"""N-gram models: counting, smoothing, and one sorted tree to ask."""

from seqloom.models.ngram.counting import Counts, count
from seqloom.models.ngram.estimation import Estimate, OrderFigures, estimate
from seqloom.models.ngram.model import NgramModel
from seqloom.models.ngram.trie import Trie
from seqloom.models.ngram.workspace import Workspace

__all__ = ["Counts", "Estimate", "NgramModel", "OrderFigures", "Trie", "Workspace", "count", "estimate"]
