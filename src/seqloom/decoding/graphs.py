"""Steps on a GPU, recorded once and replayed as CUDA graphs.

One step of a model is many small kernels, and to launch them one by one takes longer than to run them. A CUDA graph
is the list of these launches, recorded once; to replay it is a single launch. What is recorded is fixed in every
detail: the same kernels, on tensors of the same shapes, at the same addresses in memory. From this follows all that
this module does:

- Each recording has tensors of its own (`Recording.state`, `tokens`, `log_probs`). Before a replay, what a step reads
  is copied into them; afterwards what it wrote is read from them.
- A state of other shapes (more rows, longer caches) needs another recording. Caches therefore grow seldom, and by much,
  so that a search of a few hundred steps needs only a few recordings.
- The position cannot be a Python number, which would be recorded as a constant: it is a tensor, and the step adds 1.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from seqloom.decoding.protocol import StepModel
from seqloom.nn.occasions import recording
from seqloom.nn.state import State

ROOM = 64  # steps that caches grow by at least: every length of the caches needs its own recording
VARIETIES = 4  # of a model, made of it to be recorded: each has recordings of its own
KEPT = 32  # recordings, for each takes memory; the one that was not used for longest goes first
FREE = 0.5  # of a GPU's memory; while more is free, all recordings are kept


class RecordableModel(StepModel, Protocol):
    """A model whose step launches the same kernels at every position, provided that the position is a tensor."""

    def reserve(self, state: State, steps: int) -> State:
        """The same state with caches long enough for so many steps: until then, its tensors keep their shapes."""


@runtime_checkable
class ScoringModel(Protocol):
    """A model that has scores of tokens before it has log p of them: enough for who needs log p of one alone."""

    def read_scores(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """As `read`, with scores s, perhaps in a shorter type: log p = s - log Σ exp s."""


@dataclass(frozen=True)
class Recording:
    """The step for states of one set of shapes, and the tensors that it reads and writes."""

    graph: torch.cuda.CUDAGraph
    state: State
    """The step reads it, and writes the state after the step over it."""
    position: Tensor
    """That of the state, which is a tensor."""
    tokens: Tensor
    """What the step reads, one token per row; of a model that keeps its last tokens in its state, those."""
    log_probs: Tensor
    """What it returns."""
    capacity: int
    """Steps that the caches of the state have room for."""

    def take(self, state: State) -> None:
        """Copy a state into the recording's own tensors, except those that are the recording's own already."""
        mine = _tensors(self.state)
        for name, tensor in _tensors(state).items():
            if tensor.data_ptr() != mine[name].data_ptr():
                mine[name].copy_(tensor)
        self.position.fill_(state.position)

    def handed(self, position: int) -> State:
        """The state that the recording holds, for the one who searches."""
        mine = self.state
        return State(dict(mine), position, mine.shared, mine.owners, mine.history)

    def replay(self, tokens: Tensor) -> Tensor:
        """One step from the state that the recording holds: the one given to `take`, or left by the last replay."""
        if tokens.data_ptr() != self.tokens.data_ptr():
            self.tokens.copy_(tokens)
        self.graph.replay()
        return self.log_probs


class GraphSteps:
    """A model on a GPU whose single steps are replayed.

    The log-probabilities that a step returns are the recording's own tensor: the next step writes over them, as a step
    writes over its state. For the same reason only one search at a time can use it.
    """

    def __init__(self, model: RecordableModel) -> None:
        self.model = model
        self.vocabulary_size = model.vocabulary_size
        self._recordings: OrderedDict[Any, Recording] = OrderedDict()
        self._last: tuple[Recording, State] | None = None  # the latest step, and what came back from it
        self._pool: Any = None  # of the memory that recordings take, from the first one on
        self._varieties: OrderedDict[Hashable, GraphSteps] = OrderedDict()

    def variety(self, key: Hashable, make: Callable[[RecordableModel], RecordableModel]) -> GraphSteps:
        """The recorded steps of another model, that `make` makes of this one; the same ones for the same key."""
        steps = self._varieties.pop(key, None) or type(self)(make(self.model))
        self._varieties[key] = steps
        if len(self._varieties) > VARIETIES:
            self._varieties.popitem(last=False)
        return steps

    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences before anything was read."""
        return self.model.start(size, source)

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read tokens [batch, time] as the model does: prompts come once."""
        return self.model.read(state, tokens)

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read one token per row, [batch]; return log p(next | all read so far) and the new state.

        A state that came from the last step is the recording's own: it comes back itself, one step further.
        """
        position = int(state.position)
        # A search that neither reorders nor drops rows hands back the very state it got: its values are in place.
        recording = self._last[0] if self._last and self._last[1] is state else None
        if recording is None or position >= recording.capacity:
            capacity = _capacity(position + 1)
            state = self.model.reserve(state, capacity)
            recording = self._recording(state, tokens, capacity)
            recording.take(state)
            state = recording.handed(position)
            self._last = recording, state
        log_probs = recording.replay(tokens)
        state.position = position + 1
        return log_probs, state

    def _recording(self, state: State, tokens: Tensor, capacity: int) -> Recording:
        shapes = tuple((name, tensor.shape) for name, tensor in _tensors(state).items())
        recording = self._recordings.pop(shapes, None) or self._record(state, tokens, capacity)
        if recording.capacity < capacity:  # there is room for more in tensors of the same shapes: nothing grows
            recording = replace(recording, capacity=capacity)
        self._recordings[shapes] = recording  # taken out and put back: the one used last stands last
        if len(self._recordings) > KEPT and not _has_room(tokens.device):
            self._recordings.popitem(last=False)
        return recording

    def _record(self, state: State, tokens: Tensor, capacity: int) -> Recording:
        mine, position, tokens = _copied(state, tokens)
        drawn = torch.cuda.get_rng_state()
        # What autocast has cast before would be recorded as a constant, and weights that are trained are none.
        torch.clear_autocast_cache()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        # Once without recording, but as it will be recorded: libraries set themselves up at their first use.
        with torch.cuda.stream(aside), recording():
            self.model.read(mine, tokens[:, None])
        torch.cuda.current_stream().wait_stream(aside)
        torch.clear_autocast_cache()
        graph = torch.cuda.CUDAGraph()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        with torch.cuda.graph(graph, pool=self._pool), recording():
            log_probs = self._advance(mine, position, tokens)
        torch.clear_autocast_cache()  # of what belongs to the recording
        torch.cuda.set_rng_state(drawn)  # what is drawn must not depend on when a step is recorded
        return Recording(graph, mine, position, tokens, log_probs, capacity)

    def _advance(self, mine: State, position: Tensor, tokens: Tensor) -> Tensor:
        """The step as it is recorded: it leaves the new state where it found the old one, for the next replay."""
        log_probs, after = self.model.read(mine, tokens[:, None])
        for name, tensor in after.items():
            if tensor.data_ptr() != mine[name].data_ptr():
                mine[name].copy_(tensor)
        position.add_(1)
        return log_probs


def _copied(state: State, tokens: Tensor) -> tuple[State, Tensor, Tensor]:
    """A state of a recording's own, its position as a tensor, and the tokens: where they are in the state, in it."""
    mine = state.map(torch.clone)
    position = mine.position = torch.tensor(state.position, device=tokens.device)
    among = next((name for name, tensor in _tensors(state).items() if tensor is tokens), None)
    return mine, position, tokens.clone() if among is None else _tensors(mine)[among]


def _has_room(device: torch.device) -> bool:
    free, total = torch.cuda.mem_get_info(device)
    return free > FREE * total


def _capacity(steps: int) -> int:
    """Room for so many steps and some more: a multiple of 64, from 512 steps on of an eighth to a quarter of them."""
    unit = max(ROOM, 1 << steps.bit_length() >> 3)
    return -(-steps // unit) * unit


def _tensors(state: State) -> dict[str, Tensor]:
    """All tensors of a state by name."""
    tensors = {**state, **{f"shared.{name}": tensor for name, tensor in state.shared.items()}}
    if state.owners is not None:
        tensors["owners"] = state.owners
    if state.history is not None:
        tensors |= {f"history.{name}": cache for name, cache in state.history.caches.items()}
        tensors["origins"] = state.history.origins
    return tensors
