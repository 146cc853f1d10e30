"""Runs of word vectors to word2vec files, and back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from seqloom.arrays import write_arrays
from seqloom.config import RunConfig
from seqloom.config.schema import TextData, WhitespaceText, Word2VecConfig
from seqloom.models.word_files import read_word2vec, write_word2vec
from seqloom.runs import RunFolder, TrainedWordVectors, load_vectors
from seqloom.text import Vocabulary, WhitespaceTokenizer
from seqloom.text.special import SPECIALS


def export_word2vec(run: str | Path, out: Path) -> None:
    """Write the vectors of a run as a word2vec text file, gzipped when its name ends in .gz."""
    write_word2vec(load_vectors(run), Path(out))


def export_word2vec_binary(run: str | Path, out: Path) -> None:
    """The same in the binary form."""
    write_word2vec(load_vectors(run), Path(out), binary=True)


def import_word2vec(path: str | Path, out: Path) -> TrainedWordVectors:
    """Make a run of a word2vec file, text or binary. It has vectors alone: no outputs, and no counts of words.

    Words that are spelled like special symbols, and those that come a second time, are left out.
    """
    folder = RunFolder(Path(out))
    folder.check_free()
    found = read_word2vec(Path(path))
    places = {word: place for place, word in reversed(list(enumerate(found.words))) if word not in SPECIALS}
    rows = sorted(places.values())
    config = RunConfig(
        description=f"read from {Path(path).name}",
        text=WhitespaceText(),
        data=TextData(train=str(path), unit="line", valid_fraction=0),
        model=Word2VecConfig(size=found.size),
    )
    folder.write(config, WhitespaceTokenizer(Vocabulary([found.words[row] for row in rows])))
    arrays: dict[str, NDArray[Any]] = {
        "vectors": found.vectors[rows],
        "outputs": np.empty((0, found.size), np.float32),
        "counts": np.zeros(len(rows), np.int64),
        "passes": np.zeros(1, np.int64),
    }
    write_arrays(folder.weights_file, arrays)
    return TrainedWordVectors.load(folder.path)
