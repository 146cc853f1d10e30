"""Disks that are full or that cannot be written to."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from random import Random

import actions
import pytest
from forks import Outcome
from kinds import FIRST, Case
from laboratory import Laboratory, ended
from tally import Counting, Tally
from workshop import of_cases

from seqloom.files import TEMPORARY

pytestmark = pytest.mark.faults
READING = ("score", "evaluate", "generate")
SIZES = (0, 100, 1000, 4000, 20_000, 100_000)  # of the largest file that can be written, in bytes


def check(laboratory: Laboratory, case: Case, folder: Path, outcome: Outcome, trial: str, trials: Tally) -> None:
    """A training on a full disk says so and leaves nothing half-written; when there is room, it goes on."""
    verdict, said = ended(outcome), outcome.value
    unfinished = [str(path) for path in folder.rglob(TEMPORARY + "*")]
    if verdict in ("right", "refused"):
        verdict, said = laboratory.result(case, folder, laboratory.go_on(case, folder))
    if verdict == "right" and unfinished:
        verdict, said = "leftovers", ", ".join(unfinished)
    trials.add(f"{case.name}, {trial}", verdict, said)


def try_full_disks(laboratory: Laboratory, case: Case, trials: Tally, moments: Iterable[int]) -> None:
    """Train on a disk that is full from some file event on."""
    for at in moments:
        folder = laboratory.new_folder()
        outcome = laboratory.train(case, folder, disturbance="full", at=at)
        check(laboratory, case, folder, outcome, f"full from event {at}", trials)


@of_cases(FIRST)
def test_a_disk_full_at_any_moment_is_said_and_the_run_goes_on(
    case: Case, laboratory: Laboratory, tally: Counting
) -> None:
    events = laboratory.reference(case).events
    with tally("disk") as trials:
        try_full_disks(laboratory, case, trials, Random(case.name).sample(range(1, events + 1), 20))


@of_cases(FIRST)
def test_a_file_that_grows_too_large_is_said_and_the_run_goes_on(
    case: Case, laboratory: Laboratory, tally: Counting
) -> None:
    laboratory.reference(case)
    with tally("disk") as trials:
        for largest in SIZES:
            folder = laboratory.new_folder()
            outcome = laboratory.server.call(actions.train_small_files, case.name, folder, largest)
            check(laboratory, case, folder, outcome, f"files up to {largest} bytes", trials)


@of_cases(FIRST)
def test_a_run_that_cannot_be_written_to_is_read(
    case: Case, laboratory: Laboratory, tally: Counting, tmp_path: Path
) -> None:
    run = laboratory.reference(case).path
    with tally("disk") as trials:
        for verb in set(READING) & set(case.verbs):
            words = case.command(verb, tmp_path)
            outcome = laboratory.server.call(actions.command, *words, read_only=str(run))
            failed = outcome.ending == "done" and outcome.value != 0
            trials.add(f"{verb} {case.name}", "stuck" if failed else ended(outcome), outcome.said)
