"""What `ngram_counts` does, compiled. Importing this module waits for numba: import it for many texts only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from seqloom.compiling import compiled

Ints = NDArray[np.int64]


@compiled
def count_matches(tokens: Ints, ends: Ints, groups: Ints, max_order: int) -> Ints:
    """Clipped matches, (hypotheses, orders).

    Text t is tokens[ends[t]:ends[t + 1]]. Hypothesis h is text groups[h], and the texts up to groups[h + 1] are its
    references. The n-grams of one hypothesis stand in a hash table: a slot holds where an n-gram begins, how often the
    hypothesis has it, how often the reference at hand has it, and the most that any reference has.
    """
    longest = 1
    for hypothesis in groups[:-1]:
        longest = max(longest, ends[hypothesis + 1] - ends[hypothesis])
    capacity = 2
    while capacity < 2 * longest:
        capacity *= 2
    first = np.empty(capacity, np.int64)
    wanted, seen, allowed = np.zeros(capacity, np.int64), np.zeros(capacity, np.int64), np.zeros(capacity, np.int64)

    matches = np.zeros((len(groups) - 1, max_order), np.int64)
    for row in range(len(groups) - 1):
        hypothesis = groups[row]
        start, stop = ends[hypothesis], ends[hypothesis + 1]
        slots = 2
        while slots < 2 * (stop - start):
            slots *= 2
        for order in range(1, max_order + 1):
            first[:slots] = -1
            wanted[:slots] = 0
            allowed[:slots] = 0
            for position in range(start, stop - order + 1):
                slot = _find(tokens, first, slots, position, order)
                first[slot] = position
                wanted[slot] += 1
            for reference in range(hypothesis + 1, groups[row + 1]):
                seen[:slots] = 0
                for position in range(ends[reference], ends[reference + 1] - order + 1):
                    slot = _find(tokens, first, slots, position, order)
                    if first[slot] >= 0:
                        seen[slot] += 1
                        allowed[slot] = max(allowed[slot], seen[slot])
            for slot in range(slots):
                matches[row, order - 1] += min(wanted[slot], allowed[slot])
    return matches


@compiled
def _find(tokens: Ints, first: Ints, slots: int, position: int, order: int) -> int:
    """The slot of the n-gram that begins at a position, or the free one where it belongs."""
    mixed = 0
    for token in tokens[position : position + order]:
        mixed = (mixed + token + 1) * 6364136223846793005  # Knuth's multiplier: the upper bits are well mixed
    slot = (mixed >> 33) & (slots - 1)
    while first[slot] >= 0:
        same = True
        for offset in range(order):
            if tokens[first[slot] + offset] != tokens[position + offset]:
                same = False
                break
        if same:
            break
        slot = (slot + 1) & (slots - 1)
    return slot
