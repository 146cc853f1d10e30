"""Runs of word vectors: the same again with one thread, exact resuming, going on with new words, embeddings."""

from __future__ import annotations

import math
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import seqloom
from seqloom.errors import ConfigError, DataError, UserError
from seqloom.kinds import word2vec
from seqloom.kinds.word2vec import TrainedWordVectors
from seqloom.models.word_vectors import WordVectors
from seqloom.progress import Silent
from seqloom.runs.neural_words import start_embedding
from seqloom.runs.words import load_vectors
from seqloom.text.kinds import load_tokenizer
from seqloom.training import Interrupted, read_metrics

TINY = [
    "model.kind=word2vec",
    "model.size=12",
    "model.threads=1",
    "model.subsample=0",
    "model.passes=3",
    "model.batch=500",
]
WORDS = ["text.kind=words", "text.lowercase=true", "text.min_count=2", "data.valid_fraction=0.1"]


@pytest.fixture
def text(tmp_path: Path) -> Path:
    random = np.random.default_rng(0)
    topics = [f"{letter}{number}" for letter in "abc" for number in range(8)]
    lines = []
    for _ in range(300):
        topic = int(random.integers(0, 3))
        lines.append(" ".join(random.choice(topics[8 * topic : 8 * topic + 8], 8)))
    path = tmp_path / "my.txt"
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


def train(text: Path, out: Path, *settings: str, **options: Any) -> TrainedWordVectors:
    found = seqloom.train({}, [*TINY, *WORDS, f"data.train={text}", *settings], out, **options)
    assert isinstance(found, TrainedWordVectors)
    return found


@pytest.mark.parametrize("architecture", ["skip-gram", "cbow"])
@pytest.mark.parametrize("output", ["negative-sampling", "tree"])
def test_every_kind_learns_and_comes_back(text: Path, tmp_path: Path, architecture: str, output: str) -> None:
    settings = [f"model.architecture={architecture}", f"model.output={output}", "model.learning_rate=0.2"]
    trained = train(text, tmp_path / "run", *settings, "model.passes=15", "training.log_every=2", "training.epochs=1")
    entries = read_metrics(trained.path)
    valid = [entry["valid_loss"] for entry in entries if "valid_loss" in entry]
    assert len(valid) == 15
    assert valid[-1] < valid[0]
    if output == "tree":  # a probability of the word: eight words of a topic are as likely
        assert valid[-1] == pytest.approx(math.log(8), rel=0.06)
    assert [entry["step"] for entry in entries] == sorted(entry["step"] for entry in entries)
    near = [word for word, _ in trained.neighbours("b3", 7)]
    assert sum(word.startswith("b") for word in near) >= 6
    again = seqloom.load(trained.path)
    assert isinstance(again, TrainedWordVectors)
    assert again.neighbours("b3", 7) == trained.neighbours("b3", 7)
    figures = again.figures()
    assert figures["loss"].value == pytest.approx(valid[-1], rel=1e-6)
    assert architecture in figures["loss"].signature
    assert "Neighbours" in (trained.path / "report.html").read_text(encoding="utf-8")


def test_one_thread_gives_the_same_bytes(text: Path, tmp_path: Path) -> None:
    files = [train(text, tmp_path / name).path / "model.safetensors" for name in ("one", "two")]
    assert files[0].read_bytes() == files[1].read_bytes()
    other = train(text, tmp_path / "three", "seed=1").path / "model.safetensors"
    assert files[0].read_bytes() != other.read_bytes()


