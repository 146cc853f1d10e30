"""The compiled loops of word2vec. Threads share the matrices without locks (Hogwild, Recht et al. 2011).

Both kernels read a stretch of a token store sentence by sentence and take one gradient step per centre word. What a
step has to get right is a few yes-or-no decisions, each a row of the output matrix: the nodes on the word's path, and
noise words drawn at random. With negative sampling the path is the word itself and the answer there is yes, while noise
words are to be told no; with a Huffman tree the path is the word's code and there are no noise words.

Rows are padded with zeros to a multiple of 16 numbers; the last row of each matrix stands in where pairs or sixes of
rows are incomplete, and stays zero. Loops work on two rows by six (or by two) at a time, so that what is loaded
into the processor's registers is used several times.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from seqloom.models.word2vec.prefetch import prefetch

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., object])

SPECIALS = 4  # plain numbers: a compiled function keeps the value that a global had
EOS = 3
LONGEST = 10_000  # words of a sentence; a longer one is cut
SIX = 6  # decisions computed together
LANES = 16  # numbers in a line of memory
SMALL = 1e-150  # a product of probabilities is taken the logarithm of before it vanishes
EDGE: Any = np.float32(
    8.0
)  # σ(-8) is the least that enters a product; of log σ(-y), what lies beyond is near enough 8 - y
LEAST: Any = np.float32(1 / (1 + math.exp(8.0)))
NONE: Any = np.float32(0.0)  # Any: what numpy and Python say of mixed numbers is not what the compiler makes of them
YES: Any = np.float32(1.0)
NO: Any = np.float32(-1.0)
HALF: Any = np.float32(0.5)
REACH: Any = np.float32(7.9)  # beyond it, tanh is 1 for a float


def fast(function: Function) -> Function:
    """Compile with sums in any order: that is what vectors of numbers need."""
    return cast(Function, njit(cache=True, nogil=True, fastmath=True, error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """Compile into the functions that call it: a call with many arguments takes longer than what little it does."""
    return cast(Function, njit(nogil=True, fastmath=True, error_model="numpy", inline="always")(function))


@fast
def mixed(state: np.uint64) -> np.uint64:
    """64 random bits from a counter that goes up by `STRIDE` (SplitMix64, Steele et al. 2014)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


STRIDE = np.uint64(0x9E3779B97F4A7C15)
LOW = np.uint64(0xFFFFFFFF)
HIGH = np.uint64(32)


@fast
def read_sentence(tokens: Array, place: int, keep: Array, state: Array, sentence: Array) -> tuple[int, int]:
    """The words up to the next `<eos>` that sub-sampling keeps; where the next sentence begins, and how many they are.

    Unknown words are left out before windows are laid, as are words that sub-sampling drops.
    """
    size = 0
    now = state[0]
    while place < len(tokens) and size < LONGEST:
        word = np.int64(tokens[place]) - SPECIALS
        place += 1
        if word < 0:
            if word == EOS - SPECIALS:
                break
            continue
        now += STRIDE
        if mixed(now) >> HIGH <= keep[word]:
            sentence[size] = word
            size += 1
    state[0] = now
    return place, size


@fast
def choose_decisions(
    word: int,
    starts: Array,
    path: Array,
    answers: Array,
    shares: Array,
    others: Array,
    negatives: int,
    state: Array,
    rows: Array,
    signs: Array,
) -> int:
    """The rows to decide on and what is right, 1 or -1: the word's path, then noise words; how many there are.

    A noise word is drawn from the alias table (Walker 1977): a column at random, and of its two words one. If it is
    the word itself it counts for nothing.
    """
    size = 0
    for place in range(starts[word], starts[word + 1]):
        rows[size] = path[place]
        signs[size] = answers[place]
        size += 1
    now = state[0]
    columns = np.uint64(len(shares))
    for _ in range(negatives):
        now += STRIDE
        bits = mixed(now)
        column = np.int64(((bits >> HIGH) * columns) >> HIGH)
        noise = column if (bits & LOW) <= shares[column] else others[column]
        rows[size] = noise
        signs[size] = NONE if noise == word else NO
        size += 1
    state[0] = now
    return size


@inlined
def look_ahead(
    sentence: Array,
    length: int,
    centre: int,
    window: int,
    vectors: Array,
    outputs: Array,
    starts: Array,
    path: Array,
    answers: Array,
    shares: Array,
    others: Array,
    negatives: int,
    state: Array,
    rows: Array,
    signs: Array,
) -> int:
    """Choose the decisions of a word one step before they are made, and have their rows brought near meanwhile.

    Rows lie all over memory: to wait for them would take as long as what is computed with them.
    """
    if centre >= length:
        return 0
    size = choose_decisions(sentence[centre], starts, path, answers, shares, others, negatives, state, rows, signs)
    for d in range(size):
        for k in range(0, outputs.shape[1], LANES):
            prefetch(outputs, rows[d], k)
    last = centre + window + 1
    if last < length:
        for k in range(0, vectors.shape[1], LANES):
            prefetch(vectors, sentence[last], k)
    return size


