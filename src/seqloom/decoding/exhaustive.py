"""Exhaustive search: every sequence there is. For toy spaces, to see what the other searches miss."""

from __future__ import annotations

import math
from typing import Any

from seqloom.decoding.beam import beam_search
from seqloom.decoding.limits import Limits
from seqloom.decoding.prompts import Prompt
from seqloom.decoding.protocol import Hypothesis, StepModel
from seqloom.decoding.ranking import LENGTH_PENALTY
from seqloom.errors import ConfigError, UserError

LARGEST_SPACE = 1_000_000


def exhaustive_search(
    model: StepModel,
    limits: Limits,
    prompt: Prompt = (),
    n_best: int = 1,
    length_penalty: float = LENGTH_PENALTY,
    source: Any = None,
) -> list[Hypothesis]:
    """The `n_best` best of all continuations of `prompt`, best first, ranked as `beam_search` ranks them: this is one
    whose beam has room for all sequences there are, so that none is ever dropped."""
    if n_best < 1:
        raise ConfigError(f"n_best must be at least 1, not {n_best}")
    size = space_size(model.vocabulary_size, limits.max_length)
    if size > LARGEST_SPACE:
        raise UserError(
            f"exhaustive search over a vocabulary of {model.vocabulary_size} up to length {limits.max_length} means "
            f"about 10^{math.log10(size):.0f} sequences, and it takes {LARGEST_SPACE:,} at most: "
            "lower max_length, or use beam search"
        )
    (hypotheses,) = beam_search(model, [prompt], max(size, n_best), limits, length_penalty, n_best, source)
    return hypotheses


def space_size(vocabulary_size: int, max_length: int) -> int:
    """How many sequences there are: those that end before `max_length`, and those of that length, ended or cut."""
    words = vocabulary_size - 3  # neither <pad> nor <bos> is generated, and <eos> ends the sequence
    return sum(words**length for length in range(max_length)) + words**max_length
