"""How long a comparison will take, and how long it may take."""

from __future__ import annotations

from pathlib import Path

import pytest

from seqloom.config import load_config
from seqloom.kinds import compare, kind_named
from seqloom.kinds.dbn import sharing_time
from seqloom.progress import Reporter
from seqloom.runs.timetable import Timetable, foreseen
from seqloom.training import Processes, Trainer

SMALL = ["data.batch_size=4", "data.length=8", "training.device=cpu", "text.min_count=1"]


class Clock:
    """Shows what it was set to."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def _no_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("seqloom.reports.ladder_page.write_ladder_page", lambda ladder, path: None)


def test_what_is_left_follows_the_pace_of_what_is_done() -> None:
    clock = Clock()
    timetable = Timetable([10.0, None, 0.0, 20.0, 30.0], clock)
    assert timetable.left() == 60.0
    left = []
    for now in (100.0, 115.0, 116.0, 118.0, 148.0):
        clock.now = now
        timetable.begin()
        left.append(timetable.left(len(left)))
    # 15 s for 10; what was not foreseen, or finished before, says nothing; then 45 s for 30.
    assert left == [60.0, 1.5 * 50, 1.5 * 50, 1.5 * 50, 1.5 * 30]


def test_a_training_is_foreseen_by_a_few_of_its_steps(corpus_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A step that takes 2 s and a validation that takes 5: 100 steps with 4 validations take 220."""
    clock = Clock()
    monkeypatch.setattr("seqloom.training.trainer.time.perf_counter", clock)

    def takes(seconds: float, method: str) -> None:
        real = getattr(Trainer, method)

        def slow(self: Trainer) -> object:
            clock.now += seconds
            return real(self)

        monkeypatch.setattr(Trainer, method, slow)

    takes(2.0, "_optimise")
    takes(5.0, "_figures")
    processes = Processes.join("cpu")

    def expected(*settings: str) -> float | None:
        config = load_config("rnn", [f"data.train={corpus_file}", *SMALL, "training.validate_every=25", *settings])
        return foreseen(kind_named(config.model.kind).settle(config), processes)

    assert expected("training.steps=100") == pytest.approx(220.0)
    assert expected("training.steps=100", "training.minutes=2") == pytest.approx(120.0)
    ngram = load_config("ngram", [f"data.train={corpus_file}"])
    assert foreseen(kind_named("ngram").settle(ngram), processes) is None


def test_minutes_are_shared_by_all_trainings(corpus_file: Path, tmp_path: Path) -> None:
    class Heard(Reporter):
        lines: list[str] = []

        def say(self, message: str) -> None:
            self.lines.append(message)

    text = [f"data.train={corpus_file}", *SMALL, "training.steps=2"]
    compare(["average", "ngram", "rnn"], text, tmp_path, seeds=2, minutes=8.0, reporter=Heard())
    found = {path.parent.name: load_config(path).training.minutes for path in sorted(tmp_path.glob("*/config.yaml"))}
    shares = dict.fromkeys(("average", "average-seed-1", "rnn", "rnn-seed-1"), 2.0)
    assert found == {**shares, "ngram": None}
    assert Heard.lines[1].endswith("for all of them, not counting ngram")
    assert sum(line.startswith("model 1 of 3: average: ") for line in Heard.lines) == 2
    Heard.lines.clear()
    compare(["average", "ngram", "rnn"], text, tmp_path, seeds=2, minutes=8.0, reporter=Heard())
    assert len(Heard.lines) == 5  # all are there: nothing is timed


def test_the_stages_of_a_network_share_its_minutes() -> None:
    """Two machines, all layers together, and a classifier; or the classifier alone."""
    whole = load_config("dbn", ["training.minutes=8"])
    assert sharing_time(whole).training.minutes == 2.0
    assert sharing_time(load_config("dbn", ["training.minutes=8", "model.pretrain=false"])).training.minutes == 8.0
    assert sharing_time(load_config("dbn")).training.minutes is None
