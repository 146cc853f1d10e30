"""From sequences to numbers."""

from seqloom.metrics.likelihood import Likelihood, entropy, store_likelihood, stream_likelihood, unit_likelihood

__all__ = ["Likelihood", "entropy", "store_likelihood", "stream_likelihood", "unit_likelihood"]
