"""From a fitted model to sequences: greedy, sampling, beam and exhaustive search, over one step protocol."""

from seqloom.decoding.beam import beam_search
from seqloom.decoding.exhaustive import exhaustive_search
from seqloom.decoding.generate import generate, stream
from seqloom.decoding.limits import Limits
from seqloom.decoding.protocol import Hypothesis
from seqloom.decoding.ranking import LENGTH_PENALTY
from seqloom.decoding.sampling import Greedy, Sampler

__all__ = [
    "LENGTH_PENALTY",
    "Greedy",
    "Hypothesis",
    "Limits",
    "Sampler",
    "beam_search",
    "exhaustive_search",
    "generate",
    "stream",
]
