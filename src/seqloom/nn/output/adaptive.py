"""The adaptive softmax: rare words share clusters of their own, with fewer dimensions."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from seqloom.nn.output.base import OutputLayer, exact


class AdaptiveSoftmax(OutputLayer):
    """Frequent words and one entry for each cluster of rarer ones in a first softmax; a second one in each cluster,

    over features projected to fewer dimensions (Grave et al. 2017, https://arxiv.org/abs/1609.04309). The layer is
    torch's own; here the words are put in its order, by frequency.
    """

    ranks: Tensor
    cutoffs: Tensor

    def __init__(self, input_size: int, ranks: Tensor, cutoffs: Tensor, shrink: float) -> None:
        """ranks: of each word by frequency, from 0, [vocabulary]; cutoffs: where clusters begin; shrink: by how much a
        cluster has fewer dimensions than the one before it."""
        super().__init__(input_size, len(ranks))
        if not torch.equal(ranks.sort().values, torch.arange(len(ranks), device=ranks.device)) or not len(cutoffs):
            raise ValueError("each word has a rank of its own, and a cluster begins somewhere")
        self.register_buffer("ranks", ranks)
        self.register_buffer("cutoffs", cutoffs)
        shrink = min(shrink, (input_size * (1 - 1e-9)) ** (1 / len(cutoffs)))  # the last cluster has a dimension left
        self.clusters = nn.AdaptiveLogSoftmaxWithLoss(input_size, len(ranks), cutoffs.tolist(), div_value=shrink)

    def log_prob(self, features: Tensor, targets: Tensor) -> Tensor:
        with torch.autocast(features.device.type, enabled=False):  # the layer mixes types under it
            flat = exact(features.reshape(-1, self.input_size))
            return self.clusters(flat, self.ranks[targets.reshape(-1)]).output.view(targets.shape)

    def log_probs(self, features: Tensor) -> Tensor:
        by_rank = exact(self.clusters.log_prob(features.reshape(-1, self.input_size)))
        return by_rank.index_select(1, self.ranks).view(*features.shape[:-1], self.vocabulary_size)


def frequency_ranks(counts: Tensor) -> Tensor:
    """The place of each word by frequency, the most frequent first, [vocabulary]."""
    return torch.argsort(torch.argsort(counts, descending=True, stable=True))


def coverage_cutoffs(counts: Tensor, shares: tuple[float, ...] = (0.8, 0.95)) -> list[int]:
    """Where clusters begin so that the words before make up these shares of a text."""
    total = counts.double().sort(descending=True).values.cumsum(0)
    places = torch.searchsorted(total, total[-1] * torch.tensor(shares, dtype=torch.float64)) + 1
    return sorted({place for place in places.tolist() if place < len(counts)}) or [max(1, len(counts) // 2)]
