"""From counts to a model: what is counted, the discounts, and one interpolation per order."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from seqloom.config.schema.ngram import NgramModelConfig
from seqloom.models.ngram.counting import Counts
from seqloom.models.ngram.model import NgramModel
from seqloom.models.ngram.parallel import blocks, each
from seqloom.models.ngram.smoothing import Rule, rule
from seqloom.models.ngram.suffixes import count_continuations, suffixes
from seqloom.models.ngram.trie import LARGE, Nodes, Trie
from seqloom.models.ngram.workspace import Workspace
from seqloom.text.special import BOS, EOS, PAD


@dataclass(frozen=True)
class OrderFigures:
    """What the n-grams of one order came to."""

    ngrams: int
    """Distinct n-grams in the model."""
    seen_once: int
    """Those among them that the text holds only once."""
    counts_of_counts: list[int]
    """How many n-grams have a count of 1, 2, 3, 4: of continuations below the highest order in Kneser-Ney's methods."""
    discounts: list[float]
    """What was taken from counts of 1, 2, and 3 or more."""
    fallback: bool
    """Whether the counts of counts gave no discounts, so that fixed ones were used."""


@dataclass(frozen=True)
class Estimate:
    """A model, and how its counts looked."""

    model: NgramModel
    figures: list[OrderFigures]


def estimate(counts: Counts, config: NgramModelConfig, space: Workspace | None = None) -> Estimate:
    """The model that `config.smoothing` makes of counts. They are used up: large arrays are worked on in place."""
    trie, space = counts.trie, space or Workspace(np.inf)
    dropped = _dropped(counts, config.prune)
    kept = [_kept(counts, dropped, order) for order in range(1, trie.order + 1)]
    links = suffixes(trie, space)
    last = _last_ngrams(counts) if config.smoothing == "modified-kneser-ney" else {}
    if config.smoothing in ("kneser-ney", "modified-kneser-ney"):
        adjust(counts, links)
    vocabulary = trie.vocabulary_size - 2  # all that can come next: not <pad>, not <bos>

    # Large models need the memory: results are written over what they are made from. The link of an n-gram is read
    # once, for the probability that then takes its place. Its count is read with its order; its back-off weight, which
    # takes the place of the count, comes with the order above, when the n-gram is a context.
    probs = _in_place(links, space)
    backoffs = _in_place(counts.counts, space)[: trie.levels[-2]]
    work = _Work(trie, counts.counts, links, dropped, vocabulary, probs, backoffs)
    figures = []
    for order in range(1, trie.order + 1):
        counts_of_counts = _counts_of_counts(counts, order, last.get(order))
        order_rule = rule(config, order, counts_of_counts, vocabulary)
        if config.smoothing == "stupid-backoff":
            work.relative_frequencies(order, config.backoff)
        elif config.smoothing == "additive" and order < trie.order:
            work.uniform(order, order_rule)
        elif order == 1:
            work.unigrams(order_rule)
        else:
            work.interpolate(trie.level(order - 1), order_rule)
        figures.append(
            OrderFigures(*kept[order - 1], counts_of_counts, list(order_rule.discounts), order_rule.fallback)
        )

    each(lambda part: _log(probs[part]), blocks(slice(0, len(probs))))
    each(lambda part: _log(backoffs[part]), blocks(slice(0, len(backoffs))))
    missing = math.log(config.backoff) if config.smoothing == "stupid-backoff" else 0.0
    if dropped is not None:
        trie, probs, backoffs = _without(dropped, trie, probs, backoffs)
    return Estimate(NgramModel(trie, probs, backoffs, missing), figures)


