"""What an output layer must know of the words before training: how frequent they are, and what they are like."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from seqloom.config.schema import ClassOutput, OutputConfig
from seqloom.nn.output import Plan, plan_output
from seqloom.runs.vectors import load_vectors
from seqloom.text import Tokenizer

CHUNK = 1 << 24  # tokens counted at a time


def plan_words(config: OutputConfig, tokens: NDArray[np.integer], tokenizer: Tokenizer) -> Plan:
    """The plan of an output layer over the tokeniser's words, which stand in `tokens` as training reads them."""
    vectors = None
    if isinstance(config, ClassOutput) and config.vectors is not None:
        vectors = _vectors(config.vectors, tokenizer)
    return plan_output(config, count_words(tokens, tokenizer.size), vectors)


def count_words(tokens: NDArray[np.integer], vocabulary_size: int) -> Tensor:
    """How often each word stands in `tokens`, which may be larger than memory: [vocabulary]."""
    counts = np.zeros(vocabulary_size, np.int64)
    for first in range(0, len(tokens), CHUNK):
        known = tokens[first : first + CHUNK]
        counts += np.bincount(known[known < vocabulary_size], minlength=vocabulary_size)  # others are copied words
    return torch.from_numpy(counts)


def _vectors(path: str, tokenizer: Tokenizer) -> Tensor:
    """A vector for each word of the tokeniser; zero where there is none."""
    words = load_vectors(path)
    vectors = np.zeros((tokenizer.size, words.size), np.float32)
    for number, word in enumerate(tokenizer.tokens(range(tokenizer.size))):
        if word in words:
            vectors[number] = words[word]
    return torch.from_numpy(vectors)