def test_a_run_that_was_interrupted_ends_as_if_it_had_not_been(
    text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = train(text, tmp_path / "whole")
    learn_pass = word2vec.learn_pass

    def stopping(model, tokens, batch, rates, seed, threads):
        for number, part in enumerate(learn_pass(model, tokens, batch, rates, seed, threads)):
            if seed[1] == 1 and number == 2:
                raise KeyboardInterrupt
            yield part

    monkeypatch.setattr(word2vec, "learn_pass", stopping)
    with pytest.raises(KeyboardInterrupt):
        train(text, tmp_path / "parts")
    monkeypatch.undo()
    resumed = seqloom.train({}, [], tmp_path / "parts", resume=True)
    assert (resumed.path / "model.safetensors").read_bytes() == (whole.path / "model.safetensors").read_bytes()
    steps = [entry["step"] for entry in read_metrics(resumed.path)]
    assert steps == [entry["step"] for entry in read_metrics(whole.path)]


def test_a_signal_stops_training_after_a_batch(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Signalled(word2vec.Interrupts):
        number = 2

        def __init__(self) -> None:
            self._previous = {}

    monkeypatch.setattr(word2vec, "Interrupts", Signalled)
    with pytest.raises(Interrupted, match="pass 1") as caught:
        train(text, tmp_path / "run")
    assert caught.value.exit_code == 130


def test_training_goes_on_with_new_words(text: Path, tmp_path: Path) -> None:
    first = train(text, tmp_path / "first")
    more = tmp_path / "more.txt"
    more.write_text("\n".join(["new words beside a1 and a2 new words"] * 60), encoding="utf-8")
    second = train(more, tmp_path / "second", f"model.start={first.path}")
    assert set(first.vectors.words) <= set(second.vectors.words)
    assert {"new", "beside"} <= set(second.vectors.words)
    np.testing.assert_array_equal(second.vectors["b3"], first.vectors["b3"])  # not in the new text: it stays
    assert not np.array_equal(second.vectors["a1"], first.vectors["a1"])
    resumed = seqloom.train({}, ["model.passes=4"], second.path, resume=True)
    assert isinstance(resumed, TrainedWordVectors)
    assert resumed.vectors.words == second.vectors.words


def test_vectors_of_another_size_do_not_go_on(text: Path, tmp_path: Path) -> None:
    first = train(text, tmp_path / "first")
    with pytest.raises(UserError, match=r"set model\.size=12"):
        train(text, tmp_path / "second", f"model.start={first.path}", "model.size=8")
    with pytest.raises(ConfigError, match="words or whitespace"):
        train(text, tmp_path / "third", f"model.start={first.path}", "text.kind=characters", "text.min_count=1")


def test_likenesses_and_analogies_are_logged_after_each_pass(text: Path, tmp_path: Path) -> None:
    pairs, questions = tmp_path / "pairs.tsv", tmp_path / "questions.txt"
    pairs.write_text("a1\ta2\t9\na1\tb2\t1\nc3\tc4\t8\nc3\tb1\t2\n")
    questions.write_text(": one\na1 a2 b1 b2\n")
    trained = train(text, tmp_path / "run", f"model.similarity=[{pairs}]", f"model.analogies=[{questions}]")
    logged = [entry for entry in read_metrics(trained.path) if "similarity pairs" in entry]
    assert len(logged) == 3
    assert -1 <= logged[-1]["similarity pairs"] <= 1
    assert logged[-1]["analogies questions"] in (0.0, 1.0)
    assert trained.figures()["similarity pairs"].value == pytest.approx(logged[-1]["similarity pairs"], abs=1e-6)


def test_a_file_that_cannot_be_read_after_a_pass_costs_no_more_than_a_resume(text: Path, tmp_path: Path) -> None:
    whole = train(text, tmp_path / "whole")
    with pytest.raises(DataError, match=r"nothing\.tsv"):
        train(text, tmp_path / "run", f"model.similarity=[{tmp_path / 'nothing.tsv'}]")
    resumed = seqloom.train({}, ["model.similarity=[]"], tmp_path / "run", resume=True)
    assert (resumed.path / "model.safetensors").read_bytes() == (whole.path / "model.safetensors").read_bytes()


def test_a_report_shows_analogies_where_no_text_was_held_out(text: Path, tmp_path: Path) -> None:
    (tmp_path / "questions.txt").write_text(": one\na1 a2 b1 b2\n")
    settings = ["data.valid_fraction=0", f"model.analogies=[{tmp_path / 'questions.txt'}]"]
    trained = train(text, tmp_path / "run", *settings)
    assert "Analogies questions" in (trained.path / "report.html").read_text(encoding="utf-8")


def test_embeddings_begin_with_the_vectors_of_known_words(text: Path, tmp_path: Path) -> None:
    trained = train(text, tmp_path / "run")
    other = tmp_path / "other.txt"
    other.write_text("a1 stranger b2 stranger\n" * 5, encoding="utf-8")
    tokenizer = seqloom.train("ngram", [f"data.train={other}"], tmp_path / "ngram").tokenizer
    embedding = nn.Embedding(tokenizer.size, 12)
    before = embedding.weight.detach().clone()
    assert start_embedding(embedding.weight, tokenizer, None) == []
    (said,) = start_embedding(embedding.weight, tokenizer, trained.path)
    assert said.startswith("2 of 3 words")
    for word in ("a1", "b2", "stranger"):
        (row,) = tokenizer.encode(word)
        expected = torch.from_numpy(trained.vectors[word].copy()) if word != "stranger" else before[row]
        torch.testing.assert_close(embedding.weight[row].detach(), expected)
    torch.testing.assert_close(embedding.weight[:4].detach(), before[:4])
    with pytest.raises(UserError, match="set its size to 12"):
        start_embedding(nn.Embedding(tokenizer.size, 8).weight, tokenizer, trained.path)


def test_vectors_load_from_a_run_or_not_at_all(text: Path, tmp_path: Path) -> None:
    trained = train(text, tmp_path / "run")
    found = load_vectors(trained.path)
    assert isinstance(found, WordVectors)
    np.testing.assert_array_equal(found.vectors, trained.vectors.vectors)
    with pytest.raises(UserError, match="no such run folder"):
        load_vectors(tmp_path / "nothing")
    seqloom.train("ngram", [f"data.train={text}"], tmp_path / "ngram")
    with pytest.raises(UserError, match="word vectors are needed here"):
        load_vectors(tmp_path / "ngram")


def test_without_held_out_text_the_loss_needs_a_source(text: Path, tmp_path: Path) -> None:
    trained = train(text, tmp_path / "run", "data.valid_fraction=0")
    assert all("valid_loss" not in entry for entry in read_metrics(trained.path))
    with pytest.raises(UserError, match="--source"):
        trained.figures()
    assert math.isfinite(trained.figures([str(text)])["loss"].value)
    assert load_tokenizer(trained.path / "assets" / "tokenizer.json").size == trained.tokenizer.size


@pytest.mark.parametrize("preset", ["lstm", "seq2seq-attention"])
def test_a_model_begins_with_vectors_where_it_is_asked_to(preset: str, text: Path, tmp_path: Path) -> None:
    trained = train(text, tmp_path / "run")
    pairs = tmp_path / "pairs.tsv"
    pairs.write_text("".join(f"{line}\t{line}\n" for line in text.read_text(encoding="utf-8").splitlines()), "utf-8")
    data = f"data.train={text if preset == 'lstm' else pairs}"
    settings = ["text.kind=whitespace", "text.min_count=1", "model.embedding.size=12", "training.device=cpu"]
    still = ["training.steps=1", "training.optimizer.learning_rate=1e-12", f"model.embedding.vectors={trained.path}"]
    more = [] if preset == "lstm" else ["target_text=null"]
    model = seqloom.train(preset, [data, *settings, *still, *more], tmp_path / "begun")
    (row,) = model.tokenizer.encode("a1")
    embedding = model.model.get_submodule("embedding").get_parameter("weight")  # type: ignore[operator]
    torch.testing.assert_close(embedding[row].detach(), torch.from_numpy(trained.vectors["a1"].copy()))


def test_classes_of_words_may_follow_their_vectors(text: Path, tmp_path: Path) -> None:
    trained = train(text, tmp_path / "run")
    settings = ["text.kind=whitespace", "text.min_count=1", "training.steps=1", "training.device=cpu"]
    classes = ["model.output.kind=class-softmax", "model.output.classes=3", f"model.output.vectors={trained.path}"]
    model = seqloom.train("lstm", [f"data.train={text}", *settings, *classes], tmp_path / "classes")
    shutil.rmtree(trained.path)  # what was found by the vectors is in the run itself
    again = seqloom.load(tmp_path / "classes", device="cpu")
    assert again.model.output.sizes == model.model.output.sizes
    assert len(again.model.output.sizes) == 3
    assert max(again.model.output.sizes) - min(again.model.output.sizes) <= again.tokenizer.size // 4 + 1


def test_a_tree_of_words_may_follow_their_vectors(text: Path, tmp_path: Path) -> None:
    trained = train(text, tmp_path / "run")
    settings = ["text.kind=whitespace", "text.min_count=1", "training.steps=1", "training.device=cpu"]
    tree = ["model.output.kind=tree-softmax", "model.output.tree=vectors", f"model.output.vectors={trained.path}"]
    model = seqloom.train("lstm", [f"data.train={text}", *settings, *tree], tmp_path / "tree")
    shutil.rmtree(trained.path)  # what was found by the vectors is in the run itself
    again = seqloom.load(tmp_path / "tree", device="cpu")
    assert torch.equal(again.model.output.nodes, model.model.output.nodes)


def test_limits_that_mean_nothing_to_a_count_are_said(corpus_file: Path, tmp_path: Path) -> None:
    said: list[str] = []

    class Listener(Silent):
        def say(self, line: str) -> None:
            said.append(line)

    for kind, settings in (
        ("ngram", {"training.steps": 7}),
        ("gru", {"training.steps": 1, "data.batch_size": 1, "data.length": 8}),
    ):
        seqloom.train(kind, {"data.train": str(corpus_file), **settings}, tmp_path / kind, reporter=Listener())
        notes = [line for line in said if line.startswith("note: ")]
        assert notes == ["note: ngram is not trained by steps: training.steps has no effect"]
