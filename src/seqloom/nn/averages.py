"""Averages of the history: the two simplest feature layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.nn.attention import attend
from seqloom.nn.cache import extend, reserve, valid
from seqloom.nn.features import FeatureLayer
from seqloom.nn.linear import Linear
from seqloom.nn.output.base import exact
from seqloom.nn.state import State, by_row, places_from


class Average(FeatureLayer):
    """h_t = (1/t) Σ_{i≤t} e_i: a bag of words, order forgotten.

    The state holds the sum; the number of summands is the state's position.
    """

    joins = True

    def __init__(self, input_size: int) -> None:
        super().__init__()
        self.output_size = input_size

    def start(self, size: int, like: Tensor) -> State:
        return State({"sum": exact(like.new_zeros(size, self.output_size))})

    def forward(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        end = state.position + inputs.size(1)
        sums = exact(inputs).cumsum(1)  # a short type would soon forget what is added
        if isinstance(state.position, Tensor) or state.position > 0:
            sums = sums + state["sum"].unsqueeze(1)
        counts = 1 + places_from(state.position, inputs.size(1), inputs.device, sums.dtype)
        return (sums / counts.unsqueeze(-1)).to(inputs.dtype), State({"sum": sums[:, -1]}, end)


class AttentionAverage(FeatureLayer):
    """h_t = Σ_{i≤t} α_i e_i: the last word decides how much each word so far counts, near words more.

    α = softmax over i of q(e_t)·k(e_i) / √d - softplus(decay) · (t - i), with linear maps q, k and a learned scalar
    decay (a linear penalty on distance, as in Press et al. 2022, https://arxiv.org/abs/2108.12409).
    """

    joins = True

    def __init__(self, input_size: int) -> None:
        super().__init__()
        self.output_size = input_size
        self.query = Linear(input_size, input_size, bias=False)
        self.key = Linear(input_size, input_size, bias=False)
        self.decay = nn.Parameter(torch.tensor(-2.0))  # softplus(-2) ≈ 0.13: a word eight steps back counts 1/e

    def start(self, size: int, like: Tensor) -> State:
        return State({name: like.new_zeros(size, 0, self.output_size) for name in ("keys", "inputs")})

    def forward(self, inputs: Tensor, state: State) -> tuple[Tensor, State]:
        begin, end = state.position, state.position + inputs.size(1)
        keys = extend(state["keys"], self.key(inputs), begin)
        values = extend(state["inputs"], inputs, begin)
        steps = torch.arange(valid(keys, end).size(1), device=inputs.device)
        distance = places_from(begin, inputs.size(1), inputs.device).unsqueeze(-1) - steps  # [..., time, steps]
        penalty = -F.softplus(self.decay) * distance
        bias = penalty.masked_fill(distance < 0, -torch.inf)
        queries = self.query(inputs)
        past = valid(keys, end), valid(values, end).to(queries.dtype)
        if by_row(begin):
            asking, known, seen = (tensor.unsqueeze(1) for tensor in (queries, *past))  # one head
            features = attend(asking, known, seen, bias.to(queries.dtype).unsqueeze(1), False, 0.0).squeeze(1)
        else:
            features = F.scaled_dot_product_attention(queries, *past, attn_mask=bias.to(queries.dtype))
        return features, State({"keys": keys, "inputs": values}, end)

    def reserve(self, state: State, steps: int) -> State:
        return state.map_rows(lambda cache: reserve(cache, state.position, steps))
