"""What a run tells of its training: of one stage, of several, and of none."""

from __future__ import annotations

import math
from pathlib import Path

from seqloom.runs.log import TrainingLog
from seqloom.training import Journal


def logged(folder: Path, *entries: dict[str, object]) -> TrainingLog:
    journal = Journal(folder)
    for entry in entries:
        journal.write(entry)
    journal.close()
    return TrainingLog.of(folder)


def test_one_stage(tmp_path: Path) -> None:
    log = logged(
        tmp_path,
        {"step": 2, "epoch": 0.5, "tokens": 20, "seconds": 1.0, "tokens_per_second": 20.0},
        {"step": 2, "tokens": 20, "seconds": 1.5, "valid_loss": 3.0},
        {"step": 4, "epoch": 1.0, "tokens": 40, "seconds": 2.5, "tokens_per_second": 40.0},
        {"step": 4, "tokens": 40, "seconds": 3.0, "valid_loss": 2.0},
        {"step": 6, "tokens": 60, "seconds": 4.0, "valid_loss": 2.5},
    )
    assert (log.seconds, log.seen, log.passes(), log.speed) == (4.0, 60, 1.0, 30.0)
    assert [entry["valid_loss"] for entry in log.validations] == [3.0, 2.0, 2.5]
    assert log.best["step"] == 4


def test_the_costs_of_several_stages_add_up_and_their_losses_do_not_compare(tmp_path: Path) -> None:
    log = logged(
        tmp_path,
        {"step": 1, "stage": "one", "epoch": 2.0, "tokens": 20, "seconds": 1.0, "valid_loss": 0.1},
        {"step": 2, "stage": "two", "epoch": 3.0, "tokens": 30, "seconds": 2.0, "valid_loss": 5.0},
        {"step": 3, "stage": "two", "epoch": 4.0, "tokens": 40, "seconds": 3.0, "valid_loss": 5.0},
    )
    assert (log.seconds, log.seen, log.passes()) == (4.0, 60, 6.0)
    assert log.validations == []
    assert log.best["step"] == 3  # of the last stage, and the last of equals


def test_passes_of_what_is_counted_follow_from_the_size_of_the_text(tmp_path: Path) -> None:
    log = logged(tmp_path, {"step": 1, "tokens": 500, "seconds": 0.1, "tokens_per_second": 5000.0})
    assert log.passes(250) == 2.0
    assert math.isnan(log.passes())


def test_nobody_knows_how_an_imported_run_was_trained(tmp_path: Path) -> None:
    log = TrainingLog.of(tmp_path)
    assert all(math.isnan(number) for number in (log.seconds, log.seen, log.passes(10), log.speed))
    assert log.validations == []
    assert log.best == {}
