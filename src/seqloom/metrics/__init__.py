"""From sequences to numbers."""

from seqloom.metrics.likelihood import Likelihood, entropy, stream_likelihood, unit_log_probs

__all__ = ["Likelihood", "entropy", "stream_likelihood", "unit_log_probs"]
