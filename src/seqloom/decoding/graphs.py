"""Steps on a GPU, recorded once and replayed: to launch many small kernels one by one takes longer than to run them."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from seqloom.decoding.protocol import StepModel
from seqloom.nn.state import State

ROOM = 64  # steps: caches grow by so much at a time, or by a quarter, since another length needs another recording
KEPT = 32  # recordings, each with memory of its own


class RecordableModel(StepModel, Protocol):
    """A model whose step does the same work whatever the position is, when it is given as a tensor."""

    def reserve(self, state: State, steps: int) -> State:
        """The same state with room for so many steps, so that its tensors keep their shapes."""


@dataclass(frozen=True)
class Recording:
    """A step for states of certain shapes, and the memory it reads and writes."""

    graph: torch.cuda.CUDAGraph
    state: State
    """Its position is a tensor."""
    tokens: Tensor
    log_probs: Tensor
    capacity: int
    """Steps that the state has room for."""

    def take(self, state: State) -> None:
        """Begin with a state, of which the parts that this recording wrote itself are in place already."""
        mine = _tensors(self.state)
        for name, tensor in _tensors(state).items():
            if tensor.data_ptr() != mine[name].data_ptr():
                mine[name].copy_(tensor)
        assert isinstance(self.state.position, Tensor)
        self.state.position.fill_(state.position)

    def replay(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """The step from the state that was taken, or that came back last."""
        self.tokens.copy_(tokens)
        self.graph.replay()
        after = self.state
        return self.log_probs, State(dict(after), state.position + 1, after.shared, after.owners, after.history)


class GraphSteps:
    """A model on a GPU whose single steps are CUDA graphs, one for each shape of the state.

    As a state is consumed by its step, so are the log-probabilities that come back by the next. One search at a time.
    """

    def __init__(self, model: RecordableModel) -> None:
        self.model = model
        self.vocabulary_size = model.vocabulary_size
        self._recordings: OrderedDict[Any, Recording] = OrderedDict()
        self._last: tuple[Recording, State] | None = None  # the latest step, and what came back from it
        self._pool = torch.cuda.graph_pool_handle()

    def start(self, size: int, source: Any = None) -> State:
        """The state of `size` sequences before anything was read."""
        return self.model.start(size, source)

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read tokens [batch, time] as the model does: prompts come once."""
        return self.model.read(state, tokens)

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        """Read one token per row, [batch]; return log p(next | all read so far) and the new state."""
        assert isinstance(state.position, int)
        recording = self._last[0] if self._last and self._last[1] is state else None
        if recording is None or state.position >= recording.capacity:
            state = self.model.reserve(state, _capacity(state.position + 1))
            recording = self._recording(state, tokens)
            recording.take(state)
        log_probs, after = recording.replay(state, tokens)
        self._last = recording, after
        return log_probs, after

    def _recording(self, state: State, tokens: Tensor) -> Recording:
        shapes = tuple((name, tensor.shape) for name, tensor in _tensors(state).items())
        recording = self._recordings.pop(shapes, None) or self._record(state, tokens)
        self._recordings[shapes] = recording  # the latest last
        if len(self._recordings) > KEPT:
            self._recordings.popitem(last=False)
        return recording

    def _record(self, state: State, tokens: Tensor) -> Recording:
        assert isinstance(state.position, int)
        mine = state.map(torch.clone)
        mine.position = torch.tensor(state.position, device=tokens.device)
        tokens = tokens.clone()
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):  # libraries set themselves up on first use, which cannot be recorded
            self.model.read(mine, tokens[:, None])
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=self._pool):
            log_probs, after = self.model.read(mine, tokens[:, None])
            for name, tensor in after.items():
                if tensor.data_ptr() != mine[name].data_ptr():
                    mine[name].copy_(tensor)
            mine.position.add_(1)
        return Recording(graph, mine, tokens, log_probs, _capacity(state.position + 1))


def _capacity(steps: int) -> int:
    """Room for so many steps, and some more: one of few different numbers."""
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
