"""How long training takes: warm-up as a share, schedules that follow the clock, why it stopped. The clock is a fake."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from sealing import unfinish

import seqloom
from seqloom.config import load_config, preset_names
from seqloom.config.schema.training import ScheduleConfig
from seqloom.errors import ConfigError
from seqloom.progress import Silent
from seqloom.training import Trainer, read_metrics
from seqloom.training.optimizers import Schedule

STUCK = ("training.optimizer.learning_rate=1e-30", "training.optimizer.weight_decay=0")

pytestmark = pytest.mark.usefixtures("no_reports")


@pytest.fixture
def tiny(corpus_file: Path) -> list[str]:
    return [
        f"data.train={corpus_file}",
        "data.unit=line",
        "text.min_count=1",
        "data.batch_size=4",
        "data.length=8",
        "model.embedding.size=8",
        "model.features.size=8",
        "training.log_every=1",
        "training.validate_every=4",
        "training.checkpoint_every=4",
        "training.device=cpu",
    ]


@pytest.fixture
def a_second_each(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every step takes a second."""
    monkeypatch.setattr(Trainer, "_clock", lambda self, began: float(self.progress.step))


class Heard(Silent):
    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, message: str) -> None:
        self.lines.append(message)

    @property
    def last(self) -> str:
        return [line for line in self.lines if not line.startswith("writing ")][-1]


def rates(folder: Path) -> list[float]:
    peak = load_config(folder / "config.yaml").training.optimizer.learning_rate
    return [entry["learning_rate"] / peak for entry in read_metrics(folder) if "learning_rate" in entry]


# ---------------------------------------------------------------------------------------------------------- schedules


@pytest.mark.parametrize("kind", ["constant", "linear", "cosine", "inverse-sqrt"])
@pytest.mark.parametrize(("steps", "share", "total"), [(50, 0.126, 396), (300, 0.1913, 1568), (500, 0.0417, 12_000)])
def test_a_share_is_the_same_as_its_steps(kind: str, steps: int, share: float, total: int) -> None:
    by_steps = Schedule(ScheduleConfig(kind=kind, warmup=steps, final=0.1), total)
    by_share = Schedule(ScheduleConfig(kind=kind, warmup=share, final=0.1), total)
    assert [by_share.rate(step) for step in range(total)] == [by_steps.rate(step) for step in range(total)]


@pytest.mark.parametrize("kind", ["constant", "linear", "cosine", "inverse-sqrt"])
def test_a_clock_that_is_ahead_is_as_good_as_steps(kind: str) -> None:
    schedule = Schedule(ScheduleConfig(kind=kind, warmup=0.1, final=0.05), 1024)
    for reached in (1, 64, 128, 512, 1023):
        assert schedule.rate(0, reached / 1024) == schedule.rate(reached, 0.0) == schedule.rate(reached, 0.5 / 1024)


def test_steps_of_warm_up_are_steps_whatever_the_clock_says() -> None:
    schedule = Schedule(ScheduleConfig(kind="cosine", warmup=100), 1000)
    assert schedule.rate(49, 0.9) == 0.5


def test_a_warm_up_shorter_than_a_step_is_over_at_once() -> None:
    assert Schedule(ScheduleConfig(warmup=0.001), 10).rate(0) == 1.0


def test_a_warm_up_is_a_share_or_whole_steps() -> None:
    assert load_config("lstm", ["training.schedule.warmup=300"]).training.schedule.warmup == 300
    for wrong in ("1.5", "-0.1", "some"):
        with pytest.raises(ConfigError, match=r"training\.schedule\.warmup"):
            load_config("lstm", [f"training.schedule.warmup={wrong}"])


def test_presets_warm_up_for_a_share() -> None:
    warmups = {name: load_config(name).training.schedule.warmup for name in preset_names()}
    assert [name for name, warmup in warmups.items() if warmup and isinstance(warmup, int)] == []
    assert isinstance(warmups["translate-en-zh"], float)


# ----------------------------------------------------------------------------------------------------------- training


