"""Generation from left to right, one token at a time: greedy, or sampling."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.decoding.graphs import GraphSteps
from seqloom.decoding.limits import IMPOSSIBLE, Limits
from seqloom.decoding.messages import Message, steps_behind, worth_keeping
from seqloom.decoding.patience import check_patience
from seqloom.decoding.prompts import Forced, Prompt, read_prompts
from seqloom.decoding.protocol import Hypothesis, StepModel
from seqloom.decoding.rows import steady
from seqloom.decoding.sampling import Chooser, Greedy, Sampler
from seqloom.decoding.top import refuse_nan
from seqloom.decoding.uniforms import streams
from seqloom.decoding.writing import BLOCK, Writing
from seqloom.errors import ConfigError
from seqloom.nn.state import State
from seqloom.progress import watched
from seqloom.text.special import EOS, UNK

FIRST_BLOCK = 4  # steps that a GPU writes before the processor hears of any; later blocks are longer

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
    begun = begin(model, prompts, source, samples, numbers)
    if isinstance(model, GraphSteps) and isinstance(chooser, Greedy | Sampler):
        writing, steps = recorded_writing(model, chooser, limits)
        seed = chooser.seed if isinstance(chooser, Sampler) else 0
        yield from written_ahead(writing, steps, begun, seed, limits, ends)
    else:
        yield from written_step_by_step(model, begun, chooser, limits, ends)


class Begun(NamedTuple):
    """Sequences whose prompts were read, as far as all of them go."""

    log_probs: Tensor
    """[rows, vocabulary]: of what comes next."""
    state: State
    forced: Forced
    sequences: Tensor
    """[rows]: the number of each within the whole job; on the processor."""


def begin(
    model: StepModel, prompts: Sequence[Prompt], source: Any, samples: int, numbers: Sequence[int] | None
) -> Begun:
    """Read prompts, each once for all of its samples; arguments are those of `stream`."""
    log_probs, state, forced = read_prompts(model, prompts, source)
    if samples > 1:
        prompt_of_row = torch.arange(len(prompts), device=log_probs.device).repeat_interleave(samples)
        log_probs, state = log_probs.index_select(0, prompt_of_row), state.reorder(prompt_of_row)
        forced = forced.reorder(prompt_of_row)
    job = np.arange(len(prompts)) if numbers is None else np.array(numbers)
    sequences = torch.from_numpy((job[:, None] * samples + np.arange(samples)).flatten())
    return Begun(log_probs, state, forced, sequences)


def heard(
    numbers: NDArray[np.generic[Any]],
    rows: NDArray[np.int64],
    lengths: NDArray[np.int64],
    alive: NDArray[np.bool_],
    limits: Limits,
    ends: Ends | None,
) -> tuple[NDArray[np.bool_], Emission | None]:
    """What a step said, [2, rows] of tokens and log p: who of those `alive` goes on, and what to tell of it."""
    tokens, log_probs = numbers
    tokens = np.where(log_probs == IMPOSSIBLE, EOS, tokens).astype(np.int64)
    said = alive & (lengths >= 0)
    refuse_nan(np.isnan(log_probs[said]))
    alive = alive & (tokens != EOS) & (lengths + 1 < limits.max_length)
    if not said.any():
        return alive, None
    if ends is not None:
        alive[said] &= ~ends(rows[said], tokens[said])
    return alive, Emission(rows[said], tokens[said], log_probs[said])


def written_step_by_step(
    model: StepModel, begun: Begun, chooser: Chooser, limits: Limits, ends: Ends | None
) -> Iterator[Emission]:
    """Each step's tokens are chosen from its log-probabilities, and read by the next step."""
    log_probs, state, forced, sequences = begun
    device = log_probs.device
    # The book-keeping stays on the processor, and a GPU is never waited for: what was chosen comes in a message, which
    # the processor reads while the next step is under way.
    behind, messages = steps_behind(device), deque[tuple[NDArray[np.int64], Message]]()
    rows = np.arange(len(sequences))
    begins = forced.counts.cpu().numpy()
    alive = np.ones(len(rows), bool)
    step = 0
    while True:
        check_patience()
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
            alive, emission = heard(message.read(), rows, then, alive, limits, ends)
            if emission is not None:
                yield emission
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


def recorded_writing(model: GraphSteps, chooser: Greedy | Sampler, limits: Limits) -> tuple[Writing, GraphSteps]:
    """The model as it writes by itself, and its steps, recorded. Seeds and longest lengths have the same recordings."""
    picker = replace(chooser, seed=0) if isinstance(chooser, Sampler) else chooser
    key = picker, limits.min_length, limits.unknown
    steps = model.variety(key, lambda inner: Writing(inner, picker, limits))
    assert isinstance(steps.model, Writing)
    return steps.model, steps


def written_ahead(
    writing: Writing, steps: StepModel, begun: Begun, seed: int | Sequence[int], limits: Limits, ends: Ends | None
) -> Iterator[Emission]:
    """Blocks of steps that need nothing from the processor; `steps` are those of `writing`, perhaps recorded.

    While the GPU writes a block, the processor hears of the block before it. A row that ended writes on until then, and
    nobody hears of it. Blocks become longer: a first token comes early, and few are written behind a short text.
    """
    log_probs, device = begun.log_probs, begun.log_probs.device
    state = writing.around(begun.state, begun.forced, streams(seed, begun.sequences.to(device)))
    behind, messages = steps_behind(device), deque[tuple[NDArray[np.int64], NDArray[np.int64], Message]]()
    rows, lengths = np.arange(len(begun.sequences)), -begun.forced.counts.cpu().numpy()
    alive = np.ones(len(rows), bool)  # of all rows there were
    block = FIRST_BLOCK
    step = 0
    while True:
        check_patience()
        # No step goes beyond the longest length of those that are left: a model may know no further place.
        count = min(block, limits.max_length - int(lengths[alive[rows]].min()))
        if count > 0:
            writing.begin_block(state)
            for _ in range(count):
                _, state = steps.step(state, state["token"]) if step else writing.choose(log_probs, state)
                step += 1
            messages.append((rows, lengths, Message(state["written"][:, :count].clone())))
            lengths = lengths + count
            block = min(2 * block, BLOCK)
        while messages and (len(messages) > behind or count <= 0):
            listening, then, message = messages.popleft()
            for written in message.read().transpose(1, 2, 0):
                alive[listening], emission = heard(written, listening, then, alive[listening], limits, ends)
                if emission is not None:
                    yield emission
                then = then + 1
        going = alive[rows]
        if not going.any():
            return
        room = worth_keeping(len(rows), int(going.sum()), device)
        if room < len(rows):
            kept = np.sort(np.argsort(~going, kind="stable")[:room])
            state = state.reorder(torch.from_numpy(kept).to(device, non_blocking=True))
            rows, lengths = rows[kept], lengths[kept]
