"""Runs of word vectors to files that gensim opens, and gensim's files to runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import seqloom
from seqloom.errors import UserError
from seqloom.interop import export_word2vec, export_word2vec_binary, import_word2vec
from seqloom.kinds.word2vec import TrainedWordVectors

KeyedVectors: Any = pytest.importorskip("gensim.models", reason="comes with the extra `bench`").KeyedVectors


@pytest.fixture
def theirs() -> Any:
    vectors = KeyedVectors(6)
    words = ["the", "</s>", "<unk>", "king", "我"]
    vectors.add_vectors(words, np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32))
    return vectors


@pytest.mark.parametrize("binary", [False, True])
def test_gensims_vectors_become_a_run_and_go_back(theirs: Any, tmp_path: Path, binary: bool) -> None:
    theirs.save_word2vec_format(str(tmp_path / "theirs"), binary=binary)
    trained = import_word2vec(tmp_path / "theirs", tmp_path / "run")
    assert trained.vectors.words == ["the", "</s>", "king", "我"]  # a special symbol is no word of a vocabulary
    again = seqloom.load(tmp_path / "run")
    assert isinstance(again, TrainedWordVectors)
    np.testing.assert_allclose(again.vectors["king"], theirs["king"], rtol=1e-6)
    (export_word2vec_binary if binary else export_word2vec)(tmp_path / "run", tmp_path / "ours")
    opened = KeyedVectors.load_word2vec_format(str(tmp_path / "ours"), binary=binary)
    np.testing.assert_allclose(opened["我"], theirs["我"], rtol=1e-6)


def test_vectors_alone_have_no_loss(theirs: Any, tmp_path: Path) -> None:
    theirs.save_word2vec_format(str(tmp_path / "theirs"))
    trained = import_word2vec(tmp_path / "theirs", tmp_path / "run")
    (tmp_path / "some.txt").write_text("the king the king\n")
    with pytest.raises(UserError, match="output matrix"):
        trained.figures([str(tmp_path / "some.txt")])


def test_a_folder_that_holds_a_run_is_left_alone(theirs: Any, tmp_path: Path) -> None:
    theirs.save_word2vec_format(str(tmp_path / "theirs"))
    import_word2vec(tmp_path / "theirs", tmp_path / "run")
    with pytest.raises(UserError, match="holds a run already"):
        import_word2vec(tmp_path / "theirs", tmp_path / "run")
