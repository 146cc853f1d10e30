"""Multi-head attention and the mask that keeps it from looking ahead."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class MultiHeadAttention(nn.Module):
    """Attention(Q, K, V) = softmax(Q Kᵀ / √d + mask) V, in several heads (Vaswani et al. 2017, section 3.2).

    `project` makes queries, keys and values of the same inputs in one product; calling the module attends from queries
    to keys and values, wherever they come from: the same window, a cache, the memory of an encoder.
    """

    def __init__(self, size: int, heads: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.heads = heads
        self.head_size = size // heads
        self.dropout = dropout
        self.input = nn.Linear(size, 3 * size)  # queries, keys, values
        self.output = nn.Linear(size, size)

    def project(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """inputs [batch, time, size] -> queries, keys, values, each [batch, heads, time, head_size]."""
        together = self.input(inputs).unflatten(-1, (3, self.heads, self.head_size))
        queries, keys, values = together.permute(2, 0, 3, 1, 4)
        return queries, keys, values

    def forward(self, queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, causal: bool) -> Tensor:
        """queries [batch, heads, time, head_size], keys and values of `length` steps -> [batch, time, size].

        `mask` is added to the scores, or says with True which keys a query may see; `causal` means the usual triangle
        without making it: query t sees the keys up to t.
        """
        dropout = self.dropout if self.training else 0.0
        attended = F.scaled_dot_product_attention(queries, keys, values, mask, dropout, is_causal=causal)
        return self.output(attended.transpose(1, 2).flatten(2))


def causal_mask(start: int, time: int, device: torch.device) -> Tensor:
    """Which of start + time keys each of the last `time` positions may see: [time, start + time], True for yes."""
    return torch.ones(time, start + time, dtype=torch.bool, device=device).tril(start)
