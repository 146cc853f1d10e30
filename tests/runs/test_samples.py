"""What models write at their validations: kept beside the log, cut back with it, and without a trace in training."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

import seqloom
from seqloom.progress import Reporter
from seqloom.runs.generation import SAMPLE_LENGTH
from seqloom.training import Trainer
from seqloom.training.journal import SAMPLES, Journal, read_journal

pytestmark = pytest.mark.usefixtures("no_reports")


class Killed(BaseException):
    """As a process dies: nothing is saved any more."""


@pytest.fixture
def settings(corpus_file: Path) -> list[str]:
    """A language model with dropout, which draws random numbers at every step."""
    return [
        f"data.train={corpus_file}",
        "data.unit=line",
        "text.min_count=1",
        "data.batch_size=4",
        "data.length=8",
        "model.embedding.size=10",
        "model.features.size=12",
        "model.features.dropout=0.3",
        "training.steps=12",
        "training.validate_every=3",
        "training.checkpoint_every=4",
        "training.device=cpu",
    ]


@pytest.fixture
def pairs(tmp_path: Path) -> list[str]:
    """A model of pairs."""
    file = tmp_path / "pairs.tsv"
    file.write_text("".join(f"a cat {n}\tone cat {n}\n" for n in range(40)), encoding="utf-8")
    sizes = ["model.embedding.size=8", "model.encoder.size=8", "model.decoder.size=8", "data.batch_tokens=64"]
    steps = ["training.steps=4", "training.validate_every=2", "training.device=cpu", "text.min_count=1"]
    return [f"data.train={file}", "data.valid_fraction=0.2", "text.kind=words", *sizes, *steps]


@pytest.fixture
def unhurried(monkeypatch: pytest.MonkeyPatch) -> None:
    """Samples may take any time, so that no clock decides which are taken."""
    monkeypatch.setattr("seqloom.training.trainer.SAMPLED", 1e9)


def samples(run: Path) -> list[dict[str, Any]]:
    return read_journal(run / SAMPLES)


def weights(run: Path) -> dict[str, list[float]]:
    return {name: tensor.flatten().tolist() for name, tensor in load_file(run / "model.safetensors").items()}


@pytest.mark.usefixtures("unhurried")
def test_every_validation_keeps_a_text(settings: list[str], tmp_path: Path) -> None:
    trained = seqloom.train("lstm", settings, tmp_path / "run")
    found = samples(tmp_path / "run")
    assert [entry["step"] for entry in found] == [3, 6, 9, 12]
    assert all(set(entry) == {"step", "input", "text"} and entry["input"] == "" for entry in found)
    assert all(len(trained.tokenizer.encode(entry["text"])) <= SAMPLE_LENGTH for entry in found)
    (best,) = [row for row in found if row["step"] == 12]  # which has the lowest loss: its weights were kept
    ((again,),) = trained.generate("", temperature=0.8, max_length=SAMPLE_LENGTH)
    assert best["text"] == again.text


@pytest.mark.usefixtures("unhurried")
def test_models_of_pairs_write_targets_of_held_out_sources(pairs: list[str], tmp_path: Path) -> None:
    trained = seqloom.train("seq2seq-attention", pairs, tmp_path / "run")
    found = samples(tmp_path / "run")
    assert [entry["step"] for entry in found] == [2, 2, 2, 4, 4, 4]
    last = found[3:]
    texts = trained.translate([e["input"] for e in last], strategy="greedy", max_length=SAMPLE_LENGTH)
    assert [entry["text"] for entry in last] == texts


def test_training_is_the_same_with_and_without_samples(
    settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqloom.training.trainer.SAMPLED", 1e9)
    seqloom.train("lstm", settings, tmp_path / "with")
    monkeypatch.setattr(Trainer, "_sample", lambda trainer: None)
    seqloom.train("lstm", settings, tmp_path / "without")
    assert samples(tmp_path / "without") == []
    assert weights(tmp_path / "with") == weights(tmp_path / "without")


def test_random_numbers_are_left_alone(
    settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, unhurried: None
) -> None:
    original, states = Trainer._sample, []

    def observed(trainer: Trainer) -> None:
        draws = trainer.samples
        assert draws is not None
        trainer.samples = lambda: [("", str(torch.rand(1)))] and draws()  # even where a model draws some
        before = torch.get_rng_state()
        original(trainer)
        trainer.samples = draws
        states.append(torch.equal(before, torch.get_rng_state()))

    monkeypatch.setattr(Trainer, "_sample", observed)
    seqloom.train("lstm", settings, tmp_path / "run")
    assert states == [True] * 4


def test_samples_after_the_step_of_a_journal_are_forgotten(tmp_path: Path) -> None:
    journal = Journal(tmp_path, name=SAMPLES)
    for step in (3, 6, 9):
        journal.write({"step": step, "input": "", "text": "héllo"})
    journal.close()
    Journal(tmp_path, 6, name=SAMPLES).close()
    assert [entry["step"] for entry in samples(tmp_path)] == [3, 6]
    Journal(tmp_path, name=SAMPLES).close()
    assert samples(tmp_path) == []


@pytest.mark.usefixtures("unhurried")
def test_killed_and_resumed_writes_what_an_undisturbed_training_writes(
    settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seqloom.train("lstm", settings, tmp_path / "whole")
    original: Callable[[Trainer], None] = Trainer._optimise

    def killed(trainer: Trainer) -> None:
        if trainer.progress.step == 7:  # the checkpoint is that of step 4, and the sample of step 6 is written
            raise Killed
        original(trainer)

    monkeypatch.setattr(Trainer, "_optimise", killed)
    with pytest.raises(Killed):
        seqloom.train("lstm", settings, tmp_path / "parts")
    assert [entry["step"] for entry in samples(tmp_path / "parts")] == [3, 6]
    monkeypatch.setattr(Trainer, "_optimise", original)
    seqloom.train("lstm", out=tmp_path / "parts", resume=True)
    assert (tmp_path / "parts" / SAMPLES).read_bytes() == (tmp_path / "whole" / SAMPLES).read_bytes()
    assert weights(tmp_path / "parts") == weights(tmp_path / "whole")


def test_samples_that_take_too_long_are_left_out_but_for_the_first(
    settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqloom.training.trainer.SAMPLED", 0.0)
    seqloom.train("lstm", settings, tmp_path / "run")
    assert [entry["step"] for entry in samples(tmp_path / "run")] == [3]


def test_no_training_fails_for_a_sample(settings: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Heard(Reporter):
        said: list[str] = []

        def say(self, message: str) -> None:
            self.said.append(message)

    def fail(*_: object) -> None:
        raise RuntimeError("out of ink")

    monkeypatch.setattr("seqloom.runs.generation.samples", fail)
    seqloom.train("lstm", settings, tmp_path / "run", reporter=Heard())
    assert samples(tmp_path / "run") == []
    assert [line for line in Heard.said if "out of ink" in line] == [
        "note: no samples are written from step 3 on: out of ink"
    ]
