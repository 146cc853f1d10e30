"""Learning the pieces of a unigram subword model (Kudo 2018, "Subword Regularization", section 3.2).

The model gives a word the sum over all ways x = x_1...x_m to cut it into pieces,

    P(word) = Σ_x Π_i p(x_i),

and p is fitted by expectation-maximisation. Learning begins with many substrings of the corpus and takes away, round
after round, the pieces whose loss would cost the likelihood least.

The `tokenizers` library has a trainer of its own, but its outcome changes from run to run with the order of a hash
table; this one gives the same pieces for the same text.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Mapping
from itertools import accumulate, pairwise
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

LONGEST_PIECE = 16  # characters
SEEDS_PER_PIECE = 10  # how many candidates learning begins with, for each piece it ends with
KEPT_EACH_ROUND = 0.75
EM_STEPS = 2  # per round, as in the paper's implementation
MOST_CHARACTERS = 2_000_000  # of distinct words to learn from: the memory and the time that learning may take
LEAST_EXPECTED = 0.5  # a piece expected less often than this is not used; a character counts as seen at least so often

Integers = NDArray[np.int64]
Floats = NDArray[np.float64]


def learn_pieces(counts: Mapping[str, int], size: int) -> list[tuple[str, float]]:
    """At most `size` pieces with their log-probabilities, likeliest first, for words seen `counts` times.

    Every character of the words is a piece; when there are more than `size`, the rarest ones are left out.
    """
    lattice, pieces = _seed_lattice(_learnable(counts, size), size)
    scores = np.log(np.maximum(lattice.frequencies, LEAST_EXPECTED) / lattice.frequencies.sum())
    while True:
        for _ in range(EM_STEPS):
            expected = lattice.expected_counts(scores, len(pieces))
            single = np.array([len(piece) == 1 for piece in pieces])
            used = single | (expected >= LEAST_EXPECTED)
            pieces, expected = _keep(pieces, used), np.maximum(expected[used], LEAST_EXPECTED)
            lattice = lattice.restricted_to(used)
            scores = np.log(expected / expected.sum())
        if len(pieces) <= size:
            break
        kept = _worth_keeping(pieces, expected, scores, max(size, int(KEPT_EACH_ROUND * len(pieces))))
        pieces, scores = _keep(pieces, kept), scores[kept]
        lattice = lattice.restricted_to(kept)
    return sorted(zip(pieces, scores.tolist(), strict=True), key=lambda pair: (-pair[1], pair[0]))


def _learnable(counts: Mapping[str, int], size: int) -> dict[str, int]:
    """The words to learn from, in alphabetical order: those that the `size` most frequent characters can spell.

    Of very many words the most frequent ones are enough. Ties go by a checksum: as good as drawing lots, and the same
    each time.
    """
    characters: Counter[str] = Counter()
    for word, count in counts.items():
        for character in word:
            characters[character] += count
    frequent = set(sorted(characters, key=lambda character: (-characters[character], character))[:size])
    words = [word for word in counts if frequent.issuperset(word)]
    words.sort(key=lambda word: (-counts[word], crc32(word.encode()), word))
    enough = bisect_right(list(accumulate(map(len, words))), MOST_CHARACTERS)
    return {word: counts[word] for word in sorted(words[:enough])}


class _Lattice:
    """All the ways to cut all words into pieces, as one graph: nodes stand between characters, edges are pieces.

    Edges are grouped by how deep in their word they start and by length. Within a group no two edges share a start
    or an end, so each group is one vectorised update; and groups in order of depth are in topological order.
    """

    def __init__(self, starts: Integers, lengths: Integers, edge_pieces: Integers, words: _Words, frequencies: Floats):
        self.starts, self.lengths, self.edge_pieces = starts, lengths, edge_pieces
        self.words = words
        self.frequencies = frequencies  # of the pieces, however they overlap
        groups = words.depths[starts] * (LONGEST_PIECE + 1) + lengths
        bounds = np.flatnonzero(np.diff(groups, prepend=-1, append=-1)).tolist()
        self.groups = [slice(begin, end) for begin, end in pairwise(bounds)]

    def restricted_to(self, kept: NDArray[np.bool_]) -> _Lattice:
        """The lattice of fewer pieces, renumbered."""
        edges = kept[self.edge_pieces]
        numbers = np.cumsum(kept) - 1
        pieces = numbers[self.edge_pieces[edges]]
        return _Lattice(self.starts[edges], self.lengths[edges], pieces, self.words, self.frequencies[kept])

    def expected_counts(self, scores: Floats, pieces: int) -> Floats:
        """How often each piece is expected in the corpus: the sum of its edges' posterior probabilities."""
        starts, ends, edge_scores = self.starts, self.starts + self.lengths, scores[self.edge_pieces]
        forward = np.full(self.words.nodes, -np.inf)
        forward[self.words.firsts] = 0.0
        for group in self.groups:
            reached = forward[starts[group]] + edge_scores[group]
            forward[ends[group]] = np.logaddexp(forward[ends[group]], reached)
        backward = np.full(self.words.nodes, -np.inf)
        backward[self.words.lasts] = 0.0
        for group in reversed(self.groups):
            reached = backward[ends[group]] + edge_scores[group]
            backward[starts[group]] = np.logaddexp(backward[starts[group]], reached)
        word = self.words.of_nodes[starts]
        log_posterior = forward[starts] + edge_scores + backward[ends] - forward[self.words.lasts[word]]
        expected = np.exp(log_posterior) * self.words.counts[word]
        return np.bincount(self.edge_pieces, weights=expected, minlength=pieces).astype(np.float64)


