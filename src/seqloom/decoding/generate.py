"""Generation from left to right, one token at a time: greedy, or sampling."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import torch

from seqloom.decoding.limits import IMPOSSIBLE, Limits
from seqloom.decoding.prompts import Prompt, read_prompts
from seqloom.decoding.protocol import Hypothesis, StepModel
from seqloom.decoding.sampling import Chooser
from seqloom.decoding.top import refuse_nan
from seqloom.errors import ConfigError
from seqloom.text.special import EOS, UNK


class Emission(NamedTuple):
    """A token, as soon as it is generated."""

    row: int
    """Which sequence it continues: prompt × samples + sample."""
    token: int
    log_prob: float
    """Natural log-probability of the token, under the model as it is."""


def generate(
    model: StepModel,
    prompts: Sequence[Prompt],
    chooser: Chooser,
    limits: Limits,
    source: Any = None,
    samples: int = 1,
    numbers: Sequence[int] | None = None,
) -> list[Hypothesis]:
    """Continue every prompt; the `samples` continuations of one prompt stand side by side in the list.

    Arguments are those of `stream`.
    """
    tokens: list[list[int]] = [[] for _ in range(len(prompts) * samples)]
    log_probs = [0.0] * len(tokens)
    for row, token, log_prob in stream(model, prompts, chooser, limits, source, samples, numbers):
        tokens[row].append(token)
        log_probs[row] += log_prob
    return [Hypothesis(tuple(said), total, total) for said, total in zip(tokens, log_probs, strict=True)]


@torch.no_grad()  # not inference_mode: a model may keep a table it makes here, and be trained with it later
def stream(
    model: StepModel,
    prompts: Sequence[Prompt],
    chooser: Chooser,
    limits: Limits,
    source: Any = None,
    samples: int = 1,
    numbers: Sequence[int] | None = None,
) -> Iterator[Emission]:
    """Yield the tokens of all continuations as they are generated, step by step, in order of rows within a step.

    A row ends with `<eos>` or with its `limits.max_length`-th token. Where no token at all is possible it ends with
    `<eos>`, at log-probability -inf.

    prompts: token ids without `<bos>`; of any lengths, though similar ones go faster (the part that all have is read
        at once, the rest token by token).
    source: what the model is conditioned on, one per prompt; in the form that the model's `start` takes.
    samples: how many continuations of each prompt; the prompt is read once for all of them.
    numbers: those of the prompts within the whole job; counted from 0 when not given. Random draws depend on them, so
        that a job gives the same text however it is cut into batches.
    """
    if samples < 1:
        raise ConfigError(f"samples must be at least 1, not {samples}")
    if not prompts:
        return
    log_probs, state, forced = read_prompts(model, prompts, source)
    device = log_probs.device
    if samples > 1:
        prompt_of_row = torch.arange(len(prompts), device=device).repeat_interleave(samples)
        log_probs, state = log_probs.index_select(0, prompt_of_row), state.reorder(prompt_of_row)
        forced = forced.reorder(prompt_of_row)
    # The book-keeping stays on the processor, and the chosen tokens come there once per step: on a GPU, each small
    # operation or question of its own would cost more than the arithmetic of the step.
    rows = torch.arange(len(prompts) * samples)
    job = torch.arange(len(prompts)) if numbers is None else torch.tensor(numbers)
    sequences = (job[:, None] * samples + torch.arange(samples)).flatten()
    begins = forced.counts.cpu()
    alive = torch.ones_like(rows, dtype=torch.bool)
    step = 0
    while True:
        lengths = step - begins  # tokens generated so far; negative inside the prompt
        allowed = forced.impose(limits.restrict(log_probs, lengths), step)
        chosen = chooser.choose(allowed, sequences[rows], lengths)
        likely = allowed.gather(1, chosen[:, None]).squeeze(1)
        tokens, likely = torch.stack([chosen.double(), likely.double()]).cpu()  # one transfer
        tokens = tokens.long().masked_fill(likely == IMPOSSIBLE, EOS)

        said = alive & (lengths >= 0)
        refuse_nan(likely[said].isnan())
        alive = alive & (tokens != EOS) & (lengths + 1 < limits.max_length)
        yield from map(Emission, rows[said].tolist(), tokens[said].tolist(), likely[said].tolist())

        going = int(alive.sum())
        if not going:
            return
        # Dropping rows copies the state. Waiting until a quarter is done wastes less than a quarter of any step, and
        # copies fewer than 3/4 + (3/4)^2 + ... = 3 times the rows we began with, however many moments rows end at.
        if len(rows) - going >= len(rows) / 4:
            left = alive.nonzero().squeeze(1)
            kept = left.to(device)
            state, forced, chosen = state.reorder(kept), forced.reorder(kept), chosen[kept]
            rows, begins, alive = rows[left], begins[left], alive[left]
        # A row that ended but was not dropped yet reads <unk>, for <eos> is never read; nobody hears what it says.
        log_probs, state = model.step(state, chosen.masked_fill(chosen == EOS, UNK))
        step += 1
