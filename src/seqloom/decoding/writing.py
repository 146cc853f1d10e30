"""A model that writes by itself: each step reads what the one before it chose, and the processor is not asked."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from seqloom.decoding.graphs import RecordableModel, ScoringModel
from seqloom.decoding.limits import IMPOSSIBLE, Limits
from seqloom.decoding.prompts import Forced
from seqloom.decoding.sampling import Greedy, Picker, Sampler
from seqloom.decoding.uniforms import streams, uniforms_at
from seqloom.nn import kernels
from seqloom.nn.state import State
from seqloom.text.special import EOS, UNK

BLOCK = 16  # steps whose tokens the processor hears of together
MODEL = "model"  # what the tensors of the model itself stand under


class Writing:
    """A model whose step reads one token per row, chooses the next one, and writes it down.

    All that the choice needs is in the state, an entry for each row, beside what the model keeps (under `model.`):

        token      what is read next
        length     how many tokens are generated so far; negative inside the prompt
        rest       [rows, width], what was not read of the prompts, up to the last column: token -1 is the last
        stream     what the row's random numbers are made of, see `uniforms`
        uniforms   [rows, BLOCK], the random numbers of a block
        place      where in the block the next token is written
        written    [rows, BLOCK, 2], the token and its log p under the model as it is

    So a step is recorded with the choice in it (see `graphs`), and rows can be reordered. Nothing here waits for a GPU.
    A state is consumed by its step: what is written is written in place.

    Rows are not told that they ended. Instead of `<eos>` they read `<unk>`, and what follows is nobody's concern: the
    longest length is a matter of whoever listens, and so is the end.
    """

    def __init__(self, model: RecordableModel, picker: Picker, limits: Limits) -> None:
        """picker: its seed is not asked for; limits: their `max_length` is not."""
        self.model, self.picker, self.limits = model, picker, limits
        self.vocabulary_size = model.vocabulary_size

    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences before anything was read; they draw by the seed 0."""
        state = self.model.start(size, source)
        device = next(iter(state.values())).device
        nothing = Forced(*(torch.zeros(shape, dtype=torch.long, device=device) for shape in ((size, 0), (size,))))
        return self.around(state, nothing, streams(0, torch.arange(size, device=device)))

    def around(self, state: State, forced: Forced, randomness: Tensor) -> State:
        """The state of a model that has read what all prompts have, with all that the choice needs; `randomness`: the
        rows' `streams`."""
        rows, device = len(randomness), randomness.device
        own = {
            "token": torch.full((rows,), UNK, device=device),
            "length": -forced.counts,
            "rest": _ending_together(forced),
            "stream": randomness,
            "uniforms": torch.empty(rows, BLOCK, dtype=torch.float64, device=device),
            "place": torch.zeros(rows, dtype=torch.long, device=device),
            "written": torch.zeros(rows, BLOCK, 2, dtype=torch.float64, device=device),
        }
        return self.begin_block(_joined(own, state))

    def begin_block(self, state: State) -> State:
        """The same state, in place, at the beginning of a block."""
        state["place"].zero_()
        steps = state["length"].unsqueeze(1) + torch.arange(BLOCK, device=state["length"].device)
        state["uniforms"].copy_(uniforms_at(state["stream"].unsqueeze(1), steps))
        return state

    def choose(self, log_probs: Tensor, state: State) -> tuple[Tensor, State]:
        """What a step does once it knows log p of all tokens [rows, vocabulary]: the tokens that are read next.

        On a GPU it has kernels of its own, which do not need log p, see `choose_by_scores`.
        """
        if _suits_kernels(log_probs):
            return self.choose_by_scores(log_probs, state, normalised=True)
        length, rest, place = state["length"], state["rest"], state["place"]
        self.limits.bar(log_probs)
        if self.limits.min_length > 1:
            self.limits.delay(log_probs, length + 1 < self.limits.min_length)
        chosen = self.picker.pick(log_probs, _at_place(state))
        likely = log_probs.gather(1, chosen.unsqueeze(1)).squeeze(1)
        if width := rest.size(1):
            inside = length < 0
            told = rest.gather(1, (length + width).clamp(0, width - 1).unsqueeze(1)).squeeze(1)
            chosen, likely = torch.where(inside, told, chosen), likely.masked_fill(inside, 0.0)
        said = torch.stack([chosen.double(), likely.double()], dim=1).unsqueeze(1)  # [rows, 1, 2]
        state["written"].scatter_(1, place[:, None, None].expand_as(said), said)
        length.add_(1)
        place.add_(1)
        state["token"] = chosen.masked_fill((chosen == EOS) | (likely == IMPOSSIBLE), UNK)
        return state["token"], state

    def choose_by_scores(self, scores: Tensor, state: State, normalised: bool = False) -> tuple[Tensor, State]:
        """As `choose`, from scores s with log p = s - log Σ exp s; where they are `normalised`, s is log p."""
        from seqloom.nn.kernels import choice

        picker, shortest = self.picker, self.limits.min_length
        sharpness = picker.sharpness if isinstance(picker, Sampler) and not picker.cuts else 0.0
        known = choice.survey(scores, self.limits.never, EOS, state["length"], shortest, sharpness)
        # Scores have the order of log p and the same distances: no picker asks for more.
        by_kernel = sharpness > 0 or isinstance(picker, Greedy)
        chosen = None if by_kernel else picker.pick(scores, _at_place(state))
        choice.write_down(scores, known, chosen, sharpness, normalised, state, EOS, UNK, shortest)
        return state["token"], state

    def reserve(self, state: State, steps: int) -> State:
        """The same state with room for so many steps, so that its tensors keep their shapes as it goes on."""
        return _joined(_own(state), self.model.reserve(state.part(MODEL), steps))

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read one token per row, `state["token"]` usually; return the next ones, and the new state."""
        log_probs, after = self.model.step(state.part(MODEL), tokens)
        return self.choose(log_probs, _joined(_own(state), after))

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read tokens [rows, time]; return as `step` does."""
        if isinstance(self.model, ScoringModel) and kernels.available(tokens):
            scores, after = self.model.read_scores(state.part(MODEL), tokens)
            state = _joined(_own(state), after)
            if _suits_kernels(scores):
                return self.choose_by_scores(scores, state)
            return self.choose(scores.log_softmax(1), state)
        log_probs, after = self.model.read(state.part(MODEL), tokens)
        return self.choose(log_probs, _joined(_own(state), after))


def _suits_kernels(scores: Tensor) -> bool:
    """Whether our kernels, which compute in float32 and read along rows, can choose by these."""
    return kernels.available(scores) and scores.dtype != torch.float64 and scores.stride(1) == 1


def _at_place(state: State) -> Tensor:
    """The number between 0 and 1 that each row draws by now, [rows]."""
    return state["uniforms"].gather(1, state["place"].unsqueeze(1)).squeeze(1)


def _own(state: State) -> dict[str, Tensor]:
    """The tensors that are not the model's."""
    return {name: tensor for name, tensor in state.items() if not name.startswith(MODEL + ".")}


def _joined(own: dict[str, Tensor], inner: State) -> State:
    """Both in one state."""
    state = State(own, inner.position)
    state.put(MODEL, inner)
    return state


def _ending_together(forced: Forced) -> Tensor:
    """The rests of the prompts, up to the last column: [rows, width].

    The width is a power of two: other shapes need other recordings, and there shall be few.
    """
    longest = forced.tokens.size(1)
    width = 1 << (longest - 1).bit_length() if longest else 0
    places = torch.arange(width, device=forced.counts.device) - width + forced.counts.unsqueeze(1)
    return forced.tokens.gather(1, places.clamp(min=0))
