"""Beam search: the most promising sequences, grown together."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from itertools import count
from typing import Any

import torch

from seqloom.decoding.limits import IMPOSSIBLE, LENGTH_PENALTY, Limits
from seqloom.decoding.messages import Message, steps_behind, worth_dropping
from seqloom.decoding.patience import check_patience
from seqloom.decoding.prompts import Prompt, read_prompts
from seqloom.decoding.protocol import Hypothesis, StepModel
from seqloom.decoding.ranking import Ranking, length_penalties
from seqloom.decoding.top import refuse_nan, top_sums
from seqloom.errors import ConfigError
from seqloom.progress import watched
from seqloom.text.special import EOS, UNK


@torch.no_grad()
def beam_search(
    model: StepModel,
    prompts: Sequence[Prompt],
    width: int,
    limits: Limits,
    length_penalty: float = LENGTH_PENALTY,
    n_best: int = 1,
    source: Any = None,
) -> list[list[Hypothesis]]:
    """For every prompt the `n_best` best continuations found, best first, by log p / ((5 + length) / 6)^length_penalty.

    At each step the `width` unfinished sequences (the beam) are extended by every token. Of all extensions the `width`
    most probable count: those that end, by `<eos>` or at the length limit, are ranked; the beam is filled again with
    the most probable ones that do not end. The search for a prompt stops when nothing in its beam can still enter
    its `n_best`, so nothing is lost by stopping; with a beam as wide as the space this is exhaustive search.

    prompts: token ids without `<bos>`, of any lengths.
    source: what the model is conditioned on, one per prompt; in the form that the model's `start` takes.
    """
    if width < 1:
        raise ConfigError(f"the beam's width must be at least 1, not {width}")
    if not 1 <= n_best <= width:
        raise ConfigError(f"n_best must be between 1 and the beam's width ({width}), not {n_best}")
    penalties = length_penalties(length_penalty, limits.max_length)
    if not prompts:
        return []
    log_probs, state, forced = read_prompts(model, prompts, source)
    device, vocabulary = log_probs.device, log_probs.shape[1]
    ranking = Ranking(len(prompts), n_best, device)
    # What the search itself counts stays on the processor, and a GPU is never waited for: what the processor must know
    # of a step comes in a message, which it reads while the next step is under way.
    behind, messages = steps_behind(device), deque[Message]()
    begins, starts = forced.counts.cpu(), forced.counts  # [prompts]
    active = torch.arange(len(prompts))  # the prompts that are still searched
    searched = active.to(device)
    last, divisors = float(penalties[-1]), penalties.to(device)
    going = torch.ones_like(active, dtype=torch.bool)  # those of them that may still find something
    totals = torch.zeros(len(prompts), 1, dtype=torch.float64, device=device)  # log p of [prompts, beam]
    histories = torch.empty(len(prompts), 1, 0, dtype=torch.long, device=device)  # [prompts, beam, step]
    steps = watched(count(), "tokens of each text", limits.max_length)
    while True:
        check_patience()
        step = next(steps)
        beam = totals.shape[1]
        lengths = step - begins[active]  # [prompts]: tokens generated so far; negative inside the prompt
        allowed = limits.restrict(log_probs, lengths.repeat_interleave(beam))
        allowed = forced.impose(allowed, step)
        # At most one extension in each of the beam's rows is <eos>: twice the width fills the beam again.
        values, places = top_sums(totals, allowed, min(2 * width, beam * vocabulary))

        extended = step + 1 - starts  # [prompts]: the lengths of the extensions
        ends = (places % vocabulary == EOS) | (extended >= limits.max_length)[:, None]
        # A prompt that reached its limit, but was not dropped yet, has nothing to say any more.
        heard = ends[:, :width] & (extended <= limits.max_length)[:, None]
        ending = values[:, :width].masked_fill(~heard, IMPOSSIBLE)
        divisor = divisors.index_select(0, extended.clamp(0, limits.max_length))
        ranking.add(searched, ending, _extend(histories, places[:, :width], vocabulary), divisor)

        # Places in order are sequences in the order of their ids, as long as the beam itself is kept in that order.
        # So `top`, which prefers the first of equals, prefers the same sequence whatever the beam's width is.
        staying = ends.int().argsort(dim=1, stable=True)[:, : min(width, beam * (vocabulary - 1))]
        impossible = values[:, 0].isnan()
        places, order = places.gather(1, staying).sort(dim=1)
        totals = values.gather(1, staying).gather(1, order)
        can_improve = totals.amax(dim=1) / last > ranking.worst(searched)
        parents = places // vocabulary
        messages.append(Message(torch.stack([impossible, can_improve])))
        going &= lengths + 1 < limits.max_length
        while messages and (len(messages) > behind or not going.any()):
            not_a_number, improvable = messages.popleft().read()
            refuse_nan(not_a_number)
            going &= torch.from_numpy(improvable)
        if not going.any():
            return ranking.hypotheses(begins)

        dropping = worth_dropping(len(active), int(going.sum()), device)
        if dropping:
            messages.clear()  # what they say is said again
            left = going.nonzero().squeeze(1)
            chosen = left.to(device)
            active, going = active[left], going[left]
            searched = active.to(device)
            totals, places, parents, histories, starts = (
                each[chosen] for each in (totals, places, parents, histories, starts)
            )
        histories = _extend(histories, places, vocabulary)
        # Rows that stay where they are need no copy; a GPU, which copies next to nothing, would have to be asked.
        if dropping or beam != places.shape[1] or behind or (parents != torch.arange(beam)).any():
            sources = chosen if dropping else torch.arange(len(active), device=device)
            origins = (sources[:, None] * beam + parents).flatten()
            state, forced = state.reorder(origins, sources), forced.reorder(origins)
        # An impossible sequence only fills its place in the beam; it reads <unk>, for its token may be any.
        tokens = histories[:, :, -1].masked_fill(totals == IMPOSSIBLE, UNK)
        log_probs, state = model.step(state, tokens.flatten())


def _extend(histories: torch.Tensor, places: torch.Tensor, vocabulary: int) -> torch.Tensor:
    """histories [prompts, beam, time], places [prompts, n] among beam × vocabulary -> sequences [prompts, n, time+1]"""
    parents = (places // vocabulary)[:, :, None].expand(-1, -1, histories.shape[2])
    return torch.cat([histories.gather(1, parents), (places % vocabulary)[:, :, None]], dim=2)
