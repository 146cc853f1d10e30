"""From a fitted model to sequences: greedy, sampling, beam and exhaustive search, over one step protocol."""

from seqloom.decoding.beam import beam_search
from seqloom.decoding.exhaustive import exhaustive_search
from seqloom.decoding.generate import Emission, generate, stream
from seqloom.decoding.limits import Limits
from seqloom.decoding.protocol import Hypothesis, StepModel
from seqloom.decoding.ranking import LENGTH_PENALTY
from seqloom.decoding.sampling import Chooser, Greedy, Sampler

__all__ = [
    "LENGTH_PENALTY",
    "Chooser",
    "Emission",
    "Greedy",
    "Hypothesis",
    "Limits",
    "Sampler",
    "StepModel",
    "beam_search",
    "exhaustive_search",
    "generate",
    "stream",
]
