"""`seqloom watch`: finished runs, running ones and some that have just begun; in a terminal and without."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Callable
from dataclasses import replace
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console
from sealing import unfinish, write

from seqloom.cli.watch import _picture
from seqloom.runs.folder import Manifest, RunFolder
from seqloom.runs.watching import watched
from seqloom.training.journal import SAMPLES, read_journal

Cli = Callable[..., Any]


@pytest.fixture
def folder(run: Path, tmp_path: Path) -> Path:
    """Three runs: one that is finished, one that is being trained, one that has just begun."""
    for name in ("finished", "running"):
        shutil.copytree(run, tmp_path / name)
    unfinish(tmp_path / "running")
    (tmp_path / "begun").mkdir()
    write(tmp_path / "begun", Manifest("beginning"))
    for name in ("running", "begun"):
        (tmp_path / name / ".lock").write_text(f"process {os.getpid()} on {os.uname().nodename}", encoding="utf-8")
    return tmp_path


def test_one_look_as_plain_text(cli: Cli, folder: Path, run: Path) -> None:
    sample = read_journal(run / SAMPLES)[-1]
    done = cli("watch", folder / "finished", "--once")
    assert (done.code, done.err) == (0, "")
    first, second = done.out.splitlines()
    assert first.startswith(f"{folder / 'finished'}  finished  step 40 of 40  epoch ")
    assert " tokens/s  best perplexity " in first
    assert second.split() == f"step {sample['step']}: {sample['text']}".split()
    running = cli("watch", folder / "running").out  # which is no terminal
    assert "  training  step 40 of 40  " in running
    assert "  0:00 left  " in running
    assert cli("watch", folder / "begun", "--once").out == f"{folder / 'begun'}  beginning  step 0\n"


def test_one_look_as_json(cli: Cli, folder: Path) -> None:
    begun, finished, running = cli("watch", folder, "--json").records
    assert (begun["state"], begun["kind"], begun["panels"]) == ("beginning", None, [])
    assert (finished["state"], finished["step"], finished["steps"], finished["left"]) == ("finished", 40, 40, None)
    assert (running["state"], running["left"]) == ("training", 0.0)
    (loss, *_) = finished["panels"]
    assert loss["title"] == "Loss, nats per token"
    assert [step for step, _ in loss["lines"][1]["points"]] == [20, 40]
    assert finished["samples"][0]["input"] == ""


def test_mistakes_are_told(cli: Cli, folder: Path, tmp_path: Path) -> None:
    done = cli("watch", tmp_path / "nonesuch")
    assert done.code == 2
    assert "is not a run folder" in done.error
    (folder / "finished" / "run.json").write_text("{", encoding="utf-8")
    records = cli("watch", folder, "--json").records
    assert sorted("error" in record for record in records) == [False, False, True]
    assert cli("watch", folder / "finished").code == 2


def test_a_terminal_shows_the_curves_of_all_runs(folder: Path) -> None:
    seen = [watched(folder / name) for name in ("begun", "finished", "running")]
    terminal = Console(file=StringIO(), width=100)
    terminal.print(_picture(seen, 100))
    lines = terminal.file.getvalue().splitlines()  # type: ignore[attr-defined]
    legend = next(line for line in lines if line.startswith("Loss, nats per token"))
    for name in ("finished training", "finished validation", "running training", "running validation"):
        assert name in " ".join(lines[lines.index(legend) : lines.index(legend) + 2])
    drawn = [line for line in lines if any(0x2800 < ord(character) < 0x2900 for character in line)]
    assert len(drawn) >= 10
    assert max(map(len, lines)) <= 100


def test_it_ends_when_nothing_is_trained_any_more(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    looks: list[float] = []

    def wait(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 2:
            manifest = RunFolder(folder / "running").manifest
            write(folder / "running", replace(manifest, state="finished"))

    monkeypatch.setattr("seqloom.cli.watch.time.sleep", wait)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    done = cli("watch", folder / "running", folder / "finished", "--every", "0.5")
    assert (done.code, looks) == (0, [0.5, 0.5])
    assert "finished" in done.out


def dense(shown: str) -> str:
    """What a terminal shows, whatever its width and colours."""
    return re.sub(r"\x1b\[[?\d;]*\w|\s", "", shown)


def test_a_run_that_is_moved_away_leaves_the_others_in_view(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []

    def wait(seconds: float) -> None:
        looks.append(seconds)
        if len(looks) == 1:
            (folder / "begun").rename(folder / "elsewhere")
        if len(looks) == 3:
            manifest = RunFolder(folder / "running").manifest
            write(folder / "running", replace(manifest, state="finished"))

    monkeypatch.setattr("seqloom.cli.watch.time.sleep", wait)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    done = cli("watch", folder / "begun", folder / "running", "--every", "0.5")
    assert (done.code, len(looks)) == (0, 3)
    last = dense(done.out).partition(dense(f"error: {folder / 'begun'} is not a run folder"))[2]
    assert dense(f"{folder / 'running'}  finished  step 40 of 40") in last


def test_it_ends_as_a_failure_when_nothing_can_be_seen_any_more(
    cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("seqloom.cli.watch.time.sleep", lambda _: shutil.rmtree(folder / "running"))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    done = cli("watch", folder / "running")
    assert done.code == 2
    assert dense(f"error: {folder / 'running'} is not a run folder") in dense(done.out)


def test_control_c_ends_it(cli: Cli, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("seqloom.cli.watch.time.sleep", interrupted)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    assert cli("watch", folder / "running").code == 0