@pytest.mark.usefixtures("a_second_each")
def test_warm_up_and_decay_fit_into_the_time_that_there_is(tiny: list[str], tmp_path: Path) -> None:
    """20 seconds of a plan of 1,000 steps: the rate rises for five of them, and comes down to the end."""
    heard = Heard()
    plan = ["training.steps=1000", "training.minutes=0.33333", "training.schedule.warmup=0.25"]
    seqloom.train("lstm", [*tiny, *plan], tmp_path / "run", reporter=heard)
    found = rates(tmp_path / "run")
    assert len(found) == 20
    assert found[:5] == sorted(found[:5])
    assert found[5] == max(found) > 0.8
    assert found[5:] == sorted(found[5:], reverse=True)
    assert found[-1] < 0.12  # the preset's `final` is 0.1
    assert heard.last == "stopped: the time is over (training.minutes=0.33333), at step 20 of 1,000"
    assert not any("warning" in line for line in heard.lines)


@pytest.mark.usefixtures("a_second_each")
def test_resuming_by_the_clock_is_exact(tiny: list[str], tmp_path: Path) -> None:
    plan = [*tiny, "training.steps=1000", "training.minutes=0.2", "training.keep=9"]
    seqloom.train("lstm", plan, tmp_path / "whole")
    shutil.copytree(tmp_path / "whole", tmp_path / "parts")
    for late in sorted((tmp_path / "parts" / "checkpoints").iterdir())[1:]:
        shutil.rmtree(late)
    unfinish(tmp_path / "parts")
    seqloom.train("lstm", [], tmp_path / "parts", resume=True)
    assert rates(tmp_path / "parts") == rates(tmp_path / "whole")
    for file in ("model.safetensors", "checkpoints/step-00000013/training.safetensors"):
        assert (tmp_path / "parts" / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


@pytest.mark.usefixtures("a_second_each")
def test_no_step_is_made_when_the_time_was_over(tiny: list[str], tmp_path: Path) -> None:
    """Killed between its last checkpoint and its end, a run that goes on has nothing left to do."""
    seqloom.train("lstm", [*tiny, "training.steps=1000", "training.minutes=0.1"], tmp_path / "run")
    before = read_metrics(tmp_path / "run")
    unfinish(tmp_path / "run")
    heard = Heard()
    seqloom.train("lstm", [], tmp_path / "run", resume=True, reporter=heard)
    assert read_metrics(tmp_path / "run") == before
    assert heard.last.startswith("stopped: the time is over")
    assert any("counts from the first step, and this run has had 0.117" in line for line in heard.lines)
    seqloom.train("lstm", ["training.minutes=0.12"], tmp_path / "run", resume=True)
    assert read_metrics(tmp_path / "run")[-1]["step"] == 8


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        (["training.epochs=0.5"], "done: all 0.5 epochs"),
        (["training.steps=3"], "done: all 3 steps"),
        (
            ["training.steps=99", "training.patience=1", "training.validate_every=1", *STUCK],
            "stopped: no improvement in a while (training.patience=1), at step 2 of 99",
        ),
    ],
    ids=["epochs", "steps", "patience"],
)
def test_the_end_says_why(settings: list[str], expected: str, tiny: list[str], tmp_path: Path) -> None:
    heard = Heard()
    seqloom.train("rnn", [*tiny, *settings], tmp_path / "run", reporter=heard)
    assert heard.last == expected


@pytest.mark.usefixtures("a_second_each")
@pytest.mark.parametrize(
    ("plan", "said"),
    [
        (["training.steps=5", "training.schedule.warmup=6"], "the training has 5 steps"),
        (
            ["training.steps=500", "training.minutes=0.1", "training.schedule.warmup=60"],
            "there is time for about 6 steps",
        ),
    ],
    ids=["steps", "clock"],
)
def test_a_training_shorter_than_its_warm_up_is_warned_about_once(
    plan: list[str], said: str, tiny: list[str], tmp_path: Path
) -> None:
    heard = Heard()
    seqloom.train("rnn", [*tiny, *plan], tmp_path / "run", reporter=heard)
    (warning,) = [line for line in heard.lines if line.startswith("warning")]
    assert said in warning
    assert "training.schedule.warmup" in warning
