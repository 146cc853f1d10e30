"""Word2vec: a vector for each word, from the company it keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.arrays import map_arrays, write_arrays
from seqloom.config.schema.word2vec import Word2VecConfig
from seqloom.errors import CheckpointError
from seqloom.models.word2vec.decisions import Decisions, noise_decisions, tree_decisions
from seqloom.models.word2vec.sampling import kept_shares
from seqloom.models.word_vectors import WordVectors

LANES = 16  # numbers that a processor's register holds; rows are padded to a multiple
LINE = 64  # bytes that memory is read by; rows begin at a multiple

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Word2Vec:
    r"""Mikolov et al. 2013: vectors v of words and v' of what is decided on, such that words tell their neighbours.

    skip-gram    for each word c and each word w of its window, the vector h = v_w is to tell c
    cbow         for each word c, the mean h of the vectors of its window is to tell c

    negative sampling    log σ(v'_c · h) + Σ_k log σ(-v'_k · h), the words k drawn from p(k) ∝ count(k)^power
    tree                 Σ_n log σ(±v'_n · h) = log p(c | h), n the nodes on the way to c in a Huffman tree of the words

    is what training maximises. The matrices have a row of zeros after the last word and columns of zeros after the
    last dimension, for the sake of the compiled loops.
    """

    config: Word2VecConfig
    counts: NDArray[np.int64]
    """How often the training text has each word: sub-sampling, noise and tree follow from it. [V]"""
    vectors: Floats
    """v. [V + 1, padded size]"""
    outputs: Floats
    """v'. [V + 1, padded size]"""

    @classmethod
    def begin(cls, config: Word2VecConfig, counts: NDArray[np.int64], seed: int) -> Word2Vec:
        """Vectors uniform in ±1/(2·size), outputs zero: every probability begins at one half."""
        vectors, outputs = _matrix(len(counts), config.size), _matrix(len(counts), config.size)
        random = np.random.default_rng(seed)
        start = random.random((len(counts), config.size), np.float32)
        vectors[:-1, : config.size] = (start - 0.5) / config.size
        return cls(config, counts, vectors, outputs)

    @classmethod
    def load(cls, config: Word2VecConfig, path: Path, words: int) -> tuple[Word2Vec, int]:
        """The model of so many words that `save` wrote, and the number of passes that it has seen."""
        saved = map_arrays(
            path,
            {
                "vectors": (np.float32, (words, config.size)),
                "outputs": (np.float32, (None, config.size)),
                "counts": (np.int64, (words,)),
                "passes": (np.int64, (1,)),
            },
        )
        counts, passes = np.array(saved["counts"]), int(saved["passes"][0])
        if len(saved["outputs"]) not in (0, words) or counts.min(initial=0) < 0 or passes < 0:  # 0: vectors alone
            raise CheckpointError(f"{path} is damaged: an output is missing, or a count is below 0; train again")
        matrices = []
        for name in ("vectors", "outputs"):
            matrix = _matrix(words, config.size)
            matrix[: len(saved[name]), : config.size] = saved[name]
            matrices.append(matrix)
        return cls(config, counts, *matrices), passes

    def save(self, path: Path, passes: int) -> None:
        """Write the matrices without their padding, and how many passes they have seen, as one file."""
        words, size = len(self.counts), self.config.size
        arrays: Mapping[str, NDArray[Any]] = {
            "vectors": self.vectors[:words, :size],
            "outputs": self.outputs[:words, :size],
            "counts": self.counts,
            "passes": np.array([passes]),
        }
        write_arrays(path, arrays, sealed=True)

    def word_vectors(self, words: list[str]) -> WordVectors:
        """The vectors under their words; a view, which training goes on to change."""
        return WordVectors(words, self.vectors[: len(self.counts), : self.config.size])

    @property
    def parameters(self) -> int:
        """How many numbers were learned."""
        return 2 * len(self.counts) * self.config.size

    def learn(self, tokens: NDArray[np.int32], first_rate: float, last_rate: float, seed: np.uint64) -> _Learned:
        """One gradient step per word of a stretch of text; the rate falls from the first to the last.

        Gives the sum of the negative log-likelihoods of all predictions, and how many they are. With rates of 0
        nothing is learned.
        """
        from seqloom.models.word2vec.kernels import cbow, skip_gram  # not before there is work: it loads a compiler

        matrices, rates = (self.vectors, self.outputs), (first_rate, last_rate)
        arguments = (tokens, self._kept, *matrices, self._decisions, self.config.window, *rates, seed)
        if self.config.architecture == "skip-gram":
            return skip_gram(*arguments)
        return cbow(*arguments, self.config.context == "mean")

    @cached_property
    def _kept(self) -> NDArray[np.uint64]:
        return kept_shares(self.counts, self.config.subsample)

    @cached_property
    def _decisions(self) -> Decisions:
        if self.config.output == "tree":
            return tree_decisions(self.counts)
        return noise_decisions(self.counts, self.config.noise_power, self.config.negatives)


_Learned = tuple[float, int]


def _matrix(words: int, size: int) -> Floats:
    """Zeros, with the padding, the first row at the beginning of a line of memory."""
    width = -(-size // LANES) * LANES
    memory = np.zeros((words + 1) * width + LINE // 4, np.float32)
    begin = -memory.ctypes.data % LINE // 4
    return memory[begin : begin + (words + 1) * width].reshape(words + 1, width)
