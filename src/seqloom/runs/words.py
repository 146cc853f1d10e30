"""Words and vectors that were learned of them: of run folders and of files."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from seqloom.arrays import map_arrays
from seqloom.errors import CheckpointError, ConfigError, UserError
from seqloom.models.word_files import read_word2vec
from seqloom.models.word_vectors import WordVectors
from seqloom.runs.folder import RunFolder
from seqloom.text.kinds import load_tokenizer
from seqloom.text.special import SPECIALS
from seqloom.text.tokenizer import Tokenizer
from seqloom.text.words import WordTokenizer


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
