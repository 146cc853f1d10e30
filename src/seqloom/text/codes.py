"""Binary codes: each word a path of left and right turns from the root of a tree to its leaf."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.text.likeness import halves, unit_vectors


@dataclass(frozen=True)
class BinaryCodes:
    """The paths of V words through the V - 1 inner nodes of a binary tree; node 0 is the root."""

    lengths: NDArray[np.int64]
    """How many turns lead to each word. [V]"""
    nodes: NDArray[np.int64]
    """The inner nodes on its path, root first; 0 after the last. [V, depth]"""
    turns: NDArray[np.bool_]
    """Where the path turns at each of them: True is right. [V, depth]"""


def huffman_codes(counts: NDArray[Any]) -> BinaryCodes:
    """The codes with the smallest total length Σ_w c(w)·l(w) (Huffman 1952).

    The two lightest trees are joined until one is left. Words wait in one queue, lightest first; joined trees come into
    being in the order of their weights and wait in a second: the lightest is at the head of one of the two. Of equal
    weights words go first, later ones before earlier, so that the same counts always give the same codes.
    """
    if len(counts) == 0:
        raise ValueError("a code needs a word at least")
    return _paths(*_join(np.asarray(counts)))


def balanced_codes(size: int) -> BinaryCodes:
    """Codes of which no two differ in length by more than one turn: those of words that are all as frequent."""
    return huffman_codes(np.ones(size, np.int64))


def vector_codes(vectors: NDArray[Any], counts: NDArray[Any]) -> BinaryCodes:
    """Codes that begin alike where words are alike, by their vectors [V, size] (after Mnih & Hinton 2008).

    Words are split in two again and again, each with the weight of its count: rare words, whose vectors are noise, do
    not decide where, and both halves stand about equally often in the text, so that frequent words have short codes. A
    word never seen counts as seen once.
    """
    size, weights, directions = len(counts), np.maximum(counts, 1), unit_vectors(vectors)
    parents, is_right = np.zeros(2 * size - 1, np.int64), np.zeros(2 * size - 1, np.bool_)
    inner = iter(range(2 * size - 2, size - 1, -1))
    waiting = [(np.arange(size), 0, False)]
    while waiting:
        words, parent, turn = waiting.pop()
        tree = next(inner) if len(words) > 1 else int(words[0])
        parents[tree], is_right[tree] = parent, turn
        if len(words) > 1:
            left, right = halves(directions[words], weights[words])
            waiting += [(words[left], tree, False), (words[right], tree, True)]
    return _paths(parents, is_right)


def _paths(parents: NDArray[np.int64], is_right: NDArray[np.bool_]) -> BinaryCodes:
    """The codes by the parent of each tree and whether it is the right child: words first, root last."""
    root = len(parents) - 1
    size = root // 2 + 1
    steps = []  # from the leaves up
    above = np.arange(size)
    while (climbing := above != root).any():
        turn = is_right[above]
        above = np.where(climbing, parents[above], root)
        steps.append((root - above, turn, climbing))
    lengths = sum((climbing for _, _, climbing in steps), np.zeros(size, np.int64))
    nodes = np.zeros((size, max(len(steps), 1)), np.int64)
    turns = np.zeros(nodes.shape, np.bool_)
    for height, (node, turn, climbing) in enumerate(steps):
        words = np.flatnonzero(climbing)
        places = lengths[words] - 1 - height
        nodes[words, places] = node[words]
        turns[words, places] = turn[words]
    return BinaryCodes(lengths, nodes, turns)


def _join(counts: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The parent of each tree and whether it is the right child: words first, joined trees after them, root last."""
    size = len(counts)
    order = np.argsort(counts[::-1], kind="stable")
    leaves = (size - 1 - order).tolist()
    weights = counts[leaves].tolist()
    weights.append(float("inf"))  # so that a queue is never empty
    joined = [float("inf")] * (size + 1)
    parents = [0] * (2 * size - 1)
    leaf, tree = 0, 0
    lighter = [0] * (size - 1)
    for made in range(size - 1):
        if weights[leaf] <= joined[tree]:
            left, left_weight = leaves[leaf], weights[leaf]
            leaf += 1
        else:
            left, left_weight = size + tree, joined[tree]
            tree += 1
        if weights[leaf] <= joined[tree]:
            right, right_weight = leaves[leaf], weights[leaf]
            leaf += 1
        else:
            right, right_weight = size + tree, joined[tree]
            tree += 1
        joined[made] = left_weight + right_weight
        parents[left] = parents[right] = size + made
        lighter[made] = left
    is_right = np.ones(2 * size - 1, np.bool_)
    is_right[lighter] = False
    return np.array(parents, np.int64), is_right
