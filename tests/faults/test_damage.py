"""A file of a run that is not what was written: the right answer, or one sentence; never another answer."""

from __future__ import annotations

from pathlib import Path
from random import Random

import actions
import pytest
from damage import ACCIDENTS, accidents
from kinds import FIRST, Case
from laboratory import Laboratory, contents, ended, untimed
from tally import Counting, Tally, Verdict
from workshop import of_cases

pytestmark = pytest.mark.faults
# By a run that goes on; what is in them is said elsewhere.
UNREAD = {"metrics.jsonl", "samples.jsonl", "normaliser.json", "report.html"}


def interrupted(laboratory: Laboratory, case: Case) -> Path:
    """A run that was killed when three quarters were done, with checkpoints where it makes any."""
    folder = laboratory.new_folder()
    laboratory.train(case, folder, disturbance="kill", at=laboratory.reference(case).events * 3 // 4)
    return folder


def try_accidents(laboratory: Laboratory, case: Case, run: Path, most: int, trials: Tally) -> None:
    """Damage the files of copies of a run, one after another, and ask them, and go on with them."""
    choose = Random(f"{case.name} {most}")
    undamaged = laboratory.ask(case, laboratory.copy(run))
    for file, way in accidents(run, choose, most):
        copy = laboratory.copy(run)
        ACCIDENTS[way](copy / file, choose)
        asked = laboratory.ask(case, copy)
        verdict, said = ended(asked), asked.value
        if asked.ending == "done" and asked.value != undamaged.value:
            verdict, said = "silent", "other answers"
        if verdict in ("right", "refused"):
            verdict, said = resumed(laboratory, case, copy)
        trials.add(f"{case.name}, {run.name}: {file}: {way}", verdict, said)


def resumed(laboratory: Laboratory, case: Case, folder: Path) -> tuple[Verdict, object]:
    """What going on with a damaged run comes to. What nobody reads any more may stay as it is; entries of the log may
    be gone, and none may be another."""
    outcome = laboratory.go_on(case, folder)
    if outcome.ending != "done":
        return ended(outcome), outcome.value
    logged = laboratory.server.call(actions.read_metrics, folder)
    if logged.ending != "done":
        return ended(logged), logged.value
    expected = laboratory.reference(case).contents
    if any(untimed(entry) not in expected["metrics.jsonl"] for entry in logged.value):
        return "silent", "other entries in metrics.jsonl"
    read = {
        name: content
        for name, content in expected.items()
        if Path(name).name not in UNREAD and Path(name).suffix != ".png" and "checkpoints" not in Path(name).parts
    }
    return laboratory.compared(contents(folder, read), read)


@of_cases(FIRST)
def test_damage_to_a_finished_run_is_noticed(case: Case, laboratory: Laboratory, tally: Counting) -> None:
    with tally("damage") as trials:
        try_accidents(laboratory, case, laboratory.reference(case).path, 40, trials)


@of_cases(FIRST)
def test_damage_to_an_interrupted_run_is_noticed(case: Case, laboratory: Laboratory, tally: Counting) -> None:
    with tally("damage") as trials:
        try_accidents(laboratory, case, interrupted(laboratory, case), 40, trials)
