"""From every n-gram to the one without its first word."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqloom.models.ngram.parallel import blocks, each
from seqloom.models.ngram.trie import LARGE, Nodes, Trie
from seqloom.models.ngram.workspace import Workspace


def suffixes(trie: Trie, space: Workspace) -> Nodes:
    """For every n-gram of two words and more the node of all its words but the first; unigrams have none.

    The suffix of a continuation is a continuation of the suffix: order by order, each is found among few.
    """
    links = space.array(len(trie.words), trie.first.dtype)
    links[: trie.vocabulary_size] = 0
    if trie.order > 1:
        links[trie.level(2)] = trie.words[trie.level(2)]
    for order in range(3, trie.order + 1):
        if len(trie.words) < LARGE:
            level = trie.level(order)
            links[level] = trie.find(links[trie.parents(order)], trie.words[level])
        else:
            _link(trie, links, order)
    return links


def _link(trie: Trie, links: Nodes, order: int) -> None:
    from seqloom.models.ngram.kernels import link_suffixes

    each(
        lambda part: link_suffixes(trie.words, trie.first, links, part.start, part.stop), blocks(trie.level(order - 1))
    )


def count_continuations(trie: Trie, links: Nodes, order: int, counts: NDArray[np.integer]) -> None:
    """Put in place of the counts of an order how many different words each n-gram was seen after."""
    level, above = trie.level(order), trie.level(order + 1)
    if len(trie.words) < LARGE:
        counts[level] = np.bincount(links[above] - level.start, minlength=level.stop - level.start)
        return
    from seqloom.models.ngram.kernels import count_links

    counts[level] = 0
    count_links(links, above.start, above.stop, counts)
