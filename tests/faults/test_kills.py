"""`kill -9` at every file event of every kind of run, once and twice: resumed, a run ends as if nothing happened."""

from __future__ import annotations

import random
import time
from collections.abc import Iterable
from pathlib import Path
from signal import SIGKILL

import actions
import pytest
from kinds import CASES, FIRST, Case
from laboratory import Laboratory, lost_bytes, newest_checkpoints
from tally import Counting, Tally
from workshop import of_cases

pytestmark = pytest.mark.faults
OTHERS = [case for case in CASES if case not in FIRST]


def kill(laboratory: Laboratory, case: Case, folder: Path, moments: Iterable[int]) -> int:
    """Train, and go on, each time until a kill at some event; the bytes of checkpoints that were lost on the way."""
    lost, before = 0, newest_checkpoints(folder)
    for number, at in enumerate(moments):
        outcome = laboratory.go_on(case, folder, disturbance="kill", at=at)
        killed = (outcome.ending, outcome.value) == ("crash", -SIGKILL)
        assert killed or number, outcome  # one that goes on has fewer events, and may end before
        after = newest_checkpoints(folder)
        lost, before = lost + lost_bytes(before, after), after
    return lost


def check_recovery(laboratory: Laboratory, case: Case, folder: Path, trial: str, trials: Tally, lost: int = 0) -> None:
    """A run that was killed loads or says why not, and goes on to the end that it would have had."""
    verdict, said = laboratory.loads(case, folder)
    if verdict in ("right", "refused"):
        verdict, said = laboratory.result(case, folder, laboratory.go_on(case, folder))
    trials.add(f"{case.name} {trial}", verdict, said, lost)


def try_kills(laboratory: Laboratory, case: Case, trials: Tally, rows: Iterable[tuple[int, ...]]) -> None:
    """Kill a run at these events, one row after another."""
    for moments in rows:
        folder = laboratory.new_folder()
        lost = kill(laboratory, case, folder, moments)
        check_recovery(laboratory, case, folder, f"killed at {moments}", trials, lost)


def drawn(laboratory: Laboratory, case: Case, rows: int, times: int) -> list[tuple[int, ...]]:
    """Some moments to kill at, the same in every session."""
    choose = random.Random(f"{case.name} {times}")
    return [tuple(choose.randint(1, laboratory.reference(case).events) for _ in range(times)) for _ in range(rows)]


@of_cases(FIRST)
def test_a_run_killed_at_any_event_goes_on(case: Case, laboratory: Laboratory, tally: Counting) -> None:
    with tally("kills") as trials:
        before = {}
        for at in range(1, laboratory.reference(case).events + 1):
            folder = laboratory.new_folder()
            kill(laboratory, case, folder, [at])
            after = newest_checkpoints(folder)  # an event later, there is no less than there was
            check_recovery(laboratory, case, folder, f"killed at {at}", trials, lost_bytes(before, after))
            before = after


@of_cases(OTHERS)
def test_every_other_case_killed_at_some_events_goes_on(case: Case, laboratory: Laboratory, tally: Counting) -> None:
    with tally("kills") as trials:
        try_kills(laboratory, case, trials, drawn(laboratory, case, 6, 1))


@of_cases(FIRST)
def test_a_run_killed_again_as_it_goes_on_goes_on(case: Case, laboratory: Laboratory, tally: Counting) -> None:
    with tally("kills twice") as trials:
        try_kills(laboratory, case, trials, drawn(laboratory, case, 16, 2) + drawn(laboratory, case, 4, 3))


@of_cases(FIRST)
def test_a_run_killed_at_any_moment_goes_on(case: Case, laboratory: Laboratory, tally: Counting) -> None:
    """Between file events too, where bytes are being written."""
    moments = random.Random(case.name)
    began = time.monotonic()
    laboratory.train(case, laboratory.new_folder())
    seconds = time.monotonic() - began
    with tally("kills") as trials:
        for _ in range(6):
            folder = laboratory.new_folder()
            child = laboratory.server.begin(actions.train, case.name, folder)
            time.sleep(moments.uniform(0, seconds))
            child.signal(SIGKILL)
            child.end()
            check_recovery(laboratory, case, folder, "killed at a random moment", trials)
