"""The compiled loops of n-gram models: counting, estimating and scoring.

Each works on a part of the arrays and lets go of Python's lock: threads share them. A trie (`trie.Trie`) comes as its
arrays: `words[node]` is the last word of an n-gram, `first[node]` to `first[node + 1]` are the nodes that continue it.

Counting. `stream` is `<eos>` followed by the text's units, each ending in `<eos>`. The window at position p begins with
the token there, `<bos>` where it is `<eos>`, and goes on to the next `<eos>` or the highest order. A window is stood
for by its position: nothing is copied. The loops run in this order, and all but the first two in ranges of first
tokens, which threads share:

    count_first_tokens      how many windows begin with each token
    place_by_first_token    their positions, those with the same first token side by side
    sort_tokens             sort the positions of each token by what follows, note how much neighbours share
    fill_trie               walk along the sorted windows, and write a node wherever an n-gram begins
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.compiling import compiled

Array = NDArray[Any]

UNK = 0
BOS = 2  # plain numbers: a compiled function keeps the value that a global had
EOS = 3
SMALL = 24  # below this, insertion sort
STRIDE = 512  # questions to memory at a time: enough to keep it busy, few enough that the answers stay in the cache


@compiled
def count_first_tokens(stream: Array, heads: Array) -> None:
    """How many windows begin with each token."""
    for position in range(stream.size - 1):
        token = stream[position]
        heads[BOS if token == EOS else token] += 1


@compiled
def place_by_first_token(stream: Array, starts: Array, positions: Array) -> None:
    """Put every window's position into the stretch of its first token, `starts[token]` to `starts[token + 1]`."""
    ends = starts.copy()  # where the next position of each token goes
    for position in range(stream.size - 1):
        token = stream[position]
        if token == EOS:
            token = BOS
        positions[ends[token]] = position
        ends[token] += 1


@compiled
def sort_pairs(keys: Array, values: Array, low: int, high: int) -> None:
    """Sort keys[low:high], and values along with them: quicksort that leaves short stretches to insertion sort.

    The pivot is the median of the first, the middle and the last key. Keys equal to it are exchanged too: many equal
    keys, which n-grams have, are then cut in the middle and not into everything and nothing.
    """
    stack = np.empty(128, np.int64)  # stretches that wait, as pairs; the shorter goes first, so 64 are always enough
    depth = 0
    while True:
        while high - low > SMALL:
            middle = (low + high) >> 1
            a, b, c = keys[low], keys[middle], keys[high - 1]
            pivot = max(min(a, b), min(max(a, b), c))
            left, right = low, high - 1
            while left <= right:
                while keys[left] < pivot:
                    left += 1
                while keys[right] > pivot:
                    right -= 1
                if left <= right:
                    keys[left], keys[right] = keys[right], keys[left]
                    values[left], values[right] = values[right], values[left]
                    left += 1
                    right -= 1
            # The longer part waits. What is at hand is halved at least, so no more than log2(high - low) ever wait.
            if right + 1 - low > high - left:
                stack[depth], stack[depth + 1] = low, right + 1
                low = left
            else:
                stack[depth], stack[depth + 1] = left, high
                high = right + 1
            depth += 2
        for index in range(low + 1, high):
            key, value = keys[index], values[index]
            place = index - 1
            while place >= low and keys[place] > key:
                keys[place + 1], values[place + 1] = keys[place], values[place]
                place -= 1
            keys[place + 1], values[place + 1] = key, value
        if depth == 0:
            return
        depth -= 2
        low, high = stack[depth], stack[depth + 1]


@compiled
def sort_windows(
    stream: Array,
    positions: Array,
    keys: Array,
    order: int,
    bits: int,
    shared: Array,
    sizes: Array,
) -> None:
    """Sort the windows at `positions`, which agree on their first token; `shared` and `sizes` as in `sort_tokens`.

    As many of the next tokens as fit are packed into one number, the first in the highest bits, and sorted by it; where
    windows agree on all of them, the tokens after them decide. What lies beyond `<eos>` counts as 0, whatever is there.
    What neighbours share is then read off these numbers too, without going back to the text.
    """
    packed = 63 // bits
    mask = (1 << bits) - 1
    shared[0] = 1
    todo = [(0, positions.size, 1)]  # stretches that agree on so many tokens
    while todo:
        low, high, offset = todo.pop()
        until = min(offset + packed, order)
        for index in range(low, high):
            position = positions[index]
            key = np.int64(0)
            inside = True
            for place in range(offset, until):
                key <<= bits
                if inside:
                    token = stream[position + place]
                    key |= token
                    inside = token != EOS
            keys[index] = key
        sort_pairs(keys, positions, low, high)
        first = low
        while first < high:  # windows that agree on all of these tokens
            key = keys[first]
            last = first + 1
            while last < high and keys[last] == key:
                last += 1
            end = offset  # where the tokens end, with <eos> or with the number
            while end < until and (key >> bits * (until - 1 - end)) & mask != EOS:
                end += 1
            ended = end < until
            if first > low or offset == 1:  # what begins at the first of a longer stretch is counted already
                place = offset
                if first > low:
                    while (key ^ keys[first - 1]) >> bits * (until - 1 - place) == 0:
                        place += 1
                    shared[first] = place
                stop = end + 1 if ended else order
                while place < stop:
                    sizes[place] += 1
                    place += 1
                    if until < place < stop and stream[positions[first] + place - 1] == EOS:
                        break
            if last - first > 1:
                if ended or until == order:  # windows that agree up to <eos> are equal: there is nothing left to sort
                    shared[first + 1 : last] = order
                else:
                    todo.append((first, last, until))
            first = last