@fast
def decide(logits: Array, signs: Array, size: int, rate: np.float32) -> tuple[float, float]:
    """From logits to steps of ascent, rate · s(1 - σ(s·logit)), in their place.

    Gives the loss -Σ log σ(s·logit) in two parts: the product of all σ, the least of them taken for a little more,
    and what that leaves out. σ(y) = ½ + ½ tanh(y/2), where tanh is a quotient of polynomials, right to the last digits
    of a float.
    """
    product, beyond = 1.0, NONE
    for index in range(size):
        sign = signs[index]
        right_way = sign * logits[index]
        half = min(max(right_way * HALF, -REACH), REACH)
        square = half * half
        above = np.float32(-2.76076847742355e-16)
        above = above * square + np.float32(2.00018790482477e-13)
        above = above * square + np.float32(-8.60467152213735e-11)
        above = above * square + np.float32(5.12229709037114e-08)
        above = above * square + np.float32(1.48572235717979e-05)
        above = above * square + np.float32(6.37261928875436e-04)
        above = above * square + np.float32(4.89352455891786e-03)
        below = np.float32(1.19825839466702e-06)
        below = below * square + np.float32(1.18534705686654e-04)
        below = below * square + np.float32(2.26843463243900e-03)
        below = below * square + np.float32(4.89352518554385e-03)
        right = HALF + HALF * (half * above / below)
        product *= max(right, LEAST) if sign != NONE else YES
        beyond += max(-EDGE - right_way, NONE)
        logits[index] = rate * sign * (YES - right)
    return product, beyond


@fast
def multiply(vectors: Array, words: Array, count: int, chosen: Array, size: int, logits: Array) -> None:
    """logits[i, d] = vectors[words[i]] · chosen[d]; `count` is even and `size` a multiple of six."""
    width = vectors.shape[1] >> 4 << 4
    for i in range(0, count, 2):
        u, v = words[i], words[i + 1]
        for d in range(0, size, SIX):
            u0 = u1 = u2 = u3 = u4 = u5 = v0 = v1 = v2 = v3 = v4 = v5 = NONE
            for k in range(width):
                x, y = vectors[u, k], vectors[v, k]
                c0, c1, c2 = chosen[d, k], chosen[d + 1, k], chosen[d + 2, k]
                c3, c4, c5 = chosen[d + 3, k], chosen[d + 4, k], chosen[d + 5, k]
                u0 += x * c0
                u1 += x * c1
                u2 += x * c2
                u3 += x * c3
                u4 += x * c4
                u5 += x * c5
                v0 += y * c0
                v1 += y * c1
                v2 += y * c2
                v3 += y * c3
                v4 += y * c4
                v5 += y * c5
            at = i * size + d
            logits[at], logits[at + 1], logits[at + 2] = u0, u1, u2
            logits[at + 3], logits[at + 4], logits[at + 5] = u3, u4, u5
            at += size
            logits[at], logits[at + 1], logits[at + 2] = v0, v1, v2
            logits[at + 3], logits[at + 4], logits[at + 5] = v3, v4, v5


@fast
def step_outputs(
    outputs: Array, rows: Array, size: int, vectors: Array, words: Array, count: int, steps: Array
) -> None:
    """outputs[rows[d]] += Σ_i steps[i, d] · vectors[words[i]]; `count` and `size` are even."""
    width = outputs.shape[1] >> 4 << 4
    for d in range(0, size, 2):
        p, q = rows[d], rows[d + 1]
        for i in range(0, count, 2):
            u, v = words[i], words[i + 1]
            pu, qu = steps[i * size + d], steps[i * size + d + 1]
            pv, qv = steps[(i + 1) * size + d], steps[(i + 1) * size + d + 1]
            for k in range(width):
                x, y = vectors[u, k], vectors[v, k]
                outputs[p, k] += pu * x + pv * y
                outputs[q, k] += qu * x + qv * y


