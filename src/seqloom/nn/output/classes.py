"""The softmax in two levels: first the class of the word, then the word within its class."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from seqloom.nn.linear import linear
from seqloom.nn.output.base import OutputLayer, exact
from seqloom.nn.output.softmax import ABSENT
from seqloom.text.likeness import halves, unit_vectors

BLOCK = 64  # rows of one class that are multiplied together on a GPU, or a multiple of it


class ClassSoftmax(OutputLayer):
    """p(w | h) = p(c | h) · p(w | c, h),   c the class of w,   both a softmax (Goodman 2001,
    https://arxiv.org/abs/cs/0108006).

    With about √V classes of about √V words, a word costs 2 √V scores instead of V.

    A processor works class by class. A GPU would wait for so many small products, and before them for the number of
    rows of each; there all classes are filled up to the same number of words, the width M, and worked on at once.
    """

    classes: Tensor
    places: Tensor
    firsts: Tensor
    slots: Tensor

    def __init__(self, input_size: int, classes: Tensor, class_bias: Tensor, bias: Tensor) -> None:
        """classes: of each word, [vocabulary], numbered from 0 without gaps; biases as of `class_biases`."""
        super().__init__(input_size, len(classes))
        self.register_buffer("classes", classes)
        if not torch.equal(classes.unique(), torch.arange(len(class_bias), device=classes.device)):
            raise ValueError("classes are numbered from 0 without gaps, and each has a bias")
        sizes = torch.bincount(classes)
        self.sizes: list[int] = sizes.tolist()
        by_class = torch.argsort(classes, stable=True)
        self.register_buffer("places", torch.argsort(by_class), persistent=False)  # of each word, words by class
        self.register_buffer("firsts", sizes.cumsum(0) - sizes, persistent=False)  # of each class
        self.width = _eights(max(self.sizes))
        ordered = classes[by_class]
        within = torch.arange(len(classes), device=classes.device) - self.firsts[ordered]
        self.register_buffer("slots", ordered * self.width + within, persistent=False)  # of words by class, M for each
        # The weights of the words stand by class, so that those of a class are one piece.
        std = input_size**-0.5
        self.class_weight = nn.Parameter(torch.randn(len(sizes), input_size) * std)
        self.class_bias = nn.Parameter(class_bias.clone())
        self.weight = nn.Parameter(torch.randn(len(classes), input_size) * std)
        self.bias = nn.Parameter(bias.clone())

    def log_prob(self, features: Tensor, targets: Tensor) -> Tensor:
        flat, words = features.reshape(-1, self.input_size), targets.reshape(-1)
        classes = self.classes[words]
        of_class = F.cross_entropy(linear(flat, self.class_weight, self.class_bias), classes, reduction="none")
        within = self._surprise_within if self.waits else self._surprise_in_blocks
        return -(exact(of_class) + within(flat, words, classes)).view(targets.shape)

    @property
    def waits(self) -> bool:
        """Whether classes are taken one after the other: on a processor, where classes filled up have many times the
        words there are, and where so few classes are that each score counts for many words."""
        return self.weight.device.type == "cpu" or max(len(self.sizes), 32) * self.width > 8 * self.vocabulary_size

    def _surprise_within(self, features: Tensor, words: Tensor, classes: Tensor) -> Tensor:
        """-log p(w | c, h): the rows of a class together, class by class."""
        order = torch.argsort(classes)
        within = (self.places[words] - self.firsts[classes])[order]
        counts = torch.bincount(classes, minlength=len(self.sizes)).tolist()
        parts = zip(
            features[order].split(counts),
            within.split(counts),
            self.weight.split(self.sizes),  # as views: their gradients are put together once
            self.bias.split(self.sizes),
            strict=True,
        )
        certain = exact(features.new_zeros(()))
        found = [
            F.cross_entropy(exact(F.linear(rows, weight, bias)), targets, reduction="none")
            if len(weight) > 1
            else certain.expand(len(rows))  # a class of one word
            for rows, targets, weight, bias in parts
            if len(rows)
        ]
        return torch.cat(found)[torch.argsort(order)] if found else certain.expand(0)

    def _surprise_in_blocks(self, features: Tensor, words: Tensor, classes: Tensor) -> Tensor:
        """-log p(w | c, h): rows lie in blocks, each of one class, and every block meets the words of its class.

        Blocks of B rows are n/B + C at most, for n rows and C classes, so that nobody need ask a GPU how many there
        are. The last block of a class is filled up with zeros, and those that are left over have nothing else.
        """
        count, number, device = len(words), len(self.sizes), features.device
        if not count:
            return exact(features.new_zeros(0))
        block = BLOCK * max(1, count // (BLOCK * number))
        blocks = _eights(min(count, count // block + number))
        autocast = torch.is_autocast_enabled(device.type)
        kind = torch.get_autocast_dtype(device.type) if autocast else self.weight.dtype

        # Rows by class, those of a class from where its first block begins.
        order = torch.argsort(classes, stable=True)
        numbers = torch.arange(number, device=device)
        ends = torch.searchsorted(classes[order], numbers, right=True)
        counts = ends.diff(prepend=ends.new_zeros(1))
        taken = (counts + (block - 1)) // block
        after = taken.cumsum(0)
        shifts = (after - taken) * block - (ends - counts)
        places = torch.empty_like(order).scatter_(0, order, torch.arange(count, device=device))
        slots = places + shifts[classes]
        rows = features.new_zeros(blocks * block, self.input_size, dtype=kind).index_copy(0, slots, features.to(kind))

        # A product with zeros and ones gives each block the weights of its class. The gradient of that is a product
        # too, which adds up the blocks of a class in the same order every time.
        owners = torch.searchsorted(after, torch.arange(blocks, device=device), right=True)
        owned = (numbers.unsqueeze(1) == owners).to(kind)  # [C, blocks]
        weight = owned.mT @ self._filled(self.weight.to(kind), 0, 0.0).flatten(1)
        # Not so the biases, for products of float32 may round what they multiply.
        bias = F.embedding(owners.clamp(max=number - 1), self._filled(self.bias, 0, ABSENT)).to(kind)
        scores = torch.baddbmm(
            bias.unsqueeze(2),
            weight.view(blocks, self.width, self.input_size),
            rows.view(blocks, block, self.input_size).mT,
        )  # [blocks, M, B]: so the gradient of the weights lies as they do
        own = scores.mT.flatten(0, 1).index_select(0, slots)
        return F.cross_entropy(exact(own), self.places[words] - self.firsts[classes], reduction="none")

    def _filled(self, tensor: Tensor, dim: int, value: float) -> Tensor:
        """With as many words for each class, `value` in the place of those it does not have: words by class stand in a
        dimension, [..., V, ...] -> [..., C, M, ...]."""
        shape = list(tensor.shape)
        shape[dim] = len(self.sizes) * self.width
        filled = tensor.new_full(shape, value).index_copy(dim, self.slots, tensor)
        return filled.unflatten(dim, (len(self.sizes), self.width))

    def log_probs(self, features: Tensor) -> Tensor:
        of_class = F.log_softmax(exact(linear(features, self.class_weight, self.class_bias)), dim=-1)
        scores = exact(linear(features, self.weight, self.bias))
        if not self.waits:
            of_class = of_class - self._filled(scores, -1, ABSENT).logsumexp(-1)
            return scores.index_select(-1, self.places) + of_class.index_select(-1, self.classes)
        within = torch.cat([F.log_softmax(part, dim=-1) for part in scores.split(self.sizes, dim=-1)], dim=-1)
        return within.index_select(-1, self.places) + of_class.index_select(-1, self.classes)


def _eights(number: int) -> int:
    """The next multiple of 8: GPUs multiply short types at full speed where rows lie so far apart."""
    return -(-number // 8) * 8


def class_biases(classes: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Biases of classes, and of words by class, that make p(w) ∝ c(w); a word never seen counts as seen once."""
    seen = counts.double().clamp(min=1.0)
    by_class = torch.argsort(classes, stable=True)
    return torch.bincount(classes, seen).div(seen.sum()).log().float(), seen[by_class].div(seen.sum()).log().float()


def frequency_classes(counts: Tensor, number: int) -> Tensor:
    """The class of each word, [vocabulary]: words in order of frequency, cut into classes of equal Σ √count.

    Frequent words come into small classes, the most frequent have one of their own (Mikolov et al. 2011), yet rare
    classes do not grow as long as equal Σ count would make them.
    """
    number = min(number, len(counts))
    order = torch.argsort(counts, descending=True, stable=True)
    mass = counts[order].double().clamp(min=1.0).sqrt()
    middles = mass.cumsum(0) - mass / 2
    cut = (middles / mass.sum() * number).long().clamp(max=number - 1)
    _, numbered = torch.unique_consecutive(cut, return_inverse=True)
    return torch.empty_like(numbered).scatter_(0, order, numbered)


def vector_classes(vectors: Tensor, number: int) -> Tensor:
    """The class of each word, [vocabulary], by the likeness of their vectors [vocabulary, size].

    The largest cluster is split in two again and again: clusters of nearly equal size, the same every time.
    """
    directions, equal = unit_vectors(vectors.numpy()), np.ones(len(vectors))
    clusters = [np.arange(len(vectors))]
    while len(clusters) < min(number, len(vectors)):
        words = clusters.pop(max(range(len(clusters)), key=lambda cluster: len(clusters[cluster])))
        clusters += [words[half] for half in halves(directions[words], equal[words])]
    classes = np.empty(len(vectors), np.int64)
    for cluster, words in enumerate(clusters):
        classes[words] = cluster
    return torch.from_numpy(classes)
