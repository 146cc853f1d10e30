"""Exhaustive search: every sequence there is. For toy spaces, to see what the other searches miss."""

from __future__ import annotations

import math
from typing import Any

import torch

from seqloom.decoding.limits import IMPOSSIBLE, LENGTH_PENALTY, Limits
from seqloom.decoding.patience import check_patience
from seqloom.decoding.prompts import Prompt, read_prompts
from seqloom.decoding.protocol import Hypothesis, StepModel
from seqloom.decoding.ranking import Ranking, length_penalties
from seqloom.decoding.top import refuse_nan, top
from seqloom.errors import ConfigError, UserError
from seqloom.text.special import EOS

LARGEST_SPACE = 1_000_000


@torch.no_grad()
def exhaustive_search(
    model: StepModel,
    limits: Limits,
    prompt: Prompt = (),
    n_best: int = 1,
    length_penalty: float = LENGTH_PENALTY,
    source: Any = None,
) -> list[Hypothesis]:
    """The `n_best` best of all continuations of `prompt`, best first, ranked exactly as `beam_search` ranks them."""
    if n_best < 1:
        raise ConfigError(f"n_best must be at least 1, not {n_best}")
    penalties = length_penalties(length_penalty, limits.max_length)
    size = space_size(model.vocabulary_size, limits.max_length, limits.unknown)
    if size > LARGEST_SPACE:
        raise UserError(
            f"exhaustive search over a vocabulary of {model.vocabulary_size:,} up to length {limits.max_length:,} "
            f"means about 10^{math.log10(size):.0f} sequences, and it takes {LARGEST_SPACE:,} at most: "
            "lower max_length (--max-length), or use beam search"
        )
    log_probs, state, forced = read_prompts(model, [prompt], source)
    device, vocabulary = log_probs.device, log_probs.shape[1]
    penalties = penalties.to(device)
    ranking = Ranking(1, n_best, device)
    only = torch.zeros(1, dtype=torch.long, device=device)  # the one prompt
    totals = torch.zeros(1, dtype=torch.float64, device=device)  # log p of every unfinished sequence, in order of ids
    histories = torch.empty(1, 0, dtype=torch.long, device=device)
    for length in range(1, limits.max_length + 1):
        check_patience()
        allowed = limits.restrict(log_probs, torch.full_like(totals, length - 1))
        extended = totals[:, None] + allowed  # [sequences, vocabulary]
        refuse_nan(extended.isnan())
        ending = extended
        if length < limits.max_length:
            ending = torch.full_like(extended, IMPOSSIBLE)
            ending[:, EOS] = extended[:, EOS]
            extended[:, EOS] = IMPOSSIBLE
        best, places = top(ending.view(1, -1), min(n_best, ending.numel()))
        parents, tokens = places[0] // vocabulary, places[0] % vocabulary
        sequences = torch.cat([histories[parents], tokens[:, None]], dim=1)
        ranking.add(only, best, sequences[None], penalties[length, None])

        parents, tokens = (extended > IMPOSSIBLE).nonzero(as_tuple=True)
        if length == limits.max_length or not len(parents):
            break
        totals = extended[parents, tokens]
        histories = torch.cat([histories[parents], tokens[:, None]], dim=1)
        log_probs, state = model.step(state.reorder(parents), tokens)
    return ranking.hypotheses(forced.counts)[0]


def space_size(vocabulary_size: int, max_length: int, unknown: bool = True) -> int:
    """How many sequences there are: those that end before `max_length`, and those of that length, ended or cut."""
    words = vocabulary_size - (3 if unknown else 4)  # neither <pad> nor <bos> is written, and <eos> ends the sequence
    return sum(words**length for length in range(max_length)) + words**max_length
