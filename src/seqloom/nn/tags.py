"""From the scores of tags to the probability of a sequence of them."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F


class IndependentTags(nn.Module):
    """p(y | x) = Π_t softmax(score_t)[y_t]: each tag by itself."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.tags = tags

    def loss(self, scores: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        """scores [rows, time, tags], targets and mask [rows, time] -> -log p, summed over all rows."""
        return F.cross_entropy(scores[mask].float(), targets[mask], reduction="sum")

    def best(self, scores: Tensor, mask: Tensor) -> Tensor:
        """The likeliest tags [rows, time]; anything where mask is False."""
        return scores.argmax(-1)


class Crf(nn.Module):
    """A linear-chain conditional random field (Lafferty et al. 2001):

        log p(y | x) = Σ_t score_t[y_t] + begin[y_1] + Σ_t next[y_{t-1}, y_t] + end[y_T] - log Z(x)

    log Z by the forward algorithm, the best sequence by Viterbi's. Rows have one word at least, padding after the rest.
    """

    def __init__(self, tags: int) -> None:
        super().__init__()
        self.begin, self.end = nn.Parameter(torch.zeros(tags)), nn.Parameter(torch.zeros(tags))
        self.next = nn.Parameter(torch.zeros(tags, tags))

    def loss(self, scores: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        """scores [rows, time, tags], targets and mask [rows, time] -> -log p, summed over all rows."""
        with torch.autocast(scores.device.type, enabled=False):
            scores = scores.float()
            return (self._normaliser(scores, mask) - self._score(scores, targets, mask)).sum()

    def _score(self, scores: Tensor, targets: Tensor, mask: Tensor) -> Tensor:
        words = scores.gather(2, targets.unsqueeze(2)).squeeze(2).masked_fill(~mask, 0.0).sum(1)
        steps = self.next[targets[:, :-1], targets[:, 1:]].masked_fill(~mask[:, 1:], 0.0).sum(1)
        last = targets.gather(1, mask.sum(1, keepdim=True) - 1).squeeze(1)
        return words + steps + self.begin[targets[:, 0]] + self.end[last]

    def _normaliser(self, scores: Tensor, mask: Tensor) -> Tensor:
        total = self.begin + scores[:, 0]  # [rows, tags]: log of the sum over all beginnings that end in a tag
        for step in range(1, scores.size(1)):
            longer = torch.logsumexp(total.unsqueeze(2) + self.next, dim=1) + scores[:, step]
            total = torch.where(mask[:, step].unsqueeze(1), longer, total)
        return torch.logsumexp(total + self.end, dim=1)

    @torch.no_grad()
    def best(self, scores: Tensor, mask: Tensor) -> Tensor:
        """The likeliest sequences [rows, time]; 0 where mask is False."""
        scores = scores.float()
        total = self.begin + scores[:, 0]
        came_from = []
        stay = torch.arange(total.size(1), device=total.device).expand_as(total)
        for step in range(1, scores.size(1)):
            longer, before = (total.unsqueeze(2) + self.next).max(1)
            real = mask[:, step].unsqueeze(1)
            total = torch.where(real, longer + scores[:, step], total)
            came_from.append(torch.where(real, before, stay))  # over padding, a sequence stays what it is
        tags = [(total + self.end).argmax(1)]
        for before in reversed(came_from):
            tags.append(before.gather(1, tags[-1].unsqueeze(1)).squeeze(1))
        return torch.stack(tags[::-1], dim=1).masked_fill(~mask, 0)
