"""Multi-head attention, the way it is computed, and the mask that keeps it from looking ahead."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.config.schema.transformer import TransformerShape
from seqloom.nn.dropout import drop_values
from seqloom.nn.kernels import available
from seqloom.nn.linear import Linear
from seqloom.nn.norms import make_norm
from seqloom.nn.occasions import exporting
from seqloom.nn.state import History, Position, by_row, found, places_from

LONGEST_WRITTEN_OUT = 256
"""Keys up to which attention written out beats the library's kernel on the CPU."""
FEW_QUERIES = 16
"""The same on a GPU, where that kernel is made for many queries."""
LONGEST_WINDOW = 64
"""Queries and keys that one program of our own kernel for GPUs holds."""
FEW_HYPOTHESES = 8
"""Queries about one source, however long, that our kernel for steps takes together."""
SMALLEST_WRITTEN_OUT = 400
"""Multiplications per head from which on it does: the library multiplies smaller batches of matrices naively."""
VECTOR = 16
"""Numbers of float32 that a processor handles at once."""


class MultiHeadAttention(nn.Module):
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d + mask) V, in several heads (Vaswani et al. 2017, section 3.2).

    Where queries, keys and values come from, a kind of attention says: the same window, a cache, the memory of an
    encoder. All of them are [batch, heads, time, d], d the size of a head.
    """

    output: nn.Linear
    """From all heads together to one vector."""

    def __init__(self, config: TransformerShape) -> None:
        super().__init__()
        self.heads, self.memory_heads = config.heads, config.memory_heads
        self.head_size = config.size_per_head
        self.dropout = config.dropout
        self.scaled = config.scaled_scores
        self.query_norm, self.key_norm = (
            make_norm(config, self.head_size) if config.query_key_norm else None for _ in range(2)
        )

    @torch.no_grad()
    def start_queries(self, weight: Tensor) -> None:
        """Let queries begin smaller by √d where scores are not divided by it, as in T5: so these begin alike."""
        if not self.scaled:
            weight /= self.head_size**0.5

    def prepare_queries(self, queries: Tensor) -> Tensor:
        """Projected queries, normed if they shall be, and made larger by √d if scores shall not be divided by it."""
        if self.query_norm is not None:
            queries = self.query_norm(queries).to(queries.dtype)
        return queries if self.scaled else queries * self.head_size**0.5

    def prepare_keys(self, keys: Tensor) -> Tensor:
        """Projected keys, normed if they shall be, one for each head of queries."""
        return self.shared(keys if self.key_norm is None else self.key_norm(keys).to(keys.dtype))

    def shared(self, vectors: Tensor) -> Tensor:
        """Keys or values [batch, memory heads, time, d], each repeated for the heads of queries that share it."""
        if self.memory_heads == self.heads:
            return vectors
        return vectors.repeat_interleave(self.heads // self.memory_heads, dim=1)

    def attend(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """What each query sees, in all heads together: [batch, time, size]. Mask and `causal` are those of `attend`."""
        return self.join(attend(queries, keys, values, mask, causal, self.dropout if self.training else 0.0))

    def join(self, attended: Tensor) -> Tensor:
        """What the heads saw, [batch, heads, time, d], as one vector: [batch, time, size]."""
        return self.output(attended.transpose(1, 2).flatten(2))


class SelfAttention(MultiHeadAttention):
    """Queries, keys and values are made of the same inputs, in one product."""

    def __init__(self, config: TransformerShape) -> None:
        super().__init__(config)
        inner, memory = self.heads * self.head_size, self.memory_heads * self.head_size
        self.parts = (inner, memory, memory)  # queries, keys, values
        self.input = Linear(config.size, sum(self.parts), bias=config.bias)
        self.output = Linear(inner, config.size, bias=config.bias)

    def project(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """inputs [batch, time, size] -> queries, keys, values, each [batch, heads, time, head_size]."""
        heads = self.heads + 2 * self.memory_heads
        together = self.input(inputs).unflatten(-1, (heads, self.head_size)).transpose(1, 2)
        queries, keys, values = together.split((self.heads, self.memory_heads, self.memory_heads), dim=1)
        return self.prepare_queries(queries), self.prepare_keys(keys), self.shared(values)


def attend(queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool, dropout: float) -> Tensor:
    """softmax(Q Kᵀ / √d + mask) V: queries [batch, heads, time, d], keys and values [batch, heads, length, d] -> like
    the queries.

    `mask`, of a shape that fits [batch, heads, time, length], is added to the scores, or says with True which keys a
    query may see; `causal`, instead of a mask, means the usual triangle: query t sees the keys up to t. What a query
    that sees no key gets is finite, and otherwise undefined. `dropout` is the probability that a weight is dropped.

    The library's kernels save time on a GPU and memory on long windows. On the CPU they are slower for all but the
    first words of a sentence, and with dropout save nothing; on a GPU, sentences are too short for them.
    """
    if _suits_kernels(queries, keys, values) and _is_of_keys(mask, queries):
        visible = None if mask is None else mask[:, 0, 0]
        time, length = queries.size(-2), keys.size(-2)
        fits = max(time, length, queries.size(-1)) <= LONGEST_WINDOW
        few = time == 1 if fits else time <= FEW_HYPOTHESES
        lie_together = keys.is_contiguous() and values.is_contiguous()
        if few and visible is not None and not torch.is_grad_enabled() and lie_together:
            from seqloom.nn.kernels.step import attend_source

            return attend_source(queries, keys, values, visible)
        if fits:
            from seqloom.nn.kernels.window import attend_window

            return attend_window(queries, keys, values, visible, causal, dropout)
    if _gains_written_out(queries, keys, mask, dropout):
        return _attend_written_out(queries, keys, values, mask, causal, dropout)
    return F.scaled_dot_product_attention(queries, keys, values, mask, dropout, is_causal=causal)


def _suits_kernels(queries: Tensor, keys: Tensor, values: Tensor) -> bool:
    """Whether our kernels, which compute in float32, can take these."""
    return available(queries) and queries.dtype == keys.dtype == values.dtype != torch.float64


def _is_of_keys(mask: Tensor | None, queries: Tensor) -> bool:
    """Whether a mask says for each key that all queries of its row see it, or none; there may be no mask."""
    return mask is None or (mask.dtype == torch.bool and mask.shape[:3] == (queries.size(0), 1, 1))


def attend_history(
    queries: Tensor, keys: Tensor, values: Tensor, history: History, step: Tensor, mask: Tensor | None
) -> Tensor:
    """Write one step's keys and values into a history, where they are the caches `keys` and `values`, and attend to all
    up to it; all [rows, heads, 1, d]. A mask is added to the scores, and keeps later steps from being seen; without one
    they are not seen either."""
    before = history.caches["keys"], history.caches["values"]
    if mask is None and _suits_kernels(queries, *before):
        from seqloom.nn.kernels import step as kernel

        return kernel.attend_history(queries, keys, values, *before, history.origins, step)
    for cache, new in zip(before, (keys, values), strict=True):
        cache.index_copy_(2, step.view(1), new)
    if mask is None:
        mask = causal_mask(step, 1, history.origins.size(1), queries.device)
    past_keys, past_values = (found(cache, history.origins) for cache in before)
    return attend(queries, past_keys, past_values, mask, False, 0.0)


def _gains_written_out(queries: Tensor, keys: Tensor, mask: Tensor | None, dropout: float) -> bool:
    if exporting.now:  # for engines that have kernels of their own, and for any shape
        return True
    time, length, size = queries.size(-2), keys.size(-2), keys.size(-1)
    if queries.device.type != "cpu":  # the library's kernels are made for many queries
        return not torch.is_grad_enabled() and time <= FEW_QUERIES and length <= LONGEST_WRITTEN_OUT
    if dropout > 0.0:
        return True
    if time == 1 and mask is not None and mask.dim() == 4:  # a step of rows that see keys of their own
        return True  # for the kernel divides keys among threads by the number of rows, which its sums would tell of
    return time * length * size >= SMALLEST_WRITTEN_OUT and length <= LONGEST_WRITTEN_OUT


def _attend_written_out(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool, dropout: float
) -> Tensor:
    scores = torch.matmul(queries * queries.size(-1) ** -0.5, keys.transpose(-1, -2))
    # What is done value by value is faster in float32, and the weights more exact.
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    if causal:
        mask = torch.ones(scores.shape[-2:], dtype=torch.bool, device=scores.device).tril()
    if mask is not None:
        scores = scores.add_(_finite_bias(mask, scores.dtype))
    weights = drop_values(_softmax(scores), dropout, training=True)
    return torch.matmul(weights.to(values.dtype), values)


def _finite_bias(mask: Tensor, dtype: torch.dtype) -> Tensor:
    """What a mask adds to the scores: for a key out of sight the lowest finite number rather than -inf, so that a row
    without any key in sight stays finite, and so do its gradients."""
    lowest = torch.finfo(dtype).min
    if mask.dtype == torch.bool:
        return torch.zeros(mask.shape, dtype=dtype, device=mask.device).masked_fill_(~mask, lowest)
    return mask.to(dtype).clamp(min=lowest)


def _softmax(scores: Tensor) -> Tensor:
    """Softmax over the keys. The library's is many times slower where a row does not fill a vector: then rows are
    made longer by keys that no query sees."""
    length = scores.size(-1)
    if exporting.now or length >= VECTOR:
        return scores.softmax(-1)
    return F.pad(scores, (0, VECTOR - length), value=-torch.inf).softmax(-1)[..., :length]


def causal_mask(start: Position, time: int, length: int, device: torch.device) -> Tensor:
    """Which of `length` keys the positions start, ..., start + time - 1 may see: [time, length], or [rows, 1, time,
    length] where rows stand at places of their own; True for yes."""
    seen = torch.arange(length, device=device) <= places_from(start, time, device).unsqueeze(-1)
    return seen.unsqueeze(1) if by_row(start) else seen