@fast
def step_vectors(vectors: Array, words: Array, count: int, chosen: Array, size: int, steps: Array) -> None:
    """vectors[words[i]] += Σ_d steps[i, d] · chosen[d]; `count` is even and `size` a multiple of six."""
    width = vectors.shape[1] >> 4 << 4
    for i in range(0, count, 2):
        u, v = words[i], words[i + 1]
        for d in range(0, size, SIX):
            at = i * size + d
            u0, u1, u2 = steps[at], steps[at + 1], steps[at + 2]
            u3, u4, u5 = steps[at + 3], steps[at + 4], steps[at + 5]
            at += size
            v0, v1, v2 = steps[at], steps[at + 1], steps[at + 2]
            v3, v4, v5 = steps[at + 3], steps[at + 4], steps[at + 5]
            for k in range(width):
                c0, c1, c2 = chosen[d, k], chosen[d + 1, k], chosen[d + 2, k]
                c3, c4, c5 = chosen[d + 3, k], chosen[d + 4, k], chosen[d + 5, k]
                vectors[u, k] += u0 * c0 + u1 * c1 + u2 * c2 + u3 * c3 + u4 * c4 + u5 * c5
                vectors[v, k] += v0 * c0 + v1 * c1 + v2 * c2 + v3 * c3 + v4 * c4 + v5 * c5


@fast
def fetch(outputs: Array, rows: Array, signs: Array, size: int, chosen: Array) -> int:
    """Copy the rows to decide on side by side, and fill up to a multiple of six; gives that multiple."""
    width = outputs.shape[1] >> 4 << 4
    for d in range(size):
        row = rows[d]
        for k in range(width):
            chosen[d, k] = outputs[row, k]
    whole = (size + SIX - 1) // SIX * SIX
    for d in range(size, whole):
        rows[d] = len(outputs) - 1
        signs[d] = NONE
    return whole


@fast
def lay_window(sentence: Array, length: int, centre: int, window: int, state: Array, words: Array) -> int:
    """The words at most 1 to `window` places, by chance, from the centre: so that near words count for more."""
    state[0] += STRIDE
    reach = np.int64((mixed(state[0]) >> HIGH) * np.uint64(window) >> HIGH) + 1
    count = 0
    for near in range(max(0, int(centre - reach)), min(length, int(centre + reach) + 1)):
        words[count] = sentence[near]
        count += near != centre
    return count


@fast
def skip_gram(
    tokens: Array,
    keep: Array,
    vectors: Array,
    outputs: Array,
    starts: Array,
    path: Array,
    answers: Array,
    longest: int,
    shares: Array,
    others: Array,
    negatives: int,
    window: int,
    first_rate: float,
    last_rate: float,
    seed: np.uint64,
) -> tuple[float, int]:
    """One gradient step per word of a text: from each word of its window, the word is to be told.

    The noise words are drawn once per centre word and shared by its window (Ji et al. 2016). Gives the loss, and how
    many predictions it is the sum of.
    """
    most = (longest + negatives + SIX - 1) // SIX * SIX
    sentence = np.empty(LONGEST, np.int32)
    words = np.empty(2 * window + 2, np.int64)
    rows, next_rows = np.empty(most, np.int64), np.empty(most, np.int64)
    chosen = np.zeros((most, vectors.shape[1]), np.float32)
    signs = np.empty(len(words) * most, np.float32)
    next_signs = np.empty(most, np.float32)
    steps = np.empty(len(words) * most, np.float32)
    state = np.full(1, seed, np.uint64)
    loss, product, predictions = 0.0, 1.0, 0
    place = 0
    while place < len(tokens):
        rate = np.float32(first_rate + (last_rate - first_rate) * place / len(tokens))
        place, length = read_sentence(tokens, place, keep, state, sentence)
        size = 0
        for centre in range(-1, length):
            for d in range(size):
                rows[d] = next_rows[d]
                signs[d] = next_signs[d]
            ready = size
            size = look_ahead(
                sentence,
                length,
                centre + 1,
                window,
                vectors,
                outputs,
                starts,
                path,
                answers,
                shares,
                others,
                negatives,
                state,
                next_rows,
                next_signs,
            )
            if centre < 0:
                continue
            count = lay_window(sentence, length, centre, window, state, words)
            if count == 0:
                continue
            whole = fetch(outputs, rows, signs, ready, chosen)
            for i in range(1, count):
                for d in range(whole):
                    signs[i * whole + d] = signs[d]
            predictions += count
            if count & 1:
                words[count] = len(vectors) - 1
                for d in range(whole):
                    signs[count * whole + d] = NONE
                count += 1
            multiply(vectors, words, count, chosen, whole, steps)
            some, beyond = decide(steps, signs, count * whole, rate)
            loss += beyond
            product *= some
            if product < SMALL:
                loss -= math.log(product)
                product = 1.0
            step_outputs(outputs, rows, whole, vectors, words, count, steps)
            step_vectors(vectors, words, count, chosen, whole, steps)
    return loss - math.log(product), predictions