@compiled
def sort_tokens(
    stream: Array,
    positions: Array,
    starts: Array,
    low: int,
    high: int,
    order: int,
    bits: int,
    shared: Array,
    sizes: Array,
) -> None:
    """Sort the windows that begin with the tokens from `low` to `high`.

    `shared` gets how many tokens each window shares with the one before, `order` where it is the same, and 1 at the
    first of a token; `sizes` how many n-grams of each order begin: one of every length from `shared` + 1 to the end of
    the window.
    """
    longest = 0
    for token in range(low, high):
        longest = max(longest, starts[token + 1] - starts[token])
    keys = np.empty(longest, np.int64)
    for token in range(low, high):
        begin, end = starts[token], starts[token + 1]
        if end > begin:
            sort_windows(stream, positions[begin:end], keys, order, bits, shared[begin:end], sizes)


@compiled
def fill_trie(
    stream: Array,
    positions: Array,
    starts: Array,
    low: int,
    high: int,
    order: int,
    shared: Array,
    ends: Array,
    words: Array,
    first: Array,
    counts: Array,
) -> None:
    """Write the n-grams that begin with the tokens from `low` to `high`; `ends[n - 1]` is where those of order n go.

    Along the sorted windows, an n-gram is open from the first window that begins with it to the last; how many there
    are is its count. A window that shares k tokens with the one before closes the open n-grams of more than k tokens,
    and opens its own.
    """
    begins = np.zeros(order, np.int64)  # the window at which the open n-gram of each order began
    open_until = 0  # how many orders are open
    for token in range(low, high):
        if order > 1:
            first[token] = ends[1]
        for index in range(starts[token], starts[token + 1]):
            same = shared[index]
            while open_until > same and open_until > 1:
                open_until -= 1
                counts[ends[open_until] - 1] = index - begins[open_until]
            if same >= order:
                continue
            position = positions[index]
            place = same
            while place < order:
                word = stream[position + place]
                node = ends[place]
                words[node] = word
                ends[place] = node + 1
                begins[place] = index
                if place + 1 < order:
                    first[node] = ends[place + 1]  # its continuations come next in the order above
                place += 1
                if word == EOS:
                    break
            open_until = place
        while open_until > 1:
            open_until -= 1
            counts[ends[open_until] - 1] = starts[token + 1] - begins[open_until]
        open_until = 0
        counts[token] = starts[token + 1] - starts[token]


@compiled
def link_suffixes(words: Array, first: Array, links: Array, low: int, high: int) -> None:
    """For the continuations of the nodes from `low` to `high`, the nodes without their first words.

    Those of the nodes themselves are in `links` already. Both a node's continuations and its suffix's are sorted, and
    the first are all among the second: one walk over both. It goes in leaps, of 1, 2, 4, ... as long as they do not go
    too far, and then of half as much each time: a suffix usually has far more continuations than are looked for.
    """
    begins = np.empty(STRIDE, np.int64)
    ends = np.empty(STRIDE, np.int64)
    for start in range(low, high, STRIDE):
        stop = min(start + STRIDE, high)
        for node in range(start, stop):  # many questions to memory at a time, as in `score`
            suffix = links[node]
            begins[node - start] = first[suffix]
            ends[node - start] = first[suffix + 1]
        for node in range(start, stop):
            there, end = begins[node - start], ends[node - start]
            for child in range(first[node], first[node + 1]):
                word = words[child]
                step = 1
                while there + step < end and words[there + step] <= word:
                    there += step
                    step <<= 1
                while step > 0:
                    if there + step < end and words[there + step] <= word:
                        there += step
                    step >>= 1
                links[child] = there


@compiled
def count_links(links: Array, low: int, high: int, counts: Array) -> None:
    """How many of links[low:high] lead to each node."""
    for index in range(low, high):
        counts[links[index]] += 1


