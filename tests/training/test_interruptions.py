"""Training survives kill -9, Ctrl-C, SIGTERM and a full disk: resumed, it ends exactly where it would have ended."""

from __future__ import annotations

import random
import re
import resource
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file
from watching import Training, figures, same_result, until

from seqloom.files import TEMPORARY
from seqloom.training.checkpoints import CheckpointFolder
from seqloom.training.interrupts import Interrupts

Start = Callable[..., Training]


@pytest.fixture(scope="module")
def uninterrupted(start: Start, eventful: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[int], Path]:
    """The run that nothing disturbed, for a number of steps."""
    finished: dict[int, Path] = {}

    def run(steps: int) -> Path:
        if steps not in finished:
            finished[steps] = tmp_path_factory.mktemp("uninterrupted") / "run"
            training = start("train", eventful, "--set", f"training.steps={steps}", "--out", finished[steps])
            assert training.wait() == 0, training.output
        return finished[steps]

    return run


def writing(run: Path) -> bool:
    """Whether something is being written right now."""
    return any(True for _ in run.glob(TEMPORARY + "*")) or any(True for _ in run.glob(f"checkpoints/{TEMPORARY}*"))


def leftovers(run: Path) -> list[Path]:
    return list(run.rglob(TEMPORARY + "*"))


def assert_intact(run: Path) -> None:
    """Whatever stands under its final name is whole."""
    CheckpointFolder(run / "checkpoints").last()
    if (run / "model.safetensors").exists():
        load_file(run / "model.safetensors")


def kill_again_and_again(start: Start, config: Path, run: Path, steps: int, kills: int, seed: int) -> dict[str, int]:
    """Train `run` to its end in spite of `kills` kills, every other one in the middle of a save."""
    moments = random.Random(seed)
    counts = {"kills": 0, "while writing": 0, "starts": 0}
    while True:
        again = ["--resume"] if counts["starts"] else []
        training = start("train", config, "--set", f"training.steps={steps}", "--out", run, *again, "--quiet")
        counts["starts"] += 1
        if counts["kills"] < kills:
            _wait_for_a_bad_moment(training, run, moments, while_writing=bool(counts["kills"] % 2))
            training.signal(signal.SIGKILL)
        code = training.wait()
        if code == 0:
            return counts
        assert code == -signal.SIGKILL, training.output
        counts["kills"] += 1
        counts["while writing"] += writing(run)
        assert_intact(run)


def _wait_for_a_bad_moment(training: Training, run: Path, moments: random.Random, while_writing: bool) -> None:
    before = _checkpoints(run)
    until(lambda: _checkpoints(run) != before or training.ended)  # so that every start gets somewhere
    time.sleep(moments.uniform(0.0, 0.05))
    if while_writing:
        until(lambda: writing(run) or training.ended)


def _checkpoints(run: Path) -> set[str]:
    return {path.name for path in run.glob("checkpoints/step-*")}


def test_killed_training_resumes_to_the_uninterrupted_result(
    start: Start, eventful: Path, uninterrupted: Callable[[int], Path], tmp_path: Path
) -> None:
    counts = kill_again_and_again(start, eventful, tmp_path / "run", steps=60, kills=4, seed=1)
    assert counts["kills"] >= 3
    assert counts["while writing"] >= 1
    assert same_result(tmp_path / "run", uninterrupted(60))
    assert not leftovers(tmp_path / "run")


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_training_killed_twenty_times_resumes_to_the_uninterrupted_result(
    seed: int, start: Start, eventful: Path, uninterrupted: Callable[[int], Path], tmp_path: Path
) -> None:
    counts = kill_again_and_again(start, eventful, tmp_path / "run", steps=400, kills=20, seed=seed)
    assert counts["kills"] == 20, counts
    assert counts["while writing"] >= 5, counts
    assert same_result(tmp_path / "run", uninterrupted(400))
    assert not leftovers(tmp_path / "run")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_signal_saves_first_and_resuming_is_exact(
    number: int,
    code: int,
    start: Start,
    eventful: Path,
    uninterrupted: Callable[[int], Path],
    tmp_path: Path,
) -> None:
    run = tmp_path / "run"
    training = start("train", eventful, "--out", run)
    until(lambda: (run / "checkpoints" / "step-00000009").exists())
    training.signal(number)
    assert training.wait() == code
    said = re.search(
        r"^error: interrupted: saved at step (\d+); go on with: seqloom (.+)$", training.output, re.MULTILINE
    )
    assert said, training.output
    assert "Traceback" not in training.output
    assert (run / "checkpoints" / f"step-{int(said[1]):08d}").is_dir()
    assert int(said[1]) < 60

    assert start(*shlex.split(said[2])).wait() == 0
    assert same_result(run, uninterrupted(60))


