"""Runs to files of other programs, and files of other programs to runs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.arrays import write_arrays
from seqloom.config import RunConfig
from seqloom.config.schema.data import TextData
from seqloom.config.schema.ngram import NgramModelConfig
from seqloom.config.schema.text import WhitespaceText
from seqloom.config.schema.word2vec import Word2VecConfig
from seqloom.interop.arpa import read_arpa, write_arpa
from seqloom.kinds import load
from seqloom.models.word_files import read_word2vec, write_word2vec
from seqloom.runs.capabilities import HasNgrams, able
from seqloom.runs.engine import write_run
from seqloom.runs.language_model import TextAssets
from seqloom.runs.trained import Trained
from seqloom.runs.words import load_vectors
from seqloom.text.special import SPECIALS
from seqloom.text.vocabulary import Vocabulary
from seqloom.text.words import WhitespaceTokenizer


def export_arpa(run: str | Path, out: Path) -> None:
    """Write the n-gram model of a run as an ARPA file, gzipped when its name ends in .gz."""
    trained = able(load(run, device="cpu"), HasNgrams, "export --to arpa")
    write_arpa(trained.model, trained.tokenizer.tokens(range(trained.tokenizer.size)), Path(out))


def export_word2vec(run: str | Path, out: Path) -> None:
    """Write the vectors of a run as a word2vec text file, gzipped when its name ends in .gz."""
    write_word2vec(load_vectors(run), Path(out))


def export_word2vec_binary(run: str | Path, out: Path) -> None:
    """The same in the binary form."""
    write_word2vec(load_vectors(run), Path(out), binary=True)


def import_arpa(path: str | Path, out: Path) -> Trained:
    """Make a run of an ARPA file; every verb then takes it. Text is split at white space, as the file's words are."""
    model, tokenizer = read_arpa(Path(path))
    return _imported(path, out, NgramModelConfig(order=model.order, smoothing="imported"), tokenizer, model.save)


def import_word2vec(path: str | Path, out: Path) -> Trained:
    """Make a run of a word2vec file, text or binary. It has vectors alone: no outputs, and no counts of words.

    Words that are spelled like special symbols, and those that come a second time, are left out.
    """
    read = read_word2vec(Path(path))
    places = {word: place for place, word in reversed(list(enumerate(read.words))) if word not in SPECIALS}
    rows = sorted(places.values())
    arrays: dict[str, NDArray[Any]] = {
        "vectors": read.vectors[rows],
        "outputs": np.empty((0, read.size), np.float32),
        "counts": np.zeros(len(rows), np.int64),
        "passes": np.zeros(1, np.int64),
    }
    tokenizer = WhitespaceTokenizer(Vocabulary([read.words[row] for row in rows]))
    return _imported(path, out, Word2VecConfig(size=read.size), tokenizer, lambda file: write_arrays(file, arrays))


def _imported(
    path: str | Path,
    out: Path,
    model: NgramModelConfig | Word2VecConfig,
    tokenizer: WhitespaceTokenizer,
    save: Callable[[Path], None],
) -> Trained:
    """A run whose model was not trained but read."""
    data = TextData(train=str(path), unit="line", valid_fraction=0)
    config = RunConfig(description=f"read from {Path(path).name}", text=WhitespaceText(), data=data, model=model)
    return write_run(out, config, TextAssets(tokenizer), save)
