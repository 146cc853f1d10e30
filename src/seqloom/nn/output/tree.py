"""The softmax as a walk down a binary tree."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.nn.linear import linear
from seqloom.nn.output.base import OutputLayer, exact


class TreeSoftmax(OutputLayer):
    """p(w | h) = Π_j σ(± (v_j · h + b_j))   over the inner nodes j on the way from the root to the leaf w,

    + where the way turns right, - where it turns left (Morin & Bengio 2005; Mnih & Hinton 2008). A word costs as many
    scores as its leaf is deep: log₂ V in a balanced tree, on average about the entropy of the words in Huffman's.
    """

    nodes: Tensor
    turns: Tensor
    above: Tensor
    sides: Tensor
    by_level: Tensor

    def __init__(self, input_size: int, nodes: Tensor, turns: Tensor, bias: Tensor) -> None:
        """The way to each word through V - 1 inner nodes, of which 0 is the root.

        nodes: the inner nodes on the way, root first, [vocabulary, depth].
        turns: 1 for right, -1 for left, 0 after the last, [vocabulary, depth].
        bias: b of each inner node at the start, as of `tree_bias`.
        """
        super().__init__(input_size, len(nodes))
        _check(nodes.long(), turns)
        self.register_buffer("nodes", nodes.int())
        self.register_buffer("turns", turns.to(torch.int8))
        inner = max(1, len(nodes) - 1)
        above, sides, self.level_sizes, by_level = _inner_nodes(nodes.long(), turns.to(torch.int8), inner)
        for name, tensor in (("above", above), ("sides", sides), ("by_level", by_level)):
            self.register_buffer(name, tensor, persistent=False)
        self.weight = nn.Parameter(torch.randn(inner, input_size) * input_size**-0.5)
        self.bias = nn.Parameter(bias.clone())

    def log_prob(self, features: Tensor, targets: Tensor) -> Tensor:
        flat, words = features.reshape(-1, self.input_size), targets.reshape(-1)
        turns = self.turns[words]
        taken = turns != 0
        rows = taken.nonzero()[:, 0]
        nodes = self.nodes[words][taken]
        scores = (flat.index_select(0, rows) * F.embedding(nodes, self.weight)).sum(1) + self.bias[nodes]
        decisions = F.logsigmoid(exact(scores) * turns[taken])
        return decisions.new_zeros(len(words)).index_add(0, rows, decisions).view(targets.shape)

    def log_probs(self, features: Tensor) -> Tensor:
        scores = exact(linear(features, self.weight, self.bias))
        reached = torch.zeros_like(scores)  # log p that the walk comes to an inner node
        for level in self.by_level.split(self.level_sizes):
            arrived = _arrive(scores, reached, self.above[level], self.sides[level])
            reached = reached.index_copy(-1, level, arrived)
        last = (self.turns != 0).sum(1, keepdim=True).sub(1).clamp(min=0)
        parents = self.nodes.long().gather(1, last).squeeze(1)
        return _arrive(scores, reached, parents, self.turns.gather(1, last).squeeze(1))


def tree_bias(nodes: Tensor, turns: Tensor, counts: Tensor) -> Tensor:
    """Biases of the inner nodes that make p(w) ∝ c(w); a word never seen counts as seen once."""
    seen = counts.double().clamp(min=1.0).unsqueeze(1).expand(nodes.shape)
    right, left = (
        torch.bincount(nodes[turns == turn], seen[turns == turn], minlength=max(1, len(nodes) - 1)) for turn in (1, -1)
    )
    return (right / left).log().nan_to_num().float()  # a tree of one word has a node, but no choice there


def _check(nodes: Tensor, turns: Tensor) -> None:
    """Refuse, with a ValueError, ways that are not those of one tree whose leaves are the words."""
    words, taken = len(nodes), turns != 0
    inner = max(1, words - 1)
    if ((nodes < 0) | (nodes >= inner) | (turns < -1) | (turns > 1)).any() or (taken[:, 1:] & ~taken[:, :-1]).any():
        raise ValueError("a way leads through nodes and turns that there are not")
    # A step leads from a side of a node to a node or, when it is the last, to a leaf: one to one, and from every side.
    leaves = inner + torch.arange(words, device=nodes.device).unsqueeze(1)
    further = torch.cat([taken[:, 1:], torch.zeros_like(taken[:, :1])], dim=1)
    ends = torch.where(further, nodes.roll(-1, 1), leaves)[taken]
    sides = (2 * nodes + (turns > 0))[taken]
    end_of, side_of = nodes.new_full((2 * words - 2,), -1), nodes.new_full((inner + words,), -1)
    end_of[sides], side_of[ends] = ends, sides
    one_to_one = (end_of[sides] == ends).all() and (side_of[ends] == sides).all()
    if nodes[:, 0].any() or not one_to_one or (end_of < 0).any():
        raise ValueError("the ways to the words are not those of a tree")


def _arrive(scores: Tensor, reached: Tensor, parents: Tensor, turns: Tensor) -> Tensor:
    """log p that the walk comes to nodes or leaves, by their parents and the turns there; no turn is no choice."""
    decisions = F.logsigmoid(scores.index_select(-1, parents) * turns).masked_fill(turns == 0, 0.0)
    return reached.index_select(-1, parents) + decisions


def _inner_nodes(nodes: Tensor, turns: Tensor, inner: int) -> tuple[Tensor, Tensor, list[int], Tensor]:
    """Of each inner node the one above it and the turn there; how many there are on each level, and which."""
    above = torch.zeros(inner, dtype=torch.int64, device=nodes.device)
    sides = torch.zeros(inner, dtype=torch.int8, device=nodes.device)
    levels = []
    for depth in range(1, nodes.size(1)):
        further = turns[:, depth] != 0
        here = nodes[further, depth]
        above[here] = nodes[further, depth - 1]
        sides[here] = turns[further, depth - 1]
        levels.append(torch.unique(here))
    return above, sides, [len(level) for level in levels], torch.cat([above[:0], *levels])
