"""What a run knows of words before training: how frequent they are, and vectors that others learned of them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from seqloom.arrays import map_arrays
from seqloom.config.schema.outputs import ClassOutput, OutputConfig, ProposalConfig, TreeOutput
from seqloom.errors import CheckpointError, ConfigError, UserError
from seqloom.models.ngram.model import NgramModel
from seqloom.models.word_files import read_word2vec
from seqloom.models.word_vectors import WordVectors
from seqloom.nn.output import OutputLayout, layout_of
from seqloom.nn.output.proposals import NgramNoise
from seqloom.runs.folder import RunFolder
from seqloom.runs.generation import check_same_tokens
from seqloom.text.kinds import load_tokenizer
from seqloom.text.special import SPECIALS
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.words import WordTokenizer

CHUNK = 1 << 24  # tokens counted at a time


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


def load_vectors(path: str | Path) -> WordVectors:
    """The word vectors of a run folder or of a word2vec file (text or binary, gzipped or not)."""
    path = Path(path)
    if not path.is_dir():
        if not path.exists():
            raise CheckpointError(f"{path}: no such run folder, and no such file of word vectors")
        return read_word2vec(path)
    folder = RunFolder.open(path)
    model = folder.config.model
    if model.kind != "word2vec":
        raise UserError(f"{path} is a model of kind {model.kind!r}; word vectors are needed here")
    words = ordinary_words(load_tokenizer(folder.assets / "tokenizer.json"))
    arrays = map_arrays(folder.weights_file, {"vectors": (np.float32, (len(words), model.size))})
    return WordVectors(words, arrays["vectors"])


def words_only(tokenizer: Tokenizer, reader: str) -> WordTokenizer:
    """A tokeniser as one of words, where `reader` needs one."""
    if not isinstance(tokenizer, WordTokenizer):
        raise ConfigError(f"{reader} reads words, and the tokeniser of text.path has {tokenizer.kind} tokens")
    return tokenizer


def ordinary_words(tokenizer: Tokenizer) -> list[str]:
    """The tokens that have vectors: all but the special symbols."""
    return tokenizer.tokens(range(len(SPECIALS), tokenizer.size))


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
