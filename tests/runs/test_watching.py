"""What the folder of a run tells while it is trained elsewhere."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from sealing import write

from seqloom.config import load_config, save_config
from seqloom.config.schema.training import TrainingConfig
from seqloom.runs.folder import Manifest
from seqloom.runs.watching import POINTS, seconds_left, thinned, total_steps, watched
from seqloom.training.journal import SAMPLES, Journal


def begin(path: Path, preset: str = "lstm", *settings: str, state: str = "training") -> Path:
    """A run folder as training has it on the way."""
    path.mkdir()
    save_config(load_config(preset, settings), path / "config.yaml")
    write(path, Manifest(state))  # type: ignore[arg-type]
    (path / ".lock").write_text(f"process {os.getpid()} on {os.uname().nodename}", encoding="utf-8")
    return path


def log(folder: Path, *entries: dict[str, object], name: str = "metrics.jsonl") -> None:
    folder.mkdir(exist_ok=True)
    journal = Journal(folder, name=name)
    for entry in entries:
        journal.write(entry)
    journal.close()


def logged(step: int, epoch: float, seconds: float, speed: float = 100.0) -> dict[str, object]:
    return {"step": step, "epoch": epoch, "seconds": seconds, "tokens_per_second": speed, "loss": 5.0 - step / 100}


def test_a_run_on_its_way_says_how_far_it_is(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", "lstm", "training.epochs=4")
    speeds = [1.0, 10.0, 90.0, 100.0, 110.0, 120.0, 1000.0]
    log(
        run,
        *(logged(10 * n, n / 10, 5.0 * n, speed) for n, speed in enumerate(speeds, 1)),
        {"step": 70, "seconds": 35.0, "valid_loss": 4.0, "valid_perplexity": 54.6, "best": True},
    )
    log(run, *({"step": step, "input": "", "text": f"at {step}"} for step in (40, 50, 60, 70)), name=SAMPLES)
    seen = watched(run)
    assert (seen.name, seen.kind, seen.state, seen.step, seen.epoch) == ("run", "language", "training", 70, 0.7)
    assert seen.steps == 400  # 100 of each epoch
    assert seen.tokens_per_second == 110.0  # the median of the last five
    assert (seen.seconds, seen.left) == (35.0, pytest.approx(330 * 0.5))
    assert seen.best is not None
    assert (seen.best.name, seen.best.value) == ("valid_perplexity", 54.6)
    large, *small = seen.panels
    assert large["title"] == "Loss, nats per token"
    assert [line["name"] for line in large["lines"]] == ["training", "validation"]
    assert large["lines"][1]["points"] == [[70, 4.0]]
    assert [panel["title"] for panel in small] == ["Tokens per second"]
    assert [sample["text"] for sample in seen.samples] == ["at 50", "at 60", "at 70"]
    (run / ".lock").unlink()
    assert (watched(run).state, watched(run).left, watched(run).goes_on) == ("stopped", None, False)


def test_a_line_that_is_being_written_is_not_read_yet(tmp_path: Path) -> None:
    run = begin(tmp_path / "run")
    log(run, logged(10, 0.1, 5.0), logged(20, 0.2, 10.0))
    whole = (run / "metrics.jsonl").read_bytes()
    (run / "metrics.jsonl").write_bytes(whole[:-5])
    assert watched(run).step == 10


def test_a_run_that_has_logged_nothing_yet_is_at_step_0(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", "lstm", "training.steps=9")
    assert (watched(run).step, watched(run).steps, watched(run).panels, watched(run).left) == (0, 9, [], None)
    early = begin(tmp_path / "early", state="beginning")
    (early / "config.yaml").unlink()
    assert (watched(early).state, watched(early).kind, watched(early).goes_on) == ("beginning", None, True)


def test_stages_on_their_way_are_read_in_their_folders(tmp_path: Path) -> None:
    run = begin(tmp_path / "run", "dbn")
    log(run / "layer-2", {"step": 6, "seconds": 1.0, "loss": 3.0, "free_energy_gap": 0.1, "valid_loss": 80.0})
    log(run / "layer-1", {"step": 4, "seconds": 1.0, "loss": 3.0})
    os.utime(run / "layer-1" / "metrics.jsonl", (0, 0))  # what was written first
    seen = watched(run)
    assert (seen.stage, seen.step, seen.steps, seen.seconds) == ("layer-2", 10, None, 2.0)
    assert seen.panels[0]["title"].startswith("Log-likelihood")
    assert seen.panels[0]["lines"][0]["points"] == [[10, -80.0]]


@pytest.mark.parametrize(
    ("settings", "total", "left"),
    [
        ({"steps": 50, "epochs": None}, 50, 40.0),
        ({"epochs": 3.0}, 30, 20.0),
        ({"epochs": 3.0, "minutes": 0.25}, 30, 5.0),
        ({"epochs": 3.0, "minutes": 0.1}, 30, 0.0),
    ],
)
def test_what_is_left_follows_from_the_pace_or_from_the_clock(
    settings: dict[str, float], total: int, left: float
) -> None:
    training = TrainingConfig.model_validate(settings)
    entries = [logged(10, 1.0, 10.0)]
    assert total_steps(training, entries) == total
    assert seconds_left(training, total, entries[-1]) == pytest.approx(left)
    assert total_steps(TrainingConfig.model_validate({"epochs": 2}), [{"step": 3}]) is None


def test_long_lines_keep_their_ends_and_extremes() -> None:
    dice = random.Random(0)
    points = [(step, dice.random()) for step in range(20_000)]
    points[777], points[13_000] = (777, 9.0), (13_000, -9.0)
    thin = thinned(points)
    assert len(thin) <= POINTS
    assert thin == sorted(set(thin))
    assert (thin[0], thin[-1]) == (points[0], points[-1])
    assert {points[777], points[13_000]} <= set(thin) <= set(points)
    assert thinned(points[:POINTS]) == points[:POINTS]
