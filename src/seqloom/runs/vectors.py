"""Word vectors from wherever they are, and embedding layers that begin with them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from torch import nn

from seqloom.arrays import map_arrays
from seqloom.errors import CheckpointError, UserError
from seqloom.models.word_files import read_word2vec
from seqloom.models.word_vectors import WordVectors
from seqloom.runs.folder import RunFolder
from seqloom.text import Tokenizer
from seqloom.text.special import SPECIALS


def load_vectors(path: str | Path) -> WordVectors:
    """The word vectors of a run folder or of a word2vec file (text or binary, gzipped or not)."""
    path = Path(path)
    if not path.is_dir():
        if not path.exists():
            raise CheckpointError(f"{path}: no such run folder, and no such file of word vectors")
        return read_word2vec(path)
    folder = RunFolder.open(path)
    kind = folder.config().model.kind
    if kind != "word2vec":
        raise UserError(f"{path} is a model of kind {kind!r}; word vectors are needed here")
    vectors = map_arrays(folder.weights_file, ["vectors"])["vectors"]
    return WordVectors(ordinary_words(folder.tokenizer()), vectors)


def ordinary_words(tokenizer: Tokenizer) -> list[str]:
    """The tokens that have vectors: all but the special symbols."""
    return tokenizer.tokens(range(len(SPECIALS), tokenizer.size))


def start_embedding(embedding: nn.Module, tokenizer: Tokenizer, path: str | Path) -> str:
    """Copy vectors, as they are, into the rows of the words that have some; the other rows stay as they began.

    `embedding` has a matrix `weight` with a row for each token. Says how many words were found, of how many.
    """
    weight = embedding.weight
    assert isinstance(weight, nn.Parameter)
    vectors = load_vectors(path)
    if vectors.size != weight.shape[1]:
        raise UserError(
            f"the vectors of {path} have {vectors.size} numbers and the embedding has {weight.shape[1]}: "
            f"set its size to {vectors.size}"
        )
    words = ordinary_words(tokenizer)
    rows = [row for row, word in enumerate(words) if word in vectors]
    found = np.stack([vectors[words[row]] for row in rows]) if rows else np.empty((0, vectors.size), np.float32)
    with torch.no_grad():
        weight[[row + len(SPECIALS) for row in rows]] = torch.from_numpy(found).to(weight)
    return f"{len(rows):,} of {len(words):,} words begin with their vector of {path}"
