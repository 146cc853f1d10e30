"""Run folders of strangers, whose checksums are right: what lies in them is refused, in one line, before it is used."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import load_file, save_file
from sealing import reseal

import seqloom
from seqloom.arrays import UNSEALED, seal
from seqloom.errors import CheckpointError, UserError

WEIGHTS, LAYOUT = "model.safetensors", "assets/output.safetensors"
NETWORK = ("training.steps=1", "training.device=cpu", "model.embedding.size=4", "data.batch_size=2", "data.length=4")
RUNS = {
    "ngram": ("ngram", "model.order=3", "data.valid_fraction=0"),
    "word2vec": ("word2vec", "model.size=4", "model.passes=1", "model.threads=1", "text.min_count=1"),
    "tree": ("feedforward", *NETWORK, "model.output.kind=tree-softmax", "model.features.size=4"),
    "class": ("feedforward", *NETWORK, "model.output.kind=class-softmax", "model.features.size=4"),
}


@pytest.fixture(scope="module")
def runs(
    corpus_file: Path,
    tmp_path_factory: pytest.TempPathFactory,
    without_reports: Callable[[], AbstractContextManager[None]],
) -> Path:
    """A folder with runs that tell the truth."""
    folder = tmp_path_factory.mktemp("runs")
    with without_reports():
        for name, (preset, *settings) in RUNS.items():
            settings = [f"data.train={corpus_file}", "text.kind=words", *settings]
            seqloom.train(preset, settings, folder / name)
        for name in ("one", "two"):
            shared = ["text.kind=run", f"text.path={folder / 'ngram'}", "data.valid_fraction=0", "model.order=2"]
            seqloom.train("ngram", [f"data.train={corpus_file}", *shared], folder / name)
        parts = f"model.runs=[{folder / 'one'}, {folder / 'two'}]"
        seqloom.train("interpolation", [f"data.train={corpus_file}", parts], folder / "mixture")
    return folder


Change = Callable[[dict[str, NDArray[Any]]], object]


def lying(run: Path, out: Path, file: str, change: Change) -> Path:
    """A copy of a run with changed arrays in one file, sealed as if it had been trained so."""
    shutil.copytree(run, out)
    arrays = {name: array.copy() for name, array in load_file(out / file).items()}
    change(arrays)
    save_file(arrays, out / file, UNSEALED)
    seal(out / file)
    reseal(out)
    return out


def put(name: str, place: Any, value: float) -> Change:
    return lambda arrays: arrays[name].__setitem__(place, value)


def cut(name: str) -> Change:
    return lambda arrays: arrays.update({name: arrays[name][:-1]})


LIES: dict[str, tuple[str, str, Change]] = {
    "continuations far away": ("ngram", WEIGHTS, put("first", slice(None), -(2**30))),
    "words beyond the vocabulary": ("ngram", WEIGHTS, put("words", slice(-9, None), 10**7)),
    "vectors of too few words": ("word2vec", WEIGHTS, cut("vectors")),
    "outputs of too few words": ("word2vec", WEIGHTS, cut("outputs")),
    "counts of too few words": ("word2vec", WEIGHTS, cut("counts")),
    "a count below 0": ("word2vec", WEIGHTS, put("counts", 2, -5)),
    "passes below 0": ("word2vec", WEIGHTS, put("passes", 0, -1)),
    "a node beyond the tree": ("tree", LAYOUT, put("nodes", (2, 1), 10**6)),
    "another tree among the weights": ("tree", WEIGHTS, put("output.nodes", (2, 1), 10**6)),
    "a class beyond all others": ("class", LAYOUT, put("classes", 5, 10**9)),
    "other classes among the weights": ("class", WEIGHTS, put("output.classes", 5, 10**9)),
    "weights that do not sum to 1": ("mixture", WEIGHTS, put("weights", 0, 3.0)),
    "a weight that is no number": ("mixture", WEIGHTS, put("weights", 0, np.nan)),
    "a weight too few": ("mixture", WEIGHTS, cut("weights")),
    "a part that lies": ("mixture", "assets/runs/1/" + WEIGHTS, put("words", slice(-9, None), 10**7)),
}


@pytest.mark.parametrize("lie", LIES)
def test_a_lie_with_the_right_checksum_is_refused(lie: str, runs: Path, tmp_path: Path) -> None:
    name, file, change = LIES[lie]
    path = lying(runs / name, tmp_path / name, file, change)
    with pytest.raises(CheckpointError) as refused:
        seqloom.load(path)
    assert "\n" not in str(refused.value)
    assert "checksum" not in str(refused.value)


def test_a_tokeniser_of_more_words_is_refused(runs: Path, tmp_path: Path) -> None:
    for name in ("ngram", "mixture", "word2vec", "tree"):
        path = shutil.copytree(runs / name, tmp_path / name)
        file = path / "assets" / "tokenizer.json"
        document = json.loads(file.read_text(encoding="utf-8"))
        document["vocabulary"] += ["one", "more"]
        file.write_text(json.dumps(document), encoding="utf-8")
        reseal(path)
        with pytest.raises(UserError, match=r"tokeniser|vectors should be|layout of the output layer"):
            seqloom.load(path)


def test_vectors_of_too_few_words_do_not_go_on(runs: Path, tmp_path: Path) -> None:
    path = lying(runs / "word2vec", tmp_path / "word2vec", WEIGHTS, cut("counts"))
    with pytest.raises(CheckpointError, match="counts should be"):
        seqloom.train("word2vec", ["model.passes=3"], path, resume=True)


def test_the_number_of_batches_that_a_layer_has_seen_is_no_layout(tmp_path: Path) -> None:
    seen, loaded = torch.nn.BatchNorm1d(2), torch.nn.BatchNorm1d(2)
    seen(torch.zeros(3, 2))
    seqloom.training.load_model_weights(loaded, seen.state_dict(), "weights")
    assert loaded.num_batches_tracked == 1
