"""Generation from left to right, one token at a time: greedy, or sampling."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from seqloom.decoding.limits import IMPOSSIBLE, Limits
from seqloom.decoding.messages import Message, steps_behind
from seqloom.decoding.prompts import Prompt, read_prompts
from seqloom.decoding.protocol import Hypothesis, StepModel
from seqloom.decoding.rows import steady
from seqloom.decoding.sampling import Chooser
from seqloom.decoding.top import refuse_nan
from seqloom.errors import ConfigError
from seqloom.progress import watched
from seqloom.text.special import EOS, UNK

Ends = Callable[[NDArray[np.int64], NDArray[np.int64]], NDArray[np.bool_]]
"""(rows, tokens) of a step -> which of these rows end with what they have just said."""


class Emission(NamedTuple):
    """The tokens of one step, as soon as they are generated."""

    rows: NDArray[np.int64]
    """Which sequences they continue, in order: prompt × samples + sample."""
    tokens: NDArray[np.int64]
    log_probs: NDArray[np.float64]
    """Natural log-probability of each token, under the model as it is."""


def generate(
    model: StepModel,
    prompts: Sequence[Prompt],
    chooser: Chooser,
    limits: Limits,
    source: Any = None,
    samples: int = 1,
    numbers: Sequence[int] | None = None,
    ends: Ends | None = None,
) -> list[Hypothesis]:
    """Continue every prompt; the `samples` continuations of one prompt stand side by side in the list.

    Arguments are those of `stream`.
    """
    if not prompts:
        return []
    steps = stream(model, prompts, chooser, limits, source, samples, numbers, ends)
    said = list(watched(steps, "tokens of each text", limits.max_length))
    total = np.zeros(len(prompts) * samples)
    for rows, _, log_probs in said:
        total[rows] += log_probs
    row = np.concatenate([rows for rows, _, _ in said])
    tokens = np.concatenate([words for _, words, _ in said])[np.argsort(row, kind="stable")]
    texts = np.split(tokens, np.cumsum(np.bincount(row, minlength=len(total)))[:-1])
    return [Hypothesis(tuple(text.tolist()), sum_, sum_) for text, sum_ in zip(texts, total.tolist(), strict=True)]


@torch.no_grad()  # not inference_mode: a model may keep a table it makes here, and be trained with it later
def stream(
    model: StepModel,
    prompts: Sequence[Prompt],
    chooser: Chooser,
    limits: Limits,
    source: Any = None,
    samples: int = 1,
    numbers: Sequence[int] | None = None,
    ends: Ends | None = None,
) -> Iterator[Emission]:
    """Yield the tokens of all continuations as they are generated, step by step.

    A row ends with `<eos>` or with its `limits.max_length`-th token. Where no token at all is possible it ends with
    `<eos>`, at log-probability -inf.

    prompts: token ids without `<bos>`; of any lengths, though similar ones go faster (the part that all have is read
        at once, the rest token by token).
    source: what the model is conditioned on, one per prompt; in the form that the model's `start` takes.
    samples: how many continuations of each prompt; the prompt is read once for all of them.
    numbers: those of the prompts within the whole job; counted from 0 when not given. Random draws depend on them, so
        that a job gives the same text however it is cut into batches.
    ends: what else ends a row than `<eos>` and its length; what was said last still belongs to it.
    """
    if samples < 1:
        raise ConfigError(f"samples must be at least 1, not {samples}")
    if not prompts:
        return
    model = steady(model)
    log_probs, state, forced = read_prompts(model, prompts, source)
    device = log_probs.device
    if samples > 1:
        prompt_of_row = torch.arange(len(prompts), device=device).repeat_interleave(samples)
        log_probs, state = log_probs.index_select(0, prompt_of_row), state.reorder(prompt_of_row)
        forced = forced.reorder(prompt_of_row)
    # The book-keeping stays on the processor, and a GPU is never waited for: what was chosen comes in a message, which
    # the processor reads while the next step is under way.
    behind, messages = steps_behind(device), deque[tuple[NDArray[np.int64], Message]]()
    rows = np.arange(len(prompts) * samples)
    job = np.arange(len(prompts)) if numbers is None else np.array(numbers)
    sequences = torch.from_numpy((job[:, None] * samples + np.arange(samples)).flatten())
    begins = forced.counts.cpu().numpy()
    alive = np.ones(len(rows), bool)
    step = 0
    while True:
        lengths = step - begins  # tokens generated so far; negative inside the prompt
        counted = torch.from_numpy(lengths)
        allowed = forced.impose(limits.restrict(log_probs, counted), step)
        chosen = chooser.choose(allowed, sequences, counted)
        likely = allowed.gather(1, chosen[:, None]).squeeze(1)
        messages.append((lengths, Message(torch.stack([chosen.double(), likely.double()]))))
        goes_on = lengths + 1 < limits.max_length
        # Dropping rows copies the state. Waiting until a quarter is done wastes less than a quarter of any step, and
        # copies fewer than 3/4 + (3/4)^2 + ... = 3 times the rows we began with, however many moments rows end at.
        dropping = False
        while messages and (len(messages) > behind or dropping or not (alive & goes_on).any()):
            then, message = messages.popleft()
            tokens, token_log_probs = message.read()
            tokens = np.where(token_log_probs == IMPOSSIBLE, EOS, tokens).astype(np.int64)
            said = alive & (then >= 0)
            refuse_nan(np.isnan(token_log_probs[said]))
            alive = alive & (tokens != EOS) & (then + 1 < limits.max_length)
            if said.any():
                if ends is not None:
                    alive[said] &= ~ends(rows[said], tokens[said])
                yield Emission(rows[said], tokens[said], token_log_probs[said])
            dropping = bool(np.count_nonzero(alive & goes_on) <= len(rows) * 3 / 4)
        if not alive.any():
            return
        if dropping:
            left = alive.nonzero()[0]
            kept = torch.from_numpy(left).to(device)
            state, forced, chosen = state.reorder(kept), forced.reorder(kept), chosen[kept]
            rows, begins, alive, sequences = rows[left], begins[left], alive[left], sequences[torch.from_numpy(left)]
        # A row that ended but was not dropped yet reads <unk>, for <eos> is never read; nobody hears what it says.
        log_probs, state = model.step(state, chosen.masked_fill(chosen == EOS, UNK))
        step += 1