@dataclass(frozen=True)
class _Work:
    """The arrays of an estimation; `probs` and `backoffs` are filled order by order, from below.

    Each method works out the formula of `smoothing` for one order: `used` is a, `taken` d(a), `freed` g, and the rule
    gives d and ε.
    """

    trie: Trie
    used: NDArray[np.integer]
    links: Nodes
    dropped: NDArray[np.bool_] | None
    vocabulary: int
    probs: NDArray[np.float32]
    backoffs: NDArray[np.float32]

    def unigrams(self, rule: Rule) -> None:
        """p(w), interpolated with the uniform distribution."""
        used = self.used[self.trie.level(1)].astype(np.int64)
        used[[PAD, BOS]] = 0
        taken = rule.discounted(used)
        total = used.sum() + rule.added
        uniform = (taken.sum() + rule.added) / total / self.vocabulary
        self.probs[self.trie.level(1)] = (used - taken) / total + uniform
        self.probs[[PAD, BOS]] = 0.0

    def interpolate(self, contexts: slice, rule: Rule) -> None:
        """p(w | h) for all h among `contexts`, interpolated with p(w | h'): (a - d)/A + g/A · p(w | h')."""
        if len(self.trie.words) >= LARGE:
            self._interpolate_compiled(contexts, rule)
            return

        def work(block: slice) -> None:
            first = self.trie.first[block.start : block.stop + 1].astype(np.int64)
            children = slice(int(first[0]), int(first[-1]))
            used = self.used[children]
            taken = rule.discounted(used)
            if self.dropped is not None:  # what is dropped gives all its mass to the lower order
                taken = np.where(self.dropped[children], used, taken)
            total = _sums(used, first) + rule.added
            freed = _sums(taken, first) + rule.added
            continued = first[1:] > first[:-1]
            weight = np.divide(freed, total, out=np.ones(len(total)), where=continued)
            self.backoffs[block] = weight  # 1 for a context that was never continued
            below = self.probs[self.links[children]]
            kids = np.diff(first)
            self.probs[children] = (used - taken) / np.repeat(total, kids) + np.repeat(weight, kids) * below

        each(work, blocks(contexts))

    def _interpolate_compiled(self, contexts: slice, rule: Rule) -> None:
        from seqloom.models.ngram.kernels import interpolate

        dropped = np.empty(0, bool) if self.dropped is None else self.dropped
        arrays = (self.trie.first, self.used, dropped, self.links, self.probs, self.backoffs)
        table = np.array([0.0, *rule.discounts])
        each(lambda part: interpolate(*arrays, table, rule.added, part.start, part.stop), blocks(contexts))

    def uniform(self, order: int, rule: Rule) -> None:
        """Additive smoothing backs off from the highest order to the uniform distribution at once, so that the orders
        between have nothing to say. Only after `<bos>`, where no longer context is to be had, they are estimated."""
        level, after_start = self.trie.level(order), begun(self.trie, order)
        if order == 1:
            after_start = slice(PAD, BOS + 1)
            self.probs[after_start] = 0.0
        else:
            contexts = self.trie.level(order - 1)
            inside = begun(self.trie, order - 1)
            self.interpolate(inside, rule)
            self.backoffs[contexts.start : inside.start] = 1.0
            self.backoffs[inside.stop : contexts.stop] = 1.0
        self.probs[level.start : after_start.start] = 1 / self.vocabulary
        self.probs[after_start.stop : level.stop] = 1 / self.vocabulary

    def relative_frequencies(self, order: int, backoff: float) -> None:
        """c(hw) / c(h); a word never seen has the last of all back-offs, to 1/|V|."""
        if order == 1:
            used = self.used[self.trie.level(1)].astype(np.float64)
            used[[PAD, BOS]] = 0.0
            self.probs[self.trie.level(1)] = np.where(used > 0, used / used.sum(), backoff / self.vocabulary)
            self.probs[[PAD, BOS]] = 0.0
        else:
            self.interpolate(self.trie.level(order - 1), Rule())
            self.backoffs[self.trie.level(order - 1)] = backoff


def _in_place(array: NDArray[np.integer], space: Workspace) -> NDArray[np.float32]:
    """Room for as many numbers: that of the array itself where it has the size."""
    return array.view(np.float32) if array.itemsize == 4 else space.array(len(array), np.float32)


def begun(trie: Trie, order: int) -> slice:
    """The n-grams of an order that begin with `<bos>`: they lie side by side."""
    low, high = BOS, BOS + 1
    for _ in range(order - 1):
        low, high = int(trie.first[low]), int(trie.first[high])
    return slice(low, high)


def adjust(counts: Counts, links: Nodes) -> None:
    """Kneser & Ney's counts: below the highest order, how many different words an n-gram was seen after.

    Nothing comes before `<bos>`, so n-grams that begin with it keep the count of how often they were seen.
    """
    trie = counts.trie

    def work(order: int) -> None:
        kept = begun(trie, order)
        seen = counts.counts[kept].copy()
        count_continuations(trie, links, order, counts.counts)
        counts.counts[kept] = seen

    each(work, range(1, trie.order))


