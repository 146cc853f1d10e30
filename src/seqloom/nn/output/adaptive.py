"""The adaptive softmax: rare words share clusters of their own, with fewer dimensions."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.nn.linear import linear
from seqloom.nn.output.base import OutputLayer, exact


class AdaptiveSoftmax(OutputLayer):
    """Frequent words and one entry for each cluster of rarer ones in a first softmax, the head; a second one in each

    cluster, its tail, over features projected to fewer dimensions (Grave et al. 2017, https://arxiv.org/abs/1609.04309).
    Words stand in the order of their frequency, and all scores have biases.
    """

    ranks: Tensor
    cutoffs: Tensor

    def __init__(self, input_size: int, ranks: Tensor, cutoffs: Tensor, bias: Tensor, shrink: float) -> None:
        """ranks: of each word by frequency, from 0, [vocabulary]; cutoffs: where clusters begin; bias: of each word at
        the start, by rank; shrink: by how much a cluster has fewer dimensions than the one before it."""
        super().__init__(input_size, len(ranks))
        if not torch.equal(ranks.sort().values, torch.arange(len(ranks), device=ranks.device)):
            raise ValueError("each word has a rank of its own")
        self.starts: list[int] = cutoffs.tolist()
        if not self.starts or [0, *self.starts, len(ranks)] != sorted({0, *self.starts, len(ranks)}):
            raise ValueError("clusters begin one after the other, and each has words")
        self.register_buffer("ranks", ranks)
        self.register_buffer("cutoffs", cutoffs)
        self.bias = nn.Parameter(bias.clone())
        _, *tails = bias.tensor_split(self.starts)
        self.cluster_bias = nn.Parameter(torch.stack([tail.logsumexp(0) for tail in tails]))
        shrink = min(shrink, (input_size * (1 - 1e-9)) ** (1 / len(tails)))  # the last cluster has a dimension left
        widths = [int(input_size // shrink**number) for number in range(1, len(tails) + 1)]
        self.head = _weight(self.starts[0] + len(tails), input_size)
        self.projections = nn.ParameterList(_weight(width, input_size) for width in widths)
        self.tails = nn.ParameterList(_weight(len(tail), width) for tail, width in zip(tails, widths, strict=True))

    def log_prob(self, features: Tensor, targets: Tensor) -> Tensor:
        flat, ranks = features.reshape(-1, self.input_size), self.ranks[targets.reshape(-1)]
        clusters = torch.bucketize(ranks, self.cutoffs, right=True)  # 0 is the head
        entries = torch.where(clusters == 0, ranks, self.starts[0] - 1 + clusters)
        found = -F.cross_entropy(self._head_scores(flat), entries, reduction="none")
        for tail, first in enumerate(self.starts):
            rows = (clusters == tail + 1).nonzero().squeeze(1)
            within = F.cross_entropy(self._tail_scores(flat[rows], tail), ranks[rows] - first, reduction="none")
            found = found.index_add(0, rows, -within)
        return found.view(targets.shape)

    def log_probs(self, features: Tensor) -> Tensor:
        words, clusters = F.log_softmax(self._head_scores(features), dim=-1).tensor_split(self.starts[:1], dim=-1)
        tails = [
            reached + F.log_softmax(self._tail_scores(features, tail), dim=-1)
            for tail, reached in enumerate(clusters.split(1, dim=-1))
        ]
        return torch.cat([words, *tails], dim=-1).index_select(-1, self.ranks)

    def _head_scores(self, features: Tensor) -> Tensor:
        """Of the frequent words, then of the clusters."""
        return _linear(features, self.head, torch.cat([self.bias[: self.starts[0]], self.cluster_bias]))

    def _tail_scores(self, features: Tensor, tail: int) -> Tensor:
        """Of the words of a cluster."""
        narrow = _linear(features, self.projections[tail])
        return _linear(narrow, self.tails[tail], self.bias.tensor_split(self.starts)[tail + 1])


def frequency_ranks(counts: Tensor) -> Tensor:
    """The place of each word by frequency, the most frequent first, [vocabulary]."""
    return torch.argsort(torch.argsort(counts, descending=True, stable=True))


def coverage_cutoffs(counts: Tensor, shares: tuple[float, ...] = (0.8, 0.95)) -> list[int]:
    """Where clusters begin so that the words before make up these shares of a text."""
    total = counts.double().sort(descending=True).values.cumsum(0)
    places = torch.searchsorted(total, total[-1] * torch.tensor(shares, dtype=torch.float64)) + 1
    return sorted({place for place in places.tolist() if place < len(counts)}) or [max(1, len(counts) // 2)]


def _weight(rows: int, columns: int) -> nn.Parameter:
    return nn.Parameter(torch.randn(rows, columns) * columns**-0.5)


def _linear(features: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """Products of the weights' own type, under autocast too."""
    with torch.autocast(features.device.type, enabled=False):
        return exact(linear(features.to(weight.dtype), weight, bias))