@compiled
def interpolate(
    first: Array,
    used: Array,
    dropped: Array,
    links: Array,
    probs: Array,
    backoffs: Array,
    table: Array,
    added: float,
    low: int,
    high: int,
) -> None:
    """p(w | h) for the contexts h from `low` to `high`:

        p(w | h) = (a(hw) - d(a(hw))) / A + g/A · p(w | h'),    A = Σ_v a(hv) + ε,  g = Σ_v d(a(hv)) + ε

    a: `used`; d: `table`, by counts up to 3; ε: `added`; p(w | h'): that of the n-gram's suffix, `links`. `dropped`
    n-grams give their whole count to g. `backoffs` gets g/A, and 1 for a context that nothing follows.
    """
    for context in range(low, high):
        begin, end = first[context], first[context + 1]
        if begin == end:
            backoffs[context] = 1.0
            continue
        total, freed = added, added
        for child in range(begin, end):
            count = used[child]
            total += count
            freed += count if dropped.size and dropped[child] else table[min(count, 3)]
        weight = freed / total
        backoffs[context] = weight
        for child in range(begin, end):
            count = used[child]
            probs[child] = (count - table[min(count, 3)]) / total + weight * probs[links[child]]


@compiled
def next_log_probs(words: Array, first: Array, log_probs: Array, contexts: Array, given_up: Array, out: Array) -> None:
    """As `NgramModel.next_log_probs`: all words backed off to unigrams, then, from the shortest context to the longest,
    those that the context was seen with. A context below 0 is not in the model, or reaches back too far."""
    for row in range(len(out)):
        for word in range(out.shape[1]):
            out[row, word] = log_probs[word] + given_up[row, 0]
        for length in range(contexts.shape[1]):
            context = contexts[row, length]
            if context >= 0:
                for child in range(first[context], first[context + 1]):
                    out[row, words[child]] = log_probs[child] + given_up[row, length + 1]


@compiled
def score(
    words: Array,
    first: Array,
    log_probs: Array,
    backoffs: Array,
    missing: np.float32,
    order: int,
    inputs: Array,
    targets: Array,
    scores: Array,
    orders: Array,
    low: int,
    high: int,
) -> None:
    """log p of targets[low:high] and the order it comes from, as `scoring.score_tokens` states it; at `low` a unit
    begins.

    From the shortest context to the longest, only contexts that are in the model are asked: where the n-gram is there
    its log-probability is the score so far, and it is a context of the next token; where it is not, the back-off weight
    of the context is added.

    All tokens take each step together: memory is slow to answer one question, and not much slower to answer many that
    do not wait for each other. So all binary searches are halved once, then those that are not done again, and so on.
    """
    work = np.empty((6, high - low), np.int64)
    places, contexts, wanted, begins, sizes, searched = work[0], work[1], work[2], work[3], work[4], work[5]
    asked = 0
    for place in range(low, high):
        scores[place] = log_probs[targets[place]]
        orders[place] = 1
        if inputs[place] >= 0:
            places[asked], contexts[asked] = place, inputs[place]
            asked += 1
    for length in range(1, order):
        if missing != 0:
            _add_missing(missing, length, places[:asked], inputs, scores, low, high)
        left = 0
        for ask in range(asked):
            context, wanted[ask] = contexts[ask], targets[places[ask]]
            begins[ask] = first[context]
            # Words are sorted and differ: word w is at most the w-th, and frequent words have small numbers.
            sizes[ask] = min(first[context + 1] - first[context], wanted[ask] + 1)
            searched[left] = ask
            left += sizes[ask] > 1
        while left:
            some, left = left, 0
            for index in range(some):  # without branches that the processor would guess wrong
                ask = searched[index]
                begin, half = begins[ask], sizes[ask] >> 1
                begins[ask] = begin + half if words[begin + half] <= wanted[ask] else begin
                sizes[ask] -= half
                searched[left] = ask
                left += sizes[ask] > 1
        found = 0
        for ask in range(asked):
            place, node = places[ask], begins[ask]
            if sizes[ask] > 0 and words[node] == wanted[ask]:
                scores[place] = log_probs[node]
                orders[place] = length + 1
                if place + 1 < high and inputs[place + 1] != BOS and inputs[place + 1] >= 0:
                    places[found], contexts[found] = place + 1, node
                    found += 1
            else:
                scores[place] += backoffs[contexts[ask]]
        asked = found


@compiled
def _add_missing(
    missing: np.float32, length: int, asked: Array, inputs: Array, scores: Array, low: int, high: int
) -> None:
    """Add the weight of a context that is not in the model to all tokens but those at `asked`, where it is, and those
    that have no context of this length."""
    reach = ask = 0  # words between the beginning of the unit and the token
    for place in range(low, high):
        reach = 1 if inputs[place] == BOS else reach + 1 if inputs[place] >= 0 else 0
        if ask < asked.size and asked[ask] == place:
            ask += 1
        elif reach >= length:
            scores[place] += missing