def _last_ngrams(counts: Counts) -> dict[int, tuple[int, int]]:
    """The n-grams whose counts KenLM takes as they were seen, not as continuations, in its counts of counts.

    `lmplz` numbers words as they appear and sorts n-grams from their last word to their first; the very last n-gram in
    that order, and those it ends in, go into the statistics with the wrong count. It shows in the discounts of small
    texts, and so in everything that depends on them; equal models need the same slip. For each order below the
    highest: the node, and how often it was seen.
    """
    trie = counts.trie
    if counts.appearance is None:
        return {}
    rank = counts.appearance.astype(np.int64)
    rank[EOS], rank[BOS] = -1, -2  # KenLM's first words
    newest = int(rank.argmax())
    candidates: list[list[int]] = []
    for order in range(1, trie.order + 1):
        level = begun(trie, order) if order < trie.order else trie.level(order)
        nodes = level.start + np.flatnonzero(trie.words[level] == newest)
        candidates += trie.ngrams(order, nodes).tolist()
    if not candidates:
        return {}
    padding = [-2] * trie.order  # a shorter n-gram begins with <bos>, which comes before all words
    ngram = max(candidates, key=lambda words: ([rank[word] for word in reversed(words)] + padding)[: trie.order])
    last = {}
    for order in range(1, min(len(ngram), trie.order - 1) + 1):
        node = ngram[-order]
        for word in ngram[len(ngram) - order + 1 :]:
            node = int(trie.find(np.array([node]), np.array([word]))[0])
        last[order] = (node, int(counts.counts[node]))
    return last


def _counts_of_counts(counts: Counts, order: int, last: tuple[int, int] | None) -> list[int]:
    """How many n-grams of an order have a count of 1, 2, 3, 4; `last` is one with another count than its own."""
    histogram = np.zeros(6, np.int64)
    for part in blocks(counts.trie.level(order)):
        histogram += np.bincount(np.minimum(counts.counts[part], 5), minlength=6)
    if order == 1:
        histogram[min(counts.counts[BOS], 5)] -= 1  # <bos> is no word that could come next
    if last is not None:
        node, seen = last
        histogram[min(counts.counts[node], 5)] -= 1
        histogram[min(seen, 5)] += 1
    return histogram[1:5].tolist()


def _dropped(counts: Counts, thresholds: list[int]) -> NDArray[np.bool_] | None:
    """Which n-grams are pruned: those seen no more often than the threshold of their order. Unigrams all stay."""
    if not any(thresholds):
        return None
    dropped = np.zeros(len(counts.trie.words), bool)
    for order in range(2, counts.trie.order + 1):
        level = counts.trie.level(order)
        dropped[level] = counts.counts[level] <= thresholds[min(order, len(thresholds)) - 1]
    return dropped


def _without(
    dropped: NDArray[np.bool_], trie: Trie, probs: NDArray[np.float32], backoffs: NDArray[np.float32]
) -> tuple[Trie, NDArray[np.float32], NDArray[np.float32]]:
    """The arrays without what is pruned. A context is seen as often as what continues it: none loses its own."""
    kept = ~dropped
    below = np.concatenate([[0], np.cumsum(kept)])
    words, children = [], []
    for order in range(1, trie.order + 1):
        level = trie.level(order)
        words.append(trie.words[level][kept[level]])
        if order < trie.order:
            ends = below[trie.first[level.start : level.stop + 1]]
            children.append(np.diff(ends)[kept[level]])
    return Trie.of_levels(words, children), probs[kept], backoffs[kept[: len(backoffs)]]


def _kept(counts: Counts, dropped: NDArray[np.bool_] | None, order: int) -> tuple[int, int]:
    """How many n-grams of an order stay, and how many of those were seen once."""
    level = counts.trie.level(order)
    seen = counts.counts[level] if dropped is None else counts.counts[level][~dropped[level]]
    return int(np.count_nonzero(seen)), int(np.count_nonzero(seen == 1))


def _sums(values: NDArray[np.generic], first: NDArray[np.int64]) -> NDArray[np.float64]:
    """The sum of the values of each context's continuations."""
    running = np.concatenate([[0.0], np.cumsum(values, dtype=np.float64)])
    return np.diff(running[first - first[0]])


def _log(values: NDArray[np.float32]) -> None:
    with np.errstate(divide="ignore"):
        np.log(values, out=values)
