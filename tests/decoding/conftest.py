"""Models small enough to know everything about: tables of conditional probabilities."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from seqloom.decoding import graphs
from seqloom.nn.state import State
from seqloom.text.special import BOS, EOS, PAD


class TableModel:
    """log p(next | the last `order` tokens), from a table [vocabulary] * order + [vocabulary].

    It insists on the protocol: `<bos>` first and only first, never `<pad>` or `<eos>`; and it overwrites the state
    that it reads, so that reading one twice is found out.
    """

    def __init__(self, table: Tensor) -> None:
        self.table = table
        self.order = table.dim() - 1
        self.vocabulary_size = table.shape[-1]
        self.rows_stepped: list[int] = []
        self.lengths_read: list[int] = []

    def start(self, size: int, source: Any = None) -> State:
        return State({"window": torch.full((size, self.order), PAD), "used": torch.zeros(size, dtype=torch.bool)})

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        self.rows_stepped.append(len(tokens))
        return self._advance(state, tokens)

    def reserve(self, state: State, steps: int) -> State:
        return state

    def read(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        assert tokens.shape[1] >= 1
        self.lengths_read.append(tokens.shape[1])
        for column in tokens.T:
            log_probs, state = self._advance(state, column)
        return log_probs, state

    def _advance(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        assert tokens.shape == (len(state["window"]),)
        assert not state["used"].any(), "a state was read twice"
        assert not torch.isin(tokens, torch.tensor([PAD, EOS])).any(), "<pad> or <eos> was read"
        assert bool((tokens == BOS).all()) == (state.position == 0), "<bos> is read first, and only first"
        window = torch.cat([state["window"][:, 1:], tokens[:, None]], dim=1)
        state["used"].fill_(True)
        log_probs = self.table[tuple(window.T)]
        return log_probs, State({"window": window, "used": torch.zeros_like(state["used"])}, state.position + 1)


class ByHand(graphs.GraphSteps):
    """What a GPU's steps are where nothing can be recorded: a replay does again what would have been recorded, on the
    recording's own tensors."""

    def __init__(self, model: Any) -> None:
        super().__init__(model)
        self.rows_stepped: list[int] = []

    def step(self, state: State, tokens: Tensor) -> tuple[Tensor, State]:
        self.rows_stepped.append(len(tokens))
        return super().step(state, tokens)

    def _record(self, state: State, tokens: Tensor, capacity: int) -> graphs.Recording:
        log_probs = self._advance(*graphs._copied(state, tokens)).clone()
        own = mine, position, tokens = graphs._copied(state, tokens)
        graph = SimpleNamespace(replay=lambda: log_probs.copy_(self._advance(*own)))
        return graphs.Recording(graph, mine, position, tokens, log_probs, capacity)  # type: ignore[arg-type]


@pytest.fixture(scope="session")
def by_hand() -> type[ByHand]:
    return ByHand


@pytest.fixture(scope="session")
def table_model() -> type[TableModel]:
    return TableModel


@pytest.fixture(scope="session")
def random_model():
    """A function that makes a model of random conditional distributions that remembers `order` tokens."""

    def make(seed: int, words: int = 2, order: int = 2, sharpness: float = 1.0) -> TableModel:
        size = 4 + words
        generator = torch.Generator().manual_seed(seed)
        logits = sharpness * torch.randn([size] * (order + 1), generator=generator)
        return TableModel(logits.log_softmax(dim=-1))

    return make


@pytest.fixture(scope="session")
def rescore():
    """A function that sums a sequence's log-probabilities from the table itself, `<bos>` and prompt given."""

    def sum_up(model: TableModel, prompt, tokens) -> float:
        window = [PAD] * (model.order - 1) + [BOS, *prompt]
        total = 0.0
        for token in tokens:
            total += float(model.table[(*window[-model.order :], token)])
            window.append(token)
        return total

    return sum_up


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
