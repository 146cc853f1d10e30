"""The compiled loops of word2vec: the walk over a text, and the gradient step at every word of it.

The walk. Both kernels, `skip_gram` and `cbow`, read a stretch of token ids sentence by sentence. Every word of a
sentence is the centre in its turn; a window of random reach is laid around it, and the words of the window have to
predict the centre:

    skip_gram    each by itself: as many predictions as the window has words, from h = v_w
    cbow         all together: one prediction, from their mean or sum h

A prediction is a handful of yes-or-no decisions d about h. Each belongs to a row v'_d of the output matrix and has a
right answer s_d: 1 for yes, -1 for no, 0 for a decision that does not count. With negative sampling they are the centre
itself (yes) and some noise words drawn at random (no); with a Huffman tree they are the turns on the path to the
centre. To the loops both are a list of rows and a list of answers: first the path, which negative sampling has one row
of, then the noise words, which the tree has none of.

The step. With logits y_d = v'_d · h, gradient ascent on Σ_d log σ(s_d y_d) is

    g_d = rate · s_d (1 - σ(s_d y_d)),      v'_d += g_d h,      h += Σ_d g_d v'_d

where the right sides are the values from before the step. All predictions of a window share their decisions and are one
step: the logits of skip-gram are a small matrix, words of the window × decisions.

What makes it fast.
- Threads share both matrices without locks (Hogwild, Recht et al. 2011). Two that write to one row at the same moment
  may lose a step of one of them; that is rare, and harmless.
- Rows lie all over memory, and waiting for them would take as long as the arithmetic. So the decisions of a centre are
  chosen one centre ahead, and the processor is asked to bring their rows near meanwhile (`look_ahead`).
- Products work on two words by six decisions at a time (`multiply`): 12 sums stay in registers, and each number that is
  loaded is used 2 or 6 times. Where a pair or a six is incomplete, it is filled up with the last row of the matrix,
  which is no word's: it is zero, its answer is 0, and so it stays zero.
- Rows are padded with zeros to whole registers, 16 numbers: no loop has a remainder.
- σ is a quotient of polynomials, and log is taken of many σ at once (`decide`).

The frames of the two kernels are the same lines twice: with their bodies as functions inside one frame, inlined or not,
cbow was 5 to 10 % slower.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, TypeVar, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from seqloom.models.word2vec.decisions import Decisions
from seqloom.models.word2vec.prefetch import prefetch

Array = NDArray[Any]
Function = TypeVar("Function", bound=Callable[..., object])

# Plain numbers: a compiled function keeps the value that a global had.
SPECIALS = 4
EOS = 3
LONGEST = 10_000  # words of a sentence; a longer one is cut
SIX = 6  # decisions computed together
LANES = 16  # numbers in a line of memory, and in a register
TOGETHER = 240  # probabilities multiplied before anyone looks how small their product is
SMALL = 1e-100  # a product below it is taken the logarithm of, before it vanishes
# The types of numpy and of Python do not describe what the compiler makes of mixed numbers: hence Any.
EDGE: Any = np.float32(8.0)  # for y below -8, log σ(y) is taken for y + log σ(-8) + 8
LEAST: Any = np.float32(1 / (1 + math.exp(8.0)))  # σ(-8)
NONE: Any = np.float32(0.0)
YES: Any = np.float32(1.0)
NO: Any = np.float32(-1.0)
HALF: Any = np.float32(0.5)
REACH: Any = np.float32(7.9)  # beyond it, tanh is 1 for a float


def fast(function: Function) -> Function:
    """Compile with sums in any order: only so are they computed 16 numbers at a time."""
    return cast(Function, njit(cache=True, nogil=True, fastmath=True, error_model="numpy")(function))


def inlined(function: Function) -> Function:
    """Compile into the functions that call it: a call with many arguments takes longer than what little it does."""
    return cast(Function, njit(nogil=True, fastmath=True, error_model="numpy", inline="always")(function))


# ------------------------------------------------------------------------------------------------- random numbers

# `state` is an array of one number, the counter of a generator: functions that draw move it on.
STRIDE = np.uint64(0x9E3779B97F4A7C15)
LOW = np.uint64(0xFFFFFFFF)
HIGH = np.uint64(32)


@fast
def mixed(state: np.uint64) -> np.uint64:
    """64 random bits from a counter that goes up by `STRIDE` (SplitMix64, Steele et al. 2014)."""
    state = (state ^ (state >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    state = (state ^ (state >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return state ^ (state >> np.uint64(31))


# ------------------------------------------------------------------------------------------- what a step is about


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
def lay_window(sentence: Array, length: int, centre: int, window: int, state: Array, words: Array) -> int:
    """The words at most 1 to `window` places, by chance, from the centre: so that near words count for more."""
    state[0] += STRIDE
    # 32 random bits times n, without the lower 32 bits of the product, are a number below n: no division.
    reach = np.int64((mixed(state[0]) >> HIGH) * np.uint64(window) >> HIGH) + 1
    count = 0
    for near in range(max(0, int(centre - reach)), min(length, int(centre + reach) + 1)):
        words[count] = sentence[near]
        count += near != centre  # the centre itself is written, too, but the next word then takes its place
    return count


@fast
def choose_decisions(word: int, decisions: Decisions, state: Array, rows: Array, signs: Array) -> int:
    """The rows to decide on and the right answers, 1 or -1: the word's path, then noise words; how many there are.

    A noise word is drawn from the alias table (Walker 1977): a column at random, and of its two words one. If it is
    the word itself it counts for nothing.
    """
    size = 0
    for place in range(decisions.starts[word], decisions.starts[word + 1]):
        rows[size] = decisions.path[place]
        signs[size] = decisions.answers[place]
        size += 1
    now = state[0]
    columns = np.uint64(len(decisions.shares))
    for _ in range(decisions.negatives):
        now += STRIDE
        bits = mixed(now)  # the upper half chooses the column, the lower half the word in it
        column = np.int64(((bits >> HIGH) * columns) >> HIGH)
        noise = column if (bits & LOW) <= decisions.shares[column] else decisions.others[column]
        rows[size] = noise
        signs[size] = NONE if noise == word else NO
        size += 1
    state[0] = now
    return size


@fast
def fetch(outputs: Array, rows: Array, signs: Array, size: int, chosen: Array) -> int:
    """Copy the rows to decide on side by side, and fill up to a multiple of six; gives that multiple.

    The copy keeps their values from before the step. What `chosen` holds beyond `size` is older rows: they are
    multiplied too, but their answer is 0, and so is their step.
    """
    width = outputs.shape[1] >> 4 << 4  # as it is, but now the compiler knows that no remainder is left over
    for d in range(size):
        row = rows[d]
        for k in range(width):
            chosen[d, k] = outputs[row, k]
    whole = (size + SIX - 1) // SIX * SIX
    for d in range(size, whole):
        rows[d] = len(outputs) - 1
        signs[d] = NONE
    return whole


@inlined
def look_ahead(
    sentence: Array,
    length: int,
    centre: int,
    window: int,
    vectors: Array,
    outputs: Array,
    decisions: Decisions,
    state: Array,
    rows: Array,
    signs: Array,
) -> int:
    """Choose the decisions of a centre one step before it has its turn; have their rows brought near meanwhile.

    Of its window only the last word, at the widest reach, has not been near an earlier centre. Gives how many decisions
    there are.
    """
    if centre >= length:
        return 0
    size = choose_decisions(sentence[centre], decisions, state, rows, signs)
    for d in range(size):
        for k in range(0, outputs.shape[1], LANES):
            prefetch(outputs, rows[d], k)
    last = centre + window + 1
    if last < length:
        for k in range(0, vectors.shape[1], LANES):
            prefetch(vectors, sentence[last], k)
    return size


# --------------------------------------------------------------------------------------------------- from y to g


@fast
def decide(logits: Array, signs: Array, begin: int, end: int, rate: np.float32, product: float) -> tuple[float, float]:
    """From logits y to steps of ascent, g = rate · s (1 - σ(s y)), in their place.

    To take a logarithm of every σ would cost more than all the rest. So the loss -Σ log σ(s y) comes in two parts: what
    is to be added to it now, and the product of those σ whose logarithm is still to be taken, the one from the call
    before included. No σ enters the product as less than σ(-8); what that leaves out is in the first part.

    σ(y) = ½ + ½ tanh(y/2), where tanh is a quotient of polynomials in y/2, right to the last digits of a float.
    """
    logits, signs = logits[begin:end], signs[begin:end]  # counted from 0: an index that may be negative costs a test
    some, loss = 1.0, NONE
    for index in range(len(logits)):
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
        some *= max(right, LEAST) if sign != NONE else YES
        loss += max(-EDGE - right_way, NONE)
        logits[index] = rate * sign * (YES - right)
    product *= some
    if product < SMALL:
        loss -= math.log(product)
        product = 1.0
    return loss, product


# ---------------------------------------------------------------------------------------------------- skip-gram


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
    """outputs[rows[d]] += Σ_i steps[i, d] · vectors[words[i]]; `count` and `size` are even.

    A row may be there twice, for noise words are drawn independently: then it takes both steps, one after the other.
    """
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
def skip_gram(
    tokens: Array,
    keep: Array,
    vectors: Array,
    outputs: Array,
    decisions: Decisions,
    window: int,
    first_rate: float,
    last_rate: float,
    seed: np.uint64,
) -> tuple[float, int]:
    """One gradient step per word of a text, which each word of its window predicts, h = v_w.

    The noise words are drawn once per centre, and the words of its window share them (Ji et al. 2016). Gives the loss,
    and how many predictions it is the sum of.
    """
    most = (decisions.longest + decisions.negatives + SIX - 1) // SIX * SIX  # decisions of a prediction, filled up
    sentence = np.empty(LONGEST, np.int32)
    words = np.empty(2 * window + 2, np.int64)  # of a window, with room for one that fills up
    rows, next_rows = np.empty(most, np.int64), np.empty(most, np.int64)
    chosen = np.zeros((most, vectors.shape[1]), np.float32)
    signs = np.empty(len(words) * most, np.float32)  # s, [words, decisions]
    next_signs = np.empty(most, np.float32)
    steps = np.empty(len(words) * most, np.float32)  # y, then g, [words, decisions]
    state = np.full(1, seed, np.uint64)
    loss, product, predictions = 0.0, 1.0, 0
    place = 0
    while place < len(tokens):
        rate = np.float32(first_rate + (last_rate - first_rate) * place / len(tokens))
        place, length = read_sentence(tokens, place, keep, state, sentence)
        ahead = 0  # decisions chosen for the next centre
        for centre in range(-1, length):  # at -1, all there is to do is to look ahead
            ready = ahead
            for d in range(ready):
                rows[d] = next_rows[d]
                signs[d] = next_signs[d]
            ahead = look_ahead(
                sentence, length, centre + 1, window, vectors, outputs, decisions, state, next_rows, next_signs
            )
            if centre < 0:
                continue
            count = lay_window(sentence, length, centre, window, state, words)
            if count == 0:
                continue
            size = fetch(outputs, rows, signs, ready, chosen)
            predictions += count
            for i in range(1, count):  # every word has the same answers to learn
                for d in range(size):
                    signs[i * size + d] = signs[d]
            if count & 1:  # the row of zeros makes the pair whole
                words[count] = len(vectors) - 1
                for d in range(size):
                    signs[count * size + d] = NONE
                count += 1
            multiply(vectors, words, count, chosen, size, steps)
            for begin in range(0, count * size, TOGETHER):
                more, product = decide(steps, signs, begin, min(begin + TOGETHER, count * size), rate, product)
                loss += more
            step_outputs(outputs, rows, size, vectors, words, count, steps)
            step_vectors(vectors, words, count, chosen, size, steps)
    return loss - math.log(product), predictions


# --------------------------------------------------------------------------------------------------------- cbow


@fast
def cbow(
    tokens: Array,
    keep: Array,
    vectors: Array,
    outputs: Array,
    decisions: Decisions,
    window: int,
    first_rate: float,
    last_rate: float,
    seed: np.uint64,
    mean: bool,
) -> tuple[float, int]:
    """One gradient step per word of a text, which the words of its window predict together, h = share · Σ_w v_w.

    The share is 1/n for a mean, 1 for a sum. Of the gradient of h each word gets its share, too. word2vec.c and gensim
    give each the whole of the gradient of a mean (İrsoy et al. 2021), and need a lower rate for it. Gives the loss, and
    how many predictions it is the sum of.
    """
    most = (decisions.longest + decisions.negatives + SIX - 1) // SIX * SIX  # decisions of a prediction, filled up
    sentence = np.empty(LONGEST, np.int32)
    words = np.empty(2 * window + 2, np.int64)  # of a window, with room for one that fills up
    rows, next_rows = np.empty(most, np.int64), np.empty(most, np.int64)
    chosen = np.zeros((most, vectors.shape[1]), np.float32)
    signs, next_signs = np.empty(most, np.float32), np.empty(most, np.float32)
    steps = np.empty(most, np.float32)  # y, then g
    state = np.full(1, seed, np.uint64)
    width = vectors.shape[1] >> 4 << 4
    hidden = np.zeros(vectors.shape[1], np.float32)  # h
    error = np.zeros(vectors.shape[1], np.float32)  # share · Σ_d g_d v'_d: the step of every word of the window
    loss, product, predictions = 0.0, 1.0, 0
    place = 0
    while place < len(tokens):
        rate = np.float32(first_rate + (last_rate - first_rate) * place / len(tokens))
        place, length = read_sentence(tokens, place, keep, state, sentence)
        ahead = 0  # decisions chosen for the next centre
        for centre in range(-1, length):  # at -1, all there is to do is to look ahead
            ready = ahead
            for d in range(ready):
                rows[d] = next_rows[d]
                signs[d] = next_signs[d]
            ahead = look_ahead(
                sentence, length, centre + 1, window, vectors, outputs, decisions, state, next_rows, next_signs
            )
            if centre < 0:
                continue
            count = lay_window(sentence, length, centre, window, state, words)
            if count == 0:
                continue
            size = fetch(outputs, rows, signs, ready, chosen)
            predictions += 1
            if count & 1:
                words[count] = len(vectors) - 1
            share = YES / np.float32(count) if mean else YES
            for k in range(width):
                hidden[k] = NONE
                error[k] = NONE
            for i in range(0, count, 2):  # where `count` is odd, the last word is paired with the row of zeros
                u, v = words[i], words[i + 1]
                for k in range(width):
                    hidden[k] += share * (vectors[u, k] + vectors[v, k])
            for d in range(0, size, SIX):  # y_d = v'_d · h
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
            for begin in range(0, size, TOGETHER):
                more, product = decide(steps, signs, begin, min(begin + TOGETHER, size), rate, product)
                loss += more
            for d in range(0, size, SIX):  # share · Σ_d g_d v'_d
                s0, s1, s2 = steps[d], steps[d + 1], steps[d + 2]
                s3, s4, s5 = steps[d + 3], steps[d + 4], steps[d + 5]
                for k in range(width):
                    one = s0 * chosen[d, k] + s1 * chosen[d + 1, k] + s2 * chosen[d + 2, k]
                    two = s3 * chosen[d + 3, k] + s4 * chosen[d + 4, k] + s5 * chosen[d + 5, k]
                    error[k] += share * (one + two)
            for d in range(0, size, 2):  # v'_d += g_d h
                p, q, at_p, at_q = rows[d], rows[d + 1], steps[d], steps[d + 1]
                for k in range(width):
                    outputs[p, k] += at_p * hidden[k]
                    outputs[q, k] += at_q * hidden[k]
            for i in range(0, count - 1, 2):
                u, v = words[i], words[i + 1]
                for k in range(width):
                    vectors[u, k] += error[k]
                    vectors[v, k] += error[k]
            if count & 1:  # alone: the row of zeros must stay zero
                u = words[count - 1]
                for k in range(width):
                    vectors[u, k] += error[k]
    return loss - math.log(product), predictions