@pytest.mark.parametrize(("before", "heard"), [(signal.SIG_DFL, signal.SIGHUP), (signal.SIG_IGN, None)])
def test_a_terminal_that_goes_away_stops_training_but_not_under_nohup(before: Any, heard: int | None) -> None:
    outside = signal.signal(signal.SIGHUP, before)
    try:
        with Interrupts() as interrupts:
            signal.raise_signal(signal.SIGHUP)
        assert interrupts.number == heard
        assert signal.getsignal(signal.SIGHUP) is before
    finally:
        signal.signal(signal.SIGHUP, outside)


# ------------------------------------------------------------------------------------------------------ full disk


def test_a_write_that_fails_keeps_what_was_there_and_the_run_goes_on(
    start: Start, eventful: Path, uninterrupted: Callable[[int], Path], tmp_path: Path
) -> None:
    """The limit on the size of files stands in for a full disk: every larger write fails from then on."""
    run = tmp_path / "run"
    training = start("train", eventful, "--set", "training.steps=90", "--out", run)
    until(lambda: (run / "checkpoints" / "step-00000009").exists())
    resource.prlimit(training.process, resource.RLIMIT_FSIZE, (4096, 4096))
    assert training.wait() == 1, training.output
    (error,) = [line for line in training.output.splitlines() if line.startswith("error: ")]
    assert re.match(rf"error: cannot write {run}/\S+: .*File too large", error), error
    assert "Traceback" not in training.output
    assert_intact(run)
    assert not leftovers(run)
    assert CheckpointFolder(run / "checkpoints").last() is not None

    assert start("train", eventful, "--set", "training.steps=90", "--out", run, "--resume").wait() == 0
    assert same_result(run, uninterrupted(90))


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of half a megabyte."""
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=512k", "none", str(disk)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a small file system is not permitted here")
    yield disk
    subprocess.run(["umount", "--lazy", str(disk)], check=True)


def test_a_full_disk_keeps_what_was_there_and_the_run_goes_on(
    start: Start, eventful: Path, tmp_path: Path, small_disk: Path
) -> None:
    more = ["training.steps=12", "training.keep=9", "model.embedding.size=64"]
    settings = [part for setting in more for part in ("--set", setting)]
    run = small_disk / "run"
    training = start("train", eventful, *settings, "--out", run)
    assert training.wait() == 1, training.output
    (error,) = [line for line in training.output.splitlines() if line.startswith("error: ")]
    assert re.match(rf"error: cannot write {run}/\S+: .*No space left on device", error), error
    assert "Traceback" not in training.output
    assert_intact(run)
    assert not leftovers(run)
    saved = CheckpointFolder(run / "checkpoints").last()
    assert saved is not None
    assert 0 < saved.progress["step"] < 12

    subprocess.run(["mount", "-o", "remount,size=16m", str(small_disk)], check=True)
    assert start("train", eventful, *settings, "--out", run, "--resume").wait() == 0
    assert start("train", eventful, *settings, "--out", tmp_path / "whole").wait() == 0
    assert same_result(run, tmp_path / "whole")
    assert [entry["step"] for entry in figures(run) if "valid_loss" in entry] == [5, 10, 12]
