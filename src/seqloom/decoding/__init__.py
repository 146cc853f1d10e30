"""From a fitted model to sequences: greedy, sampling, beam and exhaustive search, over one step protocol."""

from __future__ import annotations

from typing import TYPE_CHECKING

from seqloom.lazy import importing

if TYPE_CHECKING:
    from seqloom.decoding.beam import beam_search
    from seqloom.decoding.exhaustive import exhaustive_search
    from seqloom.decoding.left_to_right import generate, stream
    from seqloom.decoding.limits import LENGTH_PENALTY, Limits
    from seqloom.decoding.protocol import Hypothesis
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

__getattr__ = importing(  # each on first use: how to decode can be said without torch
    __name__,
    {
        "beam_search": "seqloom.decoding.beam",
        "exhaustive_search": "seqloom.decoding.exhaustive",
        **dict.fromkeys(("generate", "stream"), "seqloom.decoding.left_to_right"),
        **dict.fromkeys(("LENGTH_PENALTY", "Limits"), "seqloom.decoding.limits"),
        "Hypothesis": "seqloom.decoding.protocol",
        **dict.fromkeys(("Greedy", "Sampler"), "seqloom.decoding.sampling"),
    },
)
