"""What a network knows of words before training: how frequent they are, and vectors that others learned of them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.config.schema.outputs import ClassOutput, OutputConfig, ProposalConfig, TreeOutput
from seqloom.errors import UserError
from seqloom.models.ngram.model import NgramModel
from seqloom.nn.output import OutputLayout, layout_of
from seqloom.nn.output.proposals import NgramNoise
from seqloom.runs.folder import RunFolder
from seqloom.runs.generation import check_same_tokens
from seqloom.runs.language_model import TextAssets
from seqloom.runs.words import load_vectors, ordinary_words
from seqloom.text.kinds import load_tokenizer
from seqloom.text.special import SPECIALS
from seqloom.text.tokenizer import Tokenizer

CHUNK = 1 << 24  # tokens counted at a time


@dataclass(frozen=True)
class NeuralTextAssets(TextAssets):
    """The tokeniser, and what the output layer must know of the words."""

    output: OutputLayout


def word_layout(config: OutputConfig, tokens: NDArray[np.integer], tokenizer: Tokenizer) -> OutputLayout:
    """The layout of an output layer over the tokeniser's words, which stand in `tokens` as training reads them."""
    vectors = ngram = None
    if isinstance(config, ClassOutput | TreeOutput) and config.vectors is not None:
        vectors = _vectors(config.vectors, tokenizer)
    if isinstance(config, ProposalConfig) and config.run is not None:
        ngram = _ngram(config.run, tokenizer)
    return layout_of(config, count_words(tokens, tokenizer.size), vectors, ngram)


def count_words(tokens: NDArray[np.integer], vocabulary_size: int) -> Tensor:
    """How often each word stands in `tokens`, which may be larger than memory: [vocabulary]."""
    counts = np.zeros(vocabulary_size, np.int64)
    for first in range(0, len(tokens), CHUNK):
        known = tokens[first : first + CHUNK]
        counts += np.bincount(known[known < vocabulary_size], minlength=vocabulary_size)  # others are copied words
    return torch.from_numpy(counts)


def start_embedding(weight: nn.Parameter, tokenizer: Tokenizer, path: str | Path | None) -> list[str]:
    """Copy vectors, as they are, into the rows of the words that have some; the other rows stay as they began.

    `weight` has a row for each token. Says how many words have vectors, of how many; nothing where no vectors are
    given.
    """
    if path is None:
        return []
    vectors = load_vectors(path)
    if vectors.size != weight.shape[1]:
        raise UserError(
            f"the vectors of {path} have {vectors.size} numbers and the embedding has {weight.shape[1]}: "
            f"set its size to {vectors.size}"
        )
    words = ordinary_words(tokenizer)
    rows = [row for row, word in enumerate(words) if word in vectors]
    if rows:
        known = torch.from_numpy(np.stack([vectors[words[row]] for row in rows]))
        with torch.no_grad():
            weight[[row + len(SPECIALS) for row in rows]] = known.to(weight)
    return [f"{len(rows):,} of {len(words):,} words begin with their vector of {path}"]


def _vectors(path: str, tokenizer: Tokenizer) -> Tensor:
    """A vector for each word of the tokeniser; zero where there is none."""
    words = load_vectors(path)
    vectors = np.zeros((tokenizer.size, words.size), np.float32)
    for number, word in enumerate(tokenizer.tokens(range(tokenizer.size))):
        if word in words:
            vectors[number] = words[word]
    return torch.from_numpy(vectors)


def _ngram(path: str, tokenizer: Tokenizer) -> OutputLayout:
    """What output layers need of an n-gram run to draw words from it."""
    folder = RunFolder.open(Path(path))
    model = folder.config.model
    if model.kind != "ngram":
        raise UserError(f"{path} is a model of kind {model.kind!r}; model.output.run needs an n-gram run")
    check_same_tokens(load_tokenizer(folder.assets / "tokenizer.json"), path, tokenizer, "this run")
    ngram = NgramModel.load(folder.weights_file, model.order, tokenizer.size)
    arrays = {
        "words": ngram.trie.words,
        "first": ngram.trie.first.astype(np.int64),
        "probabilities": np.exp(ngram.log_probs),
        "weights": np.exp(ngram.backoffs),
        "levels": np.array(ngram.trie.levels),
    }
    layout = {name: torch.from_numpy(np.array(array)) for name, array in arrays.items()}
    try:
        NgramNoise(**layout, noise=torch.ones(tokenizer.size, dtype=torch.float64), share=0.0)
    except ValueError as error:
        raise UserError(
            f"words cannot be drawn from {path} ({error}): train it with model.order=2 or more and an interpolated "
            f"model.smoothing, modified-kneser-ney for example"
        ) from None
    return layout
