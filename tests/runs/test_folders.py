"""Run folders: one writer at a time, nothing of others touched, and nothing taken for a run that is none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from sealing import reseal, unfinish, write

import seqloom
from seqloom.arrays import UNSEALED, check_seal, seal, write_arrays
from seqloom.errors import CheckpointError, UserError
from seqloom.files import TEMPORARY, read_sealed, write_sealed
from seqloom.runs.folder import Manifest, RunFolder, locked


@pytest.fixture(scope="module")
def made(corpus_file: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of six steps with two checkpoints."""
    folder = tmp_path_factory.mktemp("made")
    shutil.copyfile(corpus_file, folder / "corpus.txt")
    settings = [
        f"data.train={folder / 'corpus.txt'}",
        "data.valid=null",
        "data.unit=line",
        "text.min_count=1",
        "data.batch_size=4",
        "data.length=8",
        "model.embedding.size=8",
        "model.features.size=8",
        "training.steps=6",
        "training.validate_every=3",
        "training.checkpoint_every=3",
        "training.device=cpu",
    ]
    seqloom.train("gru", settings, folder / "run", report=False)
    return folder


@pytest.fixture
def run(made: Path, tmp_path: Path) -> Path:
    """A copy of it, to be changed."""
    return shutil.copytree(made / "run", tmp_path / "run")


# ------------------------------------------------------------------------------------------------------- going on


def test_a_folder_that_was_mistyped_does_not_begin_a_run(made: Path, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="holds no run that could go on"):
        seqloom.train("gru", out=tmp_path / "rum", resume=True)
    assert not (tmp_path / "rum").exists()


def test_a_run_goes_on_with_its_own_model_only(run: Path) -> None:
    before = (run / "config.yaml").read_bytes()
    with pytest.raises(UserError, match=r"model\.features\.size is 8 there, 16 here"):
        seqloom.train("gru", ["model.features.size=16"], run, resume=True)
    assert (run / "config.yaml").read_bytes() == before
    seqloom.train("gru", ["training.steps=7"], run, resume=True, report=False)
    assert RunFolder(run).config.training.steps == 7


def test_data_that_changed_meanwhile_are_noticed(made: Path, run: Path, tmp_path: Path) -> None:
    moved = shutil.copyfile(made / "corpus.txt", tmp_path / "moved.txt")
    unfinish(run)
    seqloom.train("gru", [f"data.train={moved}"], run, resume=True, report=False)
    with open(moved, "a", encoding="utf-8") as file:
        file.write("one more line\n")
    with pytest.raises(UserError, match=r"data\.train is not what the run in .* learned from until now"):
        seqloom.train("gru", ["training.steps=9"], run, resume=True)


def test_what_died_as_it_began_begins_anew(made: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    (folder / "assets").mkdir(parents=True)
    (folder / "assets" / "stale.json").write_text("[]")
    write(folder, Manifest("beginning"))
    with pytest.raises(CheckpointError, match="has not begun"):
        seqloom.load(folder)
    seqloom.train(RunFolder(made / "run").config, out=folder, resume=True, report=False)
    assert not (folder / "assets" / "stale.json").exists()
    assert load_file(folder / "model.safetensors")["embedding.weight"].equal(
        load_file(made / "run" / "model.safetensors")["embedding.weight"]
    )


@pytest.mark.parametrize("name", ["config.yaml", "metrics.jsonl", "report.html"])
def test_a_file_of_something_else_is_not_overwritten(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text("mine: true\n")
    with pytest.raises(UserError, match=f"{name} is there already, and of no run"):
        seqloom.train("ngram", out=tmp_path)
    assert (tmp_path / name).read_text() == "mine: true\n"


def test_interrupting_adds_no_checkpoint_to_the_average(made: Path, tmp_path: Path, monkeypatch: Any) -> None:
    from seqloom.training import Interrupted
    from seqloom.training.trainer import Trainer

    averaging = ["training.averaging.kind=checkpoints", "training.averaging.last=2", "training.checkpoint_every=2"]
    config = seqloom.load_config(RunFolder(made / "run").config_file, averaging)
    seqloom.train(config, out=tmp_path / "whole", report=False)
    original = Trainer._optimise

    def stop_at_five(self: Trainer) -> None:
        original(self)
        if self.progress.step == 5:
            signal_self()

    monkeypatch.setattr(Trainer, "_optimise", stop_at_five)
    with pytest.raises(Interrupted):
        seqloom.train(config, out=tmp_path / "parts", report=False)
    monkeypatch.undo()
    seqloom.train(config, out=tmp_path / "parts", resume=True, report=False)
    whole, parts = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "parts"))
    assert all(whole[name].equal(parts[name]) for name in whole)
    names = [sorted(path.name for path in (tmp_path / name / "checkpoints").iterdir()) for name in ("whole", "parts")]
    assert names[0] == names[1]


def signal_self() -> None:
    os.kill(os.getpid(), 2)


# --------------------------------------------------------------------------------------------------------- checksums


def flip(file: Path, place: int) -> None:
    content = bytearray(file.read_bytes())
    content[place] ^= 1
    file.write_bytes(content)