class _Words:
    """Where the words lie in the lattice: a word of n characters has n + 1 nodes in a row."""

    def __init__(self, lengths: Integers, counts: Floats) -> None:
        self.counts = counts
        self.lasts = np.cumsum(lengths + 1) - 1
        self.firsts = self.lasts - lengths
        self.nodes = int(self.lasts[-1]) + 1
        self.of_nodes = np.repeat(np.arange(len(lengths)), lengths + 1)
        self.depths = np.arange(self.nodes) - self.firsts[self.of_nodes]


def _seed_lattice(counts: dict[str, int], size: int) -> tuple[_Lattice, list[str]]:
    """The lattice of all characters and of the substrings that cover most of the corpus.

    Substrings of each length are numbered from those one shorter: (number of the prefix, next character).
    """
    text = "".join(counts)
    lengths = np.array([len(word) for word in counts])
    words = _Words(lengths, np.array(list(counts.values()), dtype=np.float64))
    word = np.repeat(np.arange(len(lengths)), lengths)  # of each character
    left = np.cumsum(lengths)[word] - np.arange(len(text))  # characters from each one to the end of its word
    alphabet, characters = np.unique(np.frombuffer(text.encode("utf-32-le"), dtype="<u4"), return_inverse=True)

    pieces: list[str] = []
    frequencies: list[Floats] = []
    starts: list[Integers] = []
    edge_lengths: list[Integers] = []
    edge_pieces: list[Integers] = []
    positions, prefixes = np.arange(len(text)), np.zeros(len(text), dtype=np.int64)
    for length in range(1, LONGEST_PIECE + 1):
        inside = left[positions] >= length
        positions, prefixes = positions[inside], prefixes[inside]
        keys = prefixes * len(alphabet) + characters[positions + length - 1]
        _, examples, numbers = np.unique(keys, return_index=True, return_inverse=True)
        frequency = np.bincount(numbers, words.counts[word[positions]], minlength=len(examples))
        repeated = (frequency >= 2) | (length == 1)  # what begins with a rare substring is rare itself
        first_positions = positions[examples[repeated]].tolist()
        positions, numbers = positions[repeated[numbers]], numbers[repeated[numbers]]
        prefixes = (np.cumsum(repeated) - 1)[numbers]
        starts.append(positions + word[positions])
        edge_lengths.append(np.full(len(positions), length))
        edge_pieces.append(prefixes + len(pieces))
        frequencies.append(frequency[repeated].astype(np.float64))
        pieces += [text[position : position + length] for position in first_positions]
        if not len(positions):
            break

    all_starts, all_lengths = np.concatenate(starts), np.concatenate(edge_lengths)
    order = np.argsort(words.depths[all_starts], kind="stable")  # stable: within a depth, lengths stay in order
    lattice = _Lattice(
        all_starts[order],
        all_lengths[order],
        np.concatenate(edge_pieces)[order],
        words,
        np.concatenate(frequencies),
    )
    covered = lattice.frequencies * np.array([len(piece) for piece in pieces])
    kept = _best(pieces, covered, SEEDS_PER_PIECE * size)
    return lattice.restricted_to(kept), _keep(pieces, kept)


def _worth_keeping(pieces: list[str], expected: Floats, scores: Floats, size: int) -> NDArray[np.bool_]:
    """The `size` pieces whose absence would lower the corpus's log-likelihood most.

    Without a piece, each of its occurrences is written with the best of the others instead.
    """
    known = dict(zip(pieces, scores.tolist(), strict=True))
    instead = np.array([_best_split(piece, known) if len(piece) > 1 else -math.inf for piece in pieces])
    return _best(pieces, expected * (scores - instead), size)


def _best_split(piece: str, known: dict[str, float]) -> float:
    """The score of the likeliest way to write a piece with two others or more (Viterbi)."""
    best = [0.0] + [-math.inf] * len(piece)
    for end in range(1, len(piece) + 1):
        for start in range(end == len(piece), end):
            score = known.get(piece[start:end])
            if score is not None and best[start] + score > best[end]:
                best[end] = best[start] + score
    return best[-1]


def _best(pieces: list[str], values: Floats, size: int) -> NDArray[np.bool_]:
    """A mask of all single characters and of the pieces of greatest value up to `size`; ties go by the alphabet."""
    order = sorted(range(len(pieces)), key=lambda i: (len(pieces[i]) > 1, -values[i], pieces[i]))
    kept = np.zeros(len(pieces), dtype=bool)
    kept[order[:size]] = True
    return kept


def _keep(pieces: list[str], kept: NDArray[np.bool_]) -> list[str]:
    return [piece for piece, keep in zip(pieces, kept.tolist(), strict=True) if keep]