@fast
def cbow(
    tokens: Array,
    keep: Array,
    vectors: Array,
    outputs: Array,
    starts: Array,
    path: Array,
    answers: Array,
    longest: int,
    shares: Array,
    others: Array,
    negatives: int,
    window: int,
    first_rate: float,
    last_rate: float,
    seed: np.uint64,
    mean: bool,
) -> tuple[float, int]:
    """One gradient step per word of a text: from the mean or sum of its window, the word is to be told.

    The gradient of a mean goes to each word of the window in equal parts, which word2vec.c and gensim forget: they give
    each the whole (İrsoy et al. 2021). The rate must be the higher for it.
    """
    most = (longest + negatives + SIX - 1) // SIX * SIX
    width = vectors.shape[1] >> 4 << 4
    sentence = np.empty(LONGEST, np.int32)
    words = np.empty(2 * window + 2, np.int64)
    rows, next_rows = np.empty(most, np.int64), np.empty(most, np.int64)
    chosen = np.zeros((most, vectors.shape[1]), np.float32)
    signs = np.empty(most, np.float32)
    next_signs = np.empty(most, np.float32)
    steps = np.empty(most, np.float32)
    hidden = np.zeros(vectors.shape[1], np.float32)
    error = np.zeros(vectors.shape[1], np.float32)
    state = np.full(1, seed, np.uint64)
    loss, product, predictions = 0.0, 1.0, 0
    place = 0
    while place < len(tokens):
        rate = np.float32(first_rate + (last_rate - first_rate) * place / len(tokens))
        place, length = read_sentence(tokens, place, keep, state, sentence)
        size = 0
        for centre in range(-1, length):
            for d in range(size):
                rows[d] = next_rows[d]
                signs[d] = next_signs[d]
            ready = size
            size = look_ahead(
                sentence,
                length,
                centre + 1,
                window,
                vectors,
                outputs,
                starts,
                path,
                answers,
                shares,
                others,
                negatives,
                state,
                next_rows,
                next_signs,
            )
            if centre < 0:
                continue
            count = lay_window(sentence, length, centre, window, state, words)
            if count == 0:
                continue
            whole = fetch(outputs, rows, signs, ready, chosen)
            predictions += 1
            if count & 1:
                words[count] = len(vectors) - 1
            share = YES / np.float32(count) if mean else YES
            for k in range(width):
                hidden[k] = NONE
                error[k] = NONE
            for i in range(0, count, 2):
                u, v = words[i], words[i + 1]
                for k in range(width):
                    hidden[k] += share * (vectors[u, k] + vectors[v, k])
            for d in range(0, whole, SIX):
                s0 = s1 = s2 = s3 = s4 = s5 = NONE
                for k in range(width):
                    x = hidden[k]
                    s0 += x * chosen[d, k]
                    s1 += x * chosen[d + 1, k]
                    s2 += x * chosen[d + 2, k]
                    s3 += x * chosen[d + 3, k]
                    s4 += x * chosen[d + 4, k]
                    s5 += x * chosen[d + 5, k]
                steps[d], steps[d + 1], steps[d + 2] = s0, s1, s2
                steps[d + 3], steps[d + 4], steps[d + 5] = s3, s4, s5
            some, beyond = decide(steps, signs, whole, rate)
            loss += beyond
            product *= some
            if product < SMALL:
                loss -= math.log(product)
                product = 1.0
            for d in range(0, whole, SIX):
                s0, s1, s2 = steps[d], steps[d + 1], steps[d + 2]
                s3, s4, s5 = steps[d + 3], steps[d + 4], steps[d + 5]
                for k in range(width):
                    one = s0 * chosen[d, k] + s1 * chosen[d + 1, k] + s2 * chosen[d + 2, k]
                    two = s3 * chosen[d + 3, k] + s4 * chosen[d + 4, k] + s5 * chosen[d + 5, k]
                    error[k] += share * (one + two)
            for d in range(0, whole, 2):
                p, q, at_p, at_q = rows[d], rows[d + 1], steps[d], steps[d + 1]
                for k in range(width):
                    outputs[p, k] += at_p * hidden[k]
                    outputs[q, k] += at_q * hidden[k]
            for i in range(0, count - 1, 2):
                u, v = words[i], words[i + 1]
                for k in range(width):
                    vectors[u, k] += error[k]
                    vectors[v, k] += error[k]
            if count & 1:
                u = words[count - 1]
                for k in range(width):
                    vectors[u, k] += error[k]
    return loss - math.log(product), predictions