@pytest.mark.parametrize("finished", [True, False])
@pytest.mark.parametrize("file", ["model.safetensors", "assets/tokenizer.json", "config.yaml", "run.json"])
def test_a_flipped_bit_is_noticed(file: str, finished: bool, run: Path) -> None:
    if not finished:
        unfinish(run)
    size = (run / file).stat().st_size
    for place in (size // 3, size // 2, size - 3):
        flip(run / file, place)
        with pytest.raises(CheckpointError):
            seqloom.load(run)
        flip(run / file, place)
    seqloom.load(run)


@pytest.mark.parametrize("place", [0.1, 0.5, 0.9])
def test_a_flipped_bit_of_a_checkpoint_is_noticed(place: float, run: Path) -> None:
    header = run / "checkpoints" / "step-00000006" / "checkpoint.json"
    flip(header, int(place * header.stat().st_size))
    with pytest.raises(CheckpointError, match="step-00000006 is damaged"):
        seqloom.train("gru", ["training.steps=9"], run, resume=True)


def test_a_run_without_its_manifest_is_no_run_and_not_overwritten(run: Path) -> None:
    (run / "run.json").unlink()
    with pytest.raises(CheckpointError, match=r"there is no run\.json"):
        seqloom.load(run)
    for resume in (True, False):
        with pytest.raises(UserError):
            seqloom.train("gru", out=run, resume=resume)
    assert (run / "checkpoints" / "step-00000006").is_dir()


def test_best_weights_that_were_lost_are_missed_at_once(run: Path) -> None:
    unfinish(run)
    (run / "model.safetensors").unlink()
    with pytest.raises(CheckpointError, match=r"model\.safetensors is missing"):
        seqloom.train("gru", ["training.steps=9"], run, resume=True)


def test_weights_that_are_not_finite_are_refused(run: Path) -> None:
    weights = load_file(run / "model.safetensors")
    weights["embedding.weight"][0, 0] = torch.nan
    save_file(weights, run / "model.safetensors")
    reseal(run)
    with pytest.raises(CheckpointError, match=r"'embedding\.weight' are not finite"):
        seqloom.load(run)


def test_checksums_can_be_left_out_and_contents_are_validated_all_the_same(run: Path) -> None:
    flip(run / "model.safetensors", -3)
    seqloom.load(run, checksums=False)
    with pytest.raises(CheckpointError):
        seqloom.load(run)


@pytest.mark.parametrize("name", ["../outside", "/etc/passwd", "assets/../../x"])
def test_a_manifest_cannot_name_files_elsewhere(name: str, run: Path) -> None:
    write(run, Manifest("finished", sha256={name: "0" * 64}))
    with pytest.raises(CheckpointError, match="no manifest of a run"):
        seqloom.load(run)


def test_a_manifest_cannot_count_in_words(run: Path) -> None:
    write(run, Manifest("finished", parameters="many"))  # type: ignore[arg-type]
    with pytest.raises(CheckpointError, match="no manifest of a run"):
        seqloom.load(run)


def test_a_sealed_file_says_what_it_is(tmp_path: Path) -> None:
    save_file({"a": torch.ones(3)}, tmp_path / "torch.safetensors", metadata=UNSEALED)
    seal(tmp_path / "torch.safetensors")
    write_arrays(tmp_path / "numpy.safetensors", {"a": torch.ones(3).numpy()}, sealed=True)
    for file in tmp_path.iterdir():
        check_seal(file)
        for place in range(file.stat().st_size):
            flip(file, place)
            with pytest.raises(CheckpointError):
                check_seal(file)
            flip(file, place)
    write_sealed(tmp_path / "a.json", {"a": [1.5, None]})
    assert read_sealed(tmp_path / "a.json") == {"a": [1.5, None]}


# ------------------------------------------------------------------------------------------------------- two at once

HOLDER = """
import sys, time
from pathlib import Path
from seqloom.runs.folder import locked
with locked(Path(sys.argv[1])):
    (Path(sys.argv[1]) / ".writing-x").write_text("half")
    print("held", flush=True)
    time.sleep(600)
"""


def test_the_second_is_refused_and_told_who_is_first(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen([sys.executable, "-c", HOLDER, folder], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(UserError, match=f"is being written by process {holder.pid} on"), locked(folder):
            pass
        holder.kill()
    with locked(folder):  # the lock of one that died is open to the next, who clears up after it
        assert not list(folder.glob(TEMPORARY + "*"))
    assert not folder.exists()


def test_a_lock_that_was_deleted_while_waiting_for_it_is_not_held(tmp_path: Path, monkeypatch: Any) -> None:
    import fcntl

    folder, original = tmp_path / "run", fcntl.flock
    folder.mkdir()

    def deleted_meanwhile(*arguments: Any) -> None:
        monkeypatch.undo()
        original(*arguments)
        (folder / ".lock").unlink()

    monkeypatch.setattr(fcntl, "flock", deleted_meanwhile)
    with locked(folder):
        assert (folder / ".lock").is_file()
